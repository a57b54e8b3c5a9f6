"""NodeAffinity: `nodeSelector` and required node affinity.

Source: plugin nodeaffinity, v1.34.3. The evaluation is in `trimtab.planner.classes.node_requirements`.
"""

import numpy as np

from trimtab.planner.classes.node_requirements import NodeRows
from trimtab.planner.classes.scheduling_specs import NodeRequirement
from trimtab.planner.model.effort import UNLIMITED, Effort
from trimtab.planner.snapshot.columns import Bool


def excluded(requirements: list[NodeRequirement], rows: NodeRows, effort: Effort = UNLIMITED) -> Bool:
    """Return which node classes each requirement excludes : bool[requirements, K]."""
    effort.take(2 * len(requirements) * rows.count, "node requirements times node classes")
    out = np.zeros((len(requirements), rows.count), np.bool_)
    for at, requirement in enumerate(requirements):
        effort.check()
        if requirement != ((), None):
            out[at] = ~rows.meet(requirement)
    return out
