"""States of a deletion, and the tracker's data.

Decides only the form of the data. Times are Unix milliseconds (`*_ms`), durations seconds (`*_s`).
The numbers of `State` are those of `DeletionState.Code` in `protos/trimtab/v1/actuator.proto`.
"""

from enum import IntEnum
from sys import intern

import msgspec

from trimtab.actuator.tracker.replacement_states import TrackedReplacement
from trimtab.v1 import reason_pb2

Reason = reason_pb2.DeletionReason.Code
GrowthReason = reason_pb2.GrowthReason.Code
NO_REASON: int = Reason.UNSPECIFIED


class State(IntEnum):
    """State of a deletion."""

    PLANNED = 1
    TAINTED = 2
    DRAINING = 3
    DRAINED = 4
    DELETING = 5
    DELETED = 6
    FAILED = 7
    CANCELLED = 8
    ROLLING_BACK = 9


HOUR_MS = 3_600_000
"""The window of the limit on nodes deleted in an hour."""

FINAL_STATES = frozenset({State.DELETED, State.FAILED, State.CANCELLED})


class PodRef(msgspec.Struct, frozen=True):
    """A pod and its controlling owner ("" = none): the planner needs both after the pod is gone."""

    namespace: str
    name: str
    uid: str
    owner_kind: str = ""
    owner_name: str = ""
    owner_uid: str = ""

    @property
    def key(self) -> str:
        """Return "namespace/name"."""
        return f"{self.namespace}/{self.name}"

    def compact(self) -> "PodRef":
        """Return a copy with common strings interned: tens of thousands of these are kept."""
        return PodRef(
            namespace=intern(self.namespace),
            name=self.name,
            uid=self.uid,
            owner_kind=intern(self.owner_kind),
            owner_name=intern(self.owner_name),
            owner_uid=intern(self.owner_uid),
        )


class Deletion(msgspec.Struct):
    """The deletion of one node. Changed by the tracker alone."""

    node: str
    node_group: str
    drain: bool
    request_id: str
    start_ms: int
    state_ms: int
    drain_timeout_s: float
    state: State = State.PLANNED
    # State after ROLLING_BACK: FAILED or CANCELLED.
    ending: State | None = None
    # `DeletionReason.Code` of the failure, and a text.
    reason: int = NO_REASON
    detail: str = ""
    # Whether the node has GPUs, for the metrics.
    gpu: bool = False
    # Provider id of the machine, and uid of the Node object: unlike names, these are not reused.
    provider_id: str = ""
    node_uid: str = ""
    # Whether another autoscaler has tainted and drained it, and only its machine is to be deleted.
    drained_by_caller: bool = False
    # When all taints of its set were written; 0 = not yet.
    tainted_ms: int = 0
    # When the call to the cloud was about to be made; 0 = not yet.
    begun_ms: int = 0
    # Uids of the pods that the plan assumed; None = no assumption.
    planned_uids: tuple[str, ...] | None = None
    # When the drain must be over; 0 = it has not begun.
    drain_deadline_ms: int = 0
    # Pods to evict, by uid, recorded before the first eviction.
    pods: dict[str, PodRef] = {}
    # Uids of the pods whose eviction was granted.
    evicted: set[str] = set()
    pods_count: int = 0
    gone_count: int = 0
    # Pods that were not evicted in time, as "namespace/name".
    pods_left: tuple[str, ...] = ()
    # Whether the cloud's target size already excludes the node.
    target_reduced: bool = False
    # Whether its instance has been reported as leaving, or was missing, since the cloud accepted the deletion: if it is
    # listed as running again, it may be another machine under the same provider id.
    has_left: bool = False
    # Whether its group was grown since the cloud was about to be called: a machine may come under the same provider id.
    group_grew: bool = False
    # Whether another client removed the taint at any time, and it was restored.
    taint_restored: bool = False
    # The gang that moves whole from this node and others of the request, "" = none.
    gang: str = ""


class TrackedEviction(msgspec.Struct, frozen=True):
    """A pod whose eviction was granted recently."""

    pod: PodRef
    node: str
    time_ms: int


class CloudDeletionCall(msgspec.Struct):
    """A node for which the cloud was about to be called."""

    node: str
    time_ms: int


class NodeCount(msgspec.Struct):
    """How many nodes the groups had from a time on: registered ones, and those deleted in the hour before it."""

    count: int
    time_ms: int


class NodeAnswer(msgspec.Struct, frozen=True):
    """The answer for one node of a `StartDeletion`."""

    node: str
    accepted: bool
    reason: int = NO_REASON
    detail: str = ""
    # "" = in no group, or not looked up.
    node_group: str = ""


class RequestRecord(msgspec.Struct):
    """A `StartDeletion` that was carried out: the same request gets the same answer."""

    request_id: str
    # Digest of the request's content.
    digest: str
    # When it was accepted, or when the last of its deletions ended.
    time_ms: int
    answers: tuple[NodeAnswer, ...]
    # Whether the answer is final: the taints are written, or the set has failed.
    settled: bool = False


