"""What a plan says about topology spread over domains that have no node yet. O(N + groups), if a pod asks for it."""

from typing import Final

import numpy as np

from trimtab.planner.facts.label_values import values_by_label_set
from trimtab.planner.predicates.topologies import HOSTNAME
from trimtab.planner.scale_up.plan import ScaleUpPlan

_SHOWN: Final = 3


def spread_notes(plan: ScaleUpPlan) -> list[str]:
    """Return a note for each topology key over which pods on new nodes spread, if more domains could get nodes."""
    context, snapshot = plan.context, plan.context.request.snapshot
    if context.request.settings.spread_over_new_domains:
        return []
    pods = plan.unplaced.pending.pods
    on_new = pods[np.isin(plan.progress.state.pod_node[pods], plan.progress.opened)]
    specs = [snapshot.specs[at] for at in np.unique(snapshot.pods.spec[on_new]).tolist()]
    spreads = (one for spec in specs for one in spec.topology_spread)
    keys = {one.topology_key for one in spreads if one.min_domains <= 1 and one.topology_key != HOSTNAME}
    may_grow = [one.template for at, one in enumerate(context.templates) if one and context.limits.reasons[at] == 0]
    found = []
    for key in sorted(keys):
        by_set = values_by_label_set(snapshot, key)
        there = {by_set[at] for at in np.unique(snapshot.nodes.label_set).tolist()}
        new = sorted({value for one in may_grow for name, value in one.labels if name == key} - there)
        if len(new) > 1 or (new and there - {None}):
            shown = ", ".join(new[:_SHOWN]) + (", …" if len(new) > _SHOWN else "")
            found.append(
                f"pods spread only over values of {key} that have nodes, as in kube-scheduler, so not over {shown}; "
                "minDomains in the constraint makes it wait for nodes in as many"
            )
    return found
