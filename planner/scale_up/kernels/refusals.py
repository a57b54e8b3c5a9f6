"""Why a new node of each group refuses each pod. O(groups · pods · terms)."""

from trimtab.planner.compiled.decorators import kernel, widened
from trimtab.planner.simulation.kernels import failing, mark, open_as, revert
from trimtab.planner.simulation.state import SimulationState
from trimtab.planner.snapshot.columns import Int32, Int64


@kernel
def refusals(sim: SimulationState, blank: int, prototypes: Int64, pods: Int32, masks: Int64) -> None:
    """Write the mask `1 << PredicateReason.Code` of the predicates that fail for a pod on a new node of a group, 0 = it
    fits.

    blank : a closed blank node; prototypes : int64[Q], -1 = none; pods : int32[M], on no node; masks : int64[M, Q], -1
    if the group has no prototype. All changes are undone.
    """
    for q in range(len(prototypes)):
        if prototypes[q] < 0:
            for row in range(len(pods)):
                masks[row, q] = -1
            continue
        before = mark(sim)
        open_as(sim, blank, prototypes[q])
        for row in range(len(pods)):
            masks[row, q] = failing(sim, widened(pods[row]), blank)
        revert(sim, before)
