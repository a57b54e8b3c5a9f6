"""Why a new node of each group refuses each pod. O(groups · pods · terms)."""

from trimtab.planner.compiled.decorators import kernel, widened
from trimtab.planner.simulation.kernels import failing, mark, open_from_template, revert
from trimtab.planner.simulation.state import SimulationState
from trimtab.planner.snapshot.columns import Int32, Int64


@kernel
def refusals(sim: SimulationState, spare: int, template_nodes: Int64, pods: Int32, masks: Int64) -> None:
    """Write the mask `1 << PredicateReason.Code` of the predicates that fail for a pod on a new node of a group, 0 = it
    fits.

    spare : a closed spare node; template_nodes : int64[Q], -1 = none; pods : int32[M], on no node; masks : int64[M, Q],
    -1 if the group has no template node. All changes are undone.
    """
    for q in range(len(template_nodes)):
        if template_nodes[q] < 0:
            for row in range(len(pods)):
                masks[row, q] = -1
            continue
        before = mark(sim)
        open_from_template(sim, spare, template_nodes[q])
        for row in range(len(pods)):
            masks[row, q] = failing(sim, widened(pods[row]), spare)
        revert(sim, before)
