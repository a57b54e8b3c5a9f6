"""Instructions: the work to do next. The tracker's only output, carried out by the runner. Each may be carried out
twice (after a crash) and must be idempotent.
"""

import msgspec

from trimtab.actuator.tracker.states import GroupGrowth, PodRef


class Instruction(msgspec.Struct, frozen=True):
    """Something to do."""


class WriteTaints(Instruction, frozen=True):
    """Taint all `nodes` of a request. Report `SetTainted`, or `SetFailed` at the first permanent failure. `uids` : of
    the nodes, in their order; another node of the name is not tainted.
    """

    request_id: str
    nodes: tuple[str, ...]
    uids: tuple[str, ...]


class CheckEmpty(Instruction, frozen=True):
    """Check that a node without drain has no pod to move. Report `NodeEmpty` or `DeletionFailed`.

    `node_uid`, `taint_restored` : as for `Drain`.
    """

    node: str
    node_uid: str = ""
    taint_restored: bool = False


class Drain(Instruction, frozen=True):
    """Drain a node until `deadline_ms` (0 = `timeout_s` from the start of the drain).

    `pods` and `evicted` are what an earlier run recorded; another node that has the name but not `node_uid` is left
    alone ("" = the name decides). `taint_restored` : an earlier run restored the taint, perhaps just before it ended,
    so pods may still come. Report `DrainStarted` before the first eviction, then
    `PodsEvicted`, `DrainProgressed` and `Drained` or `DeletionFailed`. `waits_for_gang` : report `DrainStarted`, but
    evict nothing before `EvictPods`.
    """

    node: str
    timeout_s: float
    deadline_ms: int = 0
    planned_uids: tuple[str, ...] | None = None
    pods: tuple[PodRef, ...] = ()
    evicted: frozenset[str] = frozenset()
    node_uid: str = ""
    taint_restored: bool = False
    waits_for_gang: bool = False


class EvictPods(Instruction, frozen=True):
    """Continue a drain that waits for its gang: the drains of all nodes of the gang have begun."""

    node: str


class BeginDelete(Instruction, frozen=True):
    """Report `DeleteBegun`."""

    node: str


class DeleteInstance(Instruction, frozen=True):
    """Delete the instance in the cloud. Report `DeleteAccepted`, then `InstanceGone` or `DeletionFailed`.

    `drained_by_caller` : another autoscaler has tainted and drained the node, and has waited for any delay.
    `taint_restored` : as for `Drain`; pods may have come meanwhile. `node_uid` "" = the instance never registered.
    `accepted` : the cloud has accepted it from an earlier run, `has_left` : and reported the instance as leaving or
    missing. `group_grew` : as for `EndRepeats`.
    """

    node: str
    node_group: str
    provider_id: str
    node_uid: str
    drained_by_caller: bool = False
    taint_restored: bool = False
    accepted: bool = False
    has_left: bool = False
    group_grew: bool = False


class EndRepeats(Instruction, frozen=True):
    """Request no deletion of this group again that the cloud has accepted: the group is about to grow, and a new
    machine may come under the provider id of one that was deleted.
    """

    node_group: str


class RollBack(Instruction, frozen=True):
    """Stop all work on the node, remove its taint, report `RolledBack`. `node_uid` : another node of the name keeps its
    taint.

    `drained_by_caller` : the taint may be another autoscaler's, which also cordoned the node. `pods` and `evicted` are
    what the drain recorded, if evictions are in doubt: first report by `PodsEvicted` those that were granted although
    the answer was lost.
    """

    node: str
    node_uid: str
    pods: tuple[PodRef, ...] = ()
    evicted: frozenset[str] = frozenset()
    drained_by_caller: bool = False


class Grow(Instruction, frozen=True):
    """Request scale-ups and reductions from the cloud, once for each `request_id`. Report `GrowthAnswered` once the
    result of each is known. `since_ms` is the time of the request.
    """

    request_id: str
    growths: tuple[GroupGrowth, ...]
    since_ms: int


class CarryOut(Instruction, frozen=True):
    """Work on a replacement, in steps by its stage, until it has ended."""

    request_id: str
