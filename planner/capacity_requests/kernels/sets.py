"""Places equal pods on existing nodes, many at a time. Source: own."""

from trimtab.planner.compiled.decorators import kernel, widened
from trimtab.planner.placement.kernels.packing import is_countable
from trimtab.planner.placement.kernels.search import room_for
from trimtab.planner.simulation.kernels import place
from trimtab.planner.simulation.kernels.checks import fits_locally
from trimtab.planner.simulation.state import SimulationState
from trimtab.planner.snapshot.columns import Int32, Int64

NOT_COUNTABLE = -1


@kernel
def place_equal(sim: SimulationState, first: int, count: int, order: Int32, cursor: Int64) -> int:
    """Place `count` consecutive pods of one class from `first` on, which are on no node, on the first nodes in order
    with room; return how many have a place, or NOT_COUNTABLE if not only amounts and static predicates decide.

    order : int32[D] nodes; cursor : int64[S], in place, by class the position in `order` before which no node has room
    for it. O(D - cursor + count).
    """
    if not is_countable(sim, first):
        return NOT_COUNTABLE
    of_class, placed = widened(sim.pod_class[first]), widened(0)
    at = widened(cursor[of_class])
    while at < len(order) and placed < count:
        node = widened(order[at])
        room = widened(0)
        if fits_locally(sim, of_class, node):
            room = widened(room_for(sim, of_class, node, widened(count - placed)))
        for pod in range(first + placed, first + placed + room):
            place(sim, pod, node)
        placed += room
        if placed < count:
            at += 1
    cursor[of_class] = at
    return int(placed)
