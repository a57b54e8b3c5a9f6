"""Stages of a replacement, and the data that the tracker keeps of it. Decides only the form of the data.

Times are Unix milliseconds (`*_ms`), durations seconds (`*_s`), prices those of one node for one hour. The numbers of
the enumerations are those of `ReplacementStage`, `ReplacementNewNodeState` and `LeavingNodeState` in
`protos/trimtab/v1/actuator.proto`.
"""

from enum import IntEnum

import msgspec

from trimtab.v1 import reason_pb2

ReplacementReason = reason_pb2.ReplacementReason.Code
MOST_ORDERS = 20
"""Most orders of one replacement: an order is made again if another client has changed a group's size meanwhile."""
MOST_TRIES = 3
"""How often the deletion of a node that leaves begins: it begins again if another node of its set was not tainted."""


class WaveStage(IntEnum):
    """Stage of a replacement."""

    PLANNED = 1
    ORDERING = 2
    WAITING = 3
    DRAINING = 4
    ROLLING_BACK = 5
    DONE = 6
    FAILED = 7
    CANCELLED = 8


FINAL_STAGES = frozenset({WaveStage.DONE, WaveStage.FAILED, WaveStage.CANCELLED})


class NewNodeState(IntEnum):
    """State of a new node."""

    TO_ORDER = 1
    ORDERED = 2
    READY = 3
    MISSING = 4
    SURPLUS = 5
    GIVEN_BACK = 6
    STAYS = 7


class LeavingState(IntEnum):
    """State of a node that leaves."""

    WAITS = 1
    IN_DELETION = 2
    GONE = 3
    STAYS = 4


class WantedNode(msgspec.Struct, frozen=True):
    """A new node of the plan. `alternatives` : node groups to try in its place, in order; all have a price."""

    name: str
    node_group: str
    price: float
    alternatives: tuple[str, ...] = ()


class DepartingNode(msgspec.Struct, frozen=True):
    """A node that leaves by the plan. `needs` : names of the new nodes to which its pods go; `pods_digest` None = the
    plan makes no assumption about its pods.
    """

    node: str
    node_group: str
    price: float
    drain: bool
    pods_count: int = 0
    pods_digest: str | None = None
    needs: tuple[str, ...] = ()


class NewNode(msgspec.Struct):
    """A new node: `node_group` is where it was ordered last. Changed by the tracker alone."""

    name: str
    node_group: str
    price: float
    # Node groups that were not tried yet, and those that gave no node.
    alternatives: tuple[str, ...]
    failed: tuple[str, ...] = ()
    state: NewNodeState = NewNodeState.TO_ORDER
    # Name and provider id of the node; "" = it is not ready yet.
    node: str = ""
    provider_id: str = ""
    detail: str = ""


class LeavingNode(msgspec.Struct):
    """A node that leaves. Changed by the tracker alone."""

    plan: DepartingNode
    state: LeavingState = LeavingState.WAITS
    # `DeletionReason.Code` and text: why it stays.
    reason: int = 0
    detail: str = ""
    # How often its deletion began.
    tries: int = 0


class SizeChange(msgspec.Struct, frozen=True):
    """A target size that is to be lowered, by instances that have not started."""

    expected: int
    wanted: int


class TrackedReplacement(msgspec.Struct):
    """A replacement. Changed by the tracker alone."""

    request_id: str
    digest: str
    start_ms: int
    stage_ms: int
    planned_saving: float
    min_saving: float
    ready_timeout_s: float
    prices: dict[str, float]
    new_nodes: list[NewNode]
    leaving: list[LeavingNode]
    stage: WaveStage = WaveStage.PLANNED
    # Number of orders; names of the nodes in the last one, and whether the cloud has not answered it.
    order_count: int = 0
    order_names: tuple[str, ...] = ()
    order_open: bool = False
    # When the last order was answered, and until when its nodes have to be ready; 0 = not yet.
    ordered_ms: int = 0
    deadline_ms: int = 0
    # Instances of each group before the first order from it.
    members: dict[str, tuple[str, ...]] = {}
    # Orders that were given up for an alternative: a late node is given back.
    abandoned: list[NewNode] = []
    # Target sizes being lowered, and the groups for which that is over.
    lowering: dict[str, SizeChange] = {}
    lowered: tuple[str, ...] = ()
    # Number of requests for deletions.
    deletion_count: int = 0
    # Whether the soft taints are removed again.
    unmarked: bool = False
    # What is saved; None = not known, or rolled back.
    achieved: float | None = None
    # `ReplacementReason.Code` and text: why a part or all of it was not carried out.
    reason: int = 0
    detail: str = ""

    @property
    def ordered_nodes(self) -> list[NewNode]:
        """Return all nodes that were, or are to be, ordered: those given up for an alternative last."""
        return [*self.new_nodes, *self.abandoned]
