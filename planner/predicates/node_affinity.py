"""NodeAffinity: `nodeSelector` and required node affinity.

Source: plugin nodeaffinity, v1.34.3. The evaluation is in `planner.classes.node_requirements`.
"""

import numpy as np

from planner.classes.node_requirements import NodeRows
from planner.classes.scheduling_specs import NodeRequirement
from planner.snapshot.columns import Bool


def excluded(requirements: list[NodeRequirement], rows: NodeRows) -> Bool:
    """Return which node classes each requirement excludes : bool[requirements, K]."""
    out = np.zeros((len(requirements), rows.count), np.bool_)
    for at, requirement in enumerate(requirements):
        if requirement != ((), None):
            out[at] = ~rows.meet(requirement)
    return out
