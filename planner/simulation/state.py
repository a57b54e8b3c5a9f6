"""The mutable state of a placement simulation, in one NamedTuple that kernels take as a whole. Contract: counters only;
the predicates' modules define their meaning. `log` holds the moves, so that they can be undone. Two states with the
same history of moves have equal counters bit by bit.
"""

from typing import Final, NamedTuple

from trimtab.planner.compiled.by_reference import by_reference
from trimtab.planner.predicates import counters
from trimtab.planner.predicates.counters import Counters
from trimtab.planner.predicates.resources import ResourceCounters
from trimtab.planner.predicates.static import Bits
from trimtab.planner.snapshot.columns import Int32, Int64, UInt8

OPEN, CORDONED, OUTSIDE, CLOSED = 0, 1, 2, 3
"""Values of `SimulationState.node_state`."""

PLACE, REMOVE, CORDON, LEAVE_TOPOLOGY, OPEN_NODE, CLOSE_NODE, PLACE_SEVERAL = 0, 1, 2, 3, 4, 5, 6
"""Codes of moves in the log."""
LOG_FULL = -2
NOT_POSSIBLE = -1
DONE = 0


class MoveLog(NamedTuple):
    """moves : int64[capacity, 3] (move, pod, node); if a node is opened or closed (move, template_node or -1, node);
    for several pods of one class (PLACE_SEVERAL + count, class, node); length : int64[1]; refused : int64[1] moves for
    which there was no room and which were not made. `refused` is never reset: later results depend on the missing
    moves."""

    moves: Int64
    length: Int64
    refused: Int64


class VirtualNodeColumns(NamedTuple):
    """Residents and current templates of virtual nodes. resident_offsets : int32[N+1], resident : int64[n] classes of
    the pods that a node has while it is open; opened_from : int64[N] the template node whose columns a spare node has,
    -1 = none; spare : int64[1] a spare node that is never opened, whose columns the others get again when they are
    closed, -1 = none.
    """

    resident_offsets: Int32
    resident: Int64
    opened_from: Int64
    spare: Int64


@by_reference(
    "failing",
    "refusal_by_counters",
    "look_like",
    "move_node",
    "move_residents",
    "place",
    "remove",
    "cordon",
    "remove_from_topology",
    "open_from_template",
    "place_several",
    "revert",
)
class SimulationState(NamedTuple):
    """P pods and N nodes (virtual ones last), S pod classes, K node classes.

    pod_class : int64[P]; pod_node : int64[P] node or NO_NODE; pinned : int64[P] the only node a pod may go to, -1 =
    any, -2 = one that does not exist; node_class : int64[N]; node_state : uint8[N]; blocked : uint16[S, K] bits of
    static predicates; local_class : uint8[S] 1 if fitting depends on the node alone (no affinity, no spread);
    resources : amounts, with which others may reckon; counters : of all other predicates, which only these read.
    """

    pod_class: Int64
    pod_node: Int64
    pinned: Int64
    node_class: Int64
    node_state: UInt8
    blocked: Bits
    local_class: UInt8
    resources: ResourceCounters
    counters: Counters
    virtual: VirtualNodeColumns
    log: MoveLog


WRITTEN: Final = (
    "pod_node",
    "node_state",
    "resources.free",
    *(f"counters.{path}" for path in counters.WRITTEN),
)
"""Paths of the arrays that moves change, except for the log's."""
WRITTEN_BY_OPENING: Final = (
    "node_class",
    "virtual.opened_from",
    *(f"counters.{path}" for path in counters.WRITTEN_BY_OPENING),
)
"""Paths of the arrays that change besides if a spare node is opened from a template."""


def written_paths(state: SimulationState) -> tuple[str, ...]:
    """Return the paths of all arrays that moves may change in a state, except for the log's."""
    return WRITTEN + (WRITTEN_BY_OPENING if state.virtual.spare[0] >= 0 else ())