class GroupGrowth(msgspec.Struct, frozen=True):
    """Change of the target size of one node group, from the size that the plan expected to the wanted one: a scale-up,
    or, if the wanted one is smaller, a reduction by nodes that have not started."""

    node_group: str
    expected: int
    wanted: int

    @property
    def is_reduction(self) -> bool:
        """Whether the target size gets smaller."""
        return self.wanted < self.expected


class GrowthAnswer(msgspec.Struct, frozen=True):
    """The result of one scale-up, or of one reduction."""

    node_group: str
    accepted: bool
    detail: str = ""
    # `GrowthReason.Code` of a refusal.
    reason: int = 0


class GrowthRecord(msgspec.Struct):
    """A `ScaleUp` or `LowerTargets` that was carried out, or has to be repeated after a crash (`answers` is None)."""

    request_id: str
    digest: str
    # When it was accepted, then when it was answered.
    time_ms: int
    growths: tuple[GroupGrowth, ...]
    answers: tuple[GrowthAnswer, ...] | None = None

    @property
    def grown(self) -> tuple[GrowthAnswer, ...]:
        """The answers of scale-ups, without those of reductions; none if the cloud has not answered."""
        reduced = {growth.node_group for growth in self.growths if growth.is_reduction}
        return tuple(answer for answer in self.answers or () if answer.node_group not in reduced)


class GroupFailure(msgspec.Struct, frozen=True):
    """An activity of the cloud that failed while a group grew, or a time-out (`activity` "timeout/…")."""

    activity: str
    detail: str
    time_ms: int
    # Whether it counts for the back-off that ends by time.
    timed: bool = True


class GroupBackoff(msgspec.Struct):
    """A back-off that lasts until the one node that the group still wants joins. `replacement_pending`: that
    node's instance never registered and was deleted; another one has to be requested."""

    detail: str
    since_ms: int
    replacement_pending: bool = False


class UnregisteredInstance(msgspec.Struct):
    """An instance that runs and has no Node object."""

    node_group: str
    since_ms: int


class NodeAmounts(msgspec.Struct, frozen=True):
    """Resources of a node or a machine. `pods` 0 = not known. `others` : disk, huge pages and devices as (name,
    amount), sorted by name; a resource that is missing is not known, 0 = nodes do not have it.
    """

    cpu_milli: int
    memory_bytes: int
    pods: int = 0
    others: tuple[tuple[str, int], ...] = ()


class SeenType(msgspec.Struct, frozen=True):
    """Resources of the ready nodes of one instance type in one node group: the least of each amount."""

    node_group: str
    # Label of the nodes; "" = they have none.
    instance_type: str
    # The machine as the cloud describes it.
    nominal: NodeAmounts
    capacity: NodeAmounts
    allocatable: NodeAmounts


class TrackerData(msgspec.Struct):
    """All data of the tracker."""

    revision: int = 0
    # In progress, by node.
    deletions: dict[str, Deletion] = {}
    # Ended recently, in order of their end.
    finished: list[Deletion] = []
    # By pod uid, in order of time.
    evictions: dict[str, TrackedEviction] = {}
    requests: dict[str, RequestRecord] = {}
    growths: dict[str, GrowthRecord] = {}
    # Failed activities by node group, in order of time.
    group_failures: dict[str, list[GroupFailure]] = {}
    # By node group: since when fewer nodes have joined than it wants.
    awaited: dict[str, int] = {}
    # Back-offs that last until a node joins, by node group.
    backoffs: dict[str, GroupBackoff] = {}
    # Instances without Node object, by provider id.
    unregistered: dict[str, UnregisteredInstance] = {}
    # By node group and instance type, latest last.
    node_types: tuple[SeenType, ...] = ()
    # Number of jumps of the clock; each shifted all times.
    jump_count: int = 0
    # Latest leadership epoch of a caller whose request was accepted.
    epoch: int = 0
    # Of the last hour, in order of time; independent of their outcome, and of how long results are kept.
    cloud_deletion_calls: list[CloudDeletionCall] = []
    # Counts of nodes from which the least of any last hour follows, in order of time; each is larger than the one
    # before.
    node_counts: list[NodeCount] = []
    # Replacements in progress by request id, at most one, and those that ended recently, in order of their end.
    replacements: dict[str, TrackedReplacement] = {}
    ended_replacements: list[TrackedReplacement] = []
    # Time of the last event.
    time_ms: int = 0


class Retention(msgspec.Struct, frozen=True):
    """How long the tracker keeps finished records."""

    # Finished deletions and the answers of requests. One hour: no caller retries for longer.
    finished_s: float = 3600.0
    # The least for the answers of requests, however short `finished_s` is: a caller that waits must find its answer,
    # and one that lost it repeats the request within minutes.
    answers_s: float = 300.0
    # Evictions. Five minutes: owners replace pods within seconds; the planner counts the replacements itself.
    evictions_s: float = 300.0
