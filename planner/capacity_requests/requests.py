"""The ProvisioningRequests that are answered, in the order in which they are served, and what is left of each.

What a request is follows from its object's conditions and the pods that name it, so nothing is remembered between
loops. A pod that names a request and is on a node has started; it takes room itself, so that much less is booked.

What a ProvisioningRequest lacks, in one sentence and as reasons: which nodes refuse its pods, and why no set of new
nodes of the groups holds all of them.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.model.execution import asking, reserve_memory
from trimtab.planner.model.settings import SECOND_NS, ScaleUpSettings, SettingsError, resolve_scale_up
from trimtab.planner.model.settings.reading import resolved, setting
from trimtab.planner.model.values import CapacityRequest, PodRequirements
from trimtab.planner.new_nodes.progress import GrowthInPlan, PlanInProgress, refuse, why_pending
from trimtab.planner.simulation.build import Simulation
from trimtab.planner.snapshot.columns import NO_NODE, Bool, Int32, Snapshot
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1.reason_pb2 import NodeGroupReason

Kind = pb.CapacityClassKind
CHECK_CAPACITY: Final = "check-capacity.autoscaling.x-k8s.io"
ATOMIC_SCALE_UP: Final = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
DEFAULT_CLASSES: Final[Mapping[str, int]] = {
    CHECK_CAPACITY: Kind.CHECK_CAPACITY,
    ATOMIC_SCALE_UP: Kind.ATOMIC_SCALE_UP,
}
_PATH: Final = "capacity_requests"


@dataclass(frozen=True)
class CapacityRequestSettings:
    """ProvisioningRequests, resolved from `PlanSettings`. scale_up : rules of new nodes."""

    enabled: bool = setting("capacity_requests.enabled")
    classes: Mapping[str, int] = field(default_factory=lambda: dict(DEFAULT_CLASSES))
    """The classes that are answered, and the `CapacityClassKind.Code` of each."""
    when_ready: bool = setting("capacity_requests.provisioned_when", lambda code: code == pb.ProvisionedWhen.READY)
    """Requests are provisioned once their nodes are ready, not once these are ordered."""
    booking_s: int = setting("capacity_requests.booking_time", lambda time_ns: -(-time_ns // SECOND_NS))
    """Rounded up."""
    max_seek_s: int = setting("capacity_requests.max_seek_time", lambda time_ns: -(-time_ns // SECOND_NS))
    """Rounded up."""
    processor_instance: str = setting("capacity_requests.processor_instance")
    scale_up: ScaleUpSettings = field(default_factory=ScaleUpSettings)

    def kind(self, class_name: str) -> int:
        """Return the `CapacityClassKind.Code` of a class, UNSPECIFIED if it is not answered."""
        return self.classes.get(class_name, Kind.UNSPECIFIED)


def resolve_capacity_requests(settings: pb.PlanSettings) -> CapacityRequestSettings:
    """Return the settings. Raises SettingsError."""
    classes, scale_up = _classes(settings.capacity_requests), resolve_scale_up(settings)
    return resolved(CapacityRequestSettings, settings, classes=classes, scale_up=scale_up)


def _classes(own: pb.CapacityRequestSettings) -> Mapping[str, int]:
    if not own.classes:
        return dict(DEFAULT_CLASSES)
    classes: dict[str, int] = {}
    for at, request_class in enumerate(own.classes):
        if not request_class.name:
            raise SettingsError(f"{_PATH}.classes[{at}].name", "it is empty; give the name of a class")
        if request_class.name in classes:
            raise SettingsError(
                f"{_PATH}.classes[{at}].name", f"{request_class.name!r} is given twice; give each class once"
            )
        if request_class.kind not in (Kind.CHECK_CAPACITY, Kind.ATOMIC_SCALE_UP):
            raise SettingsError(f"{_PATH}.classes[{at}].kind", "use CHECK_CAPACITY or ATOMIC_SCALE_UP")
        classes[request_class.name] = request_class.kind
    return classes


Outcome = pb.CapacityRequestOutcome
MOST_PODS: Final = 1_000_000
"""Most pods for which a plan seeks room: wrong numbers in some objects do not end the plan of others."""


class AnsweredRequest(NamedTuple):
    """A request that is answered. kind : `CapacityClassKind.Code`; started : its pods on nodes; missing : pods of each
    set that have not started; outcome : `CapacityRequestOutcome.Code` that follows from its conditions and time alone,
    UNSPECIFIED = room has to be found, BOOKED = it has to be held, NOT_FOUND = a plan does not serve so many pods.
    """

    request: CapacityRequest
    kind: int
    started: int
    missing: tuple[int, ...]
    outcome: int

    @property
    def priority(self) -> int:
        """The highest priority of its pods."""
        return max((pod_set.spec.priority for pod_set in self.request.pod_sets), default=0)

    @property
    def pod_count(self) -> int:
        """Pods of all its sets."""
        return sum(pod_set.pod_count for pod_set in self.request.pod_sets)

    @property
    def needs_room(self) -> bool:
        """Whether room is found or held for it."""
        return self.outcome in (Outcome.UNSPECIFIED, Outcome.BOOKED)


def answered_requests(snapshot: Snapshot, settings: CapacityRequestSettings, now_s: int) -> tuple[AnsweredRequest, ...]:
    """Return the requests that have not ended, of the classes that are answered: those that are booked first, then by
    priority, age, namespace and name. O(P) if there are any.
    """
    served = [
        capacity_request
        for capacity_request in snapshot.capacity_requests
        if not capacity_request.has_ended
        and settings.kind(capacity_request.class_name)
        and capacity_request.processor_instance == settings.processor_instance
    ]
    if not settings.enabled or not served:
        return ()
    consumers = _consumers(snapshot, {request.key for request in served})
    answered = list[AnsweredRequest]()
    for request in asking(served):
        own = consumers.get(request.key, {})
        started = sum(own.values())
        outcome = _outcome(request, settings, started, now_s)
        answered.append(
            AnsweredRequest(request, settings.kind(request.class_name), started, _missing(request, own), outcome)
        )
    answered.sort(
        key=lambda row: (row.outcome != Outcome.BOOKED, -row.priority, row.request.created_s, row.request.key)
    )
    return tuple(_within_bound(answered))


def _within_bound(answered: Sequence[AnsweredRequest]) -> Iterator[AnsweredRequest]:
    """Yield the requests in their order; those whose pods are too many beside those before them get no room."""
    allowed = MOST_PODS
    for request in answered:
        count = sum(request.missing) if request.needs_room else 0
        if count > allowed:
            yield request._replace(outcome=Outcome.NOT_FOUND)
            continue
        allowed -= count
        yield request


def _consumers(snapshot: Snapshot, keys: set[str]) -> Mapping[str, Mapping[PodRequirements, int]]:
    """Return how many pods with each spec have started, by the request that they name."""
    pods, names_request = snapshot.pods, _names_request(snapshot)
    rows = (
        np.flatnonzero(names_request[pods.spec] & (pods.node != NO_NODE))
        if names_request.any()
        else np.zeros(0, np.int64)
    )
    pairs, counts = np.unique(
        pods.namespace[rows].astype(np.int64) * (len(snapshot.specs) + 1) + pods.spec[rows], return_counts=True
    )
    consumers: dict[str, dict[PodRequirements, int]] = {}
    for pair, count in zip(pairs.tolist(), counts.tolist(), strict=True):
        namespace, at = divmod(pair, len(snapshot.specs) + 1)
        spec = snapshot.specs[at]
        key = f"{snapshot.strings[namespace]}/{spec.capacity_request}"
        if key in keys:
            consumers.setdefault(key, {})[spec] = count
    return consumers


def _names_request(snapshot: Snapshot) -> Bool:
    """Return which specs name a request. bool[specs + 1]; the last entry is for snapshots without specs."""
    return np.array([*(bool(spec.capacity_request) for spec in snapshot.specs), False], bool)


def waiting_consumers(snapshot: Snapshot, held: Sequence[AnsweredRequest]) -> Bool:
    """Return the pods that wait for room which a request holds, or seeks, for them. bool[P]."""
    pods, names_request = snapshot.pods, _names_request(snapshot)
    if not names_request.any() or not held:
        return np.zeros(len(pods.spec), bool)
    waits = names_request[pods.spec] & (pods.node == NO_NODE) & (pods.deletion_s == 0) & ~pods.is_terminal()
    return those_that_name(snapshot, waits, {held_request.request.key for held_request in held})


def those_that_name(snapshot: Snapshot, pods: Bool, keys: Set[str]) -> Bool:
    """Return which of some pods : bool[P] name one of these requests, by "namespace/name". bool[P]."""
    names, columns = np.zeros(len(pods), bool), snapshot.pods
    for row in np.flatnonzero(pods).tolist():
        name = snapshot.specs[columns.spec[row]].capacity_request
        names[row] = f"{snapshot.strings[columns.namespace[row]]}/{name}" in keys
    return names


def _outcome(request: CapacityRequest, settings: CapacityRequestSettings, started: int, now_s: int) -> int:
    """Return what follows from conditions, time and pods alone."""
    if request.provisioned_s:
        if request.pod_sets and started >= sum(each.pod_count for each in request.pod_sets):
            return Outcome.CONSUMED
        return Outcome.BOOKING_EXPIRED if request.provisioned_s + settings.booking_s <= now_s else Outcome.BOOKED
    if request.created_s and request.created_s + (request.max_seek_s or settings.max_seek_s) <= now_s:
        return Outcome.EXPIRED
    return Outcome.INVALID if request.problem else Outcome.UNSPECIFIED


def _missing(request: CapacityRequest, consumers: Mapping[PodRequirements, int]) -> tuple[int, ...]:
    """Return how many pods of each set have not started. Started pods count for a set with their requests first: their
    other fields may differ from the template, such as selectors that a queue has added."""
    missing, others = [each.pod_count for each in request.pod_sets], 0
    for spec, count in sorted(consumers.items(), key=lambda item: item[0].requests):
        unserved = count
        for at, each in enumerate(request.pod_sets):
            if each.spec.requests == spec.requests:
                started = min(unserved, missing[at])
                missing[at] -= started
                unserved -= started
        others += unserved
    for at in range(len(missing)):
        started = min(others, missing[at])
        missing[at] -= started
        others -= started
    return tuple(missing)


_BYTES_OF_GROUP: Final = 300


class Lack(NamedTuple):
    """detail : one sentence; reasons : `NodeGroupReason.Code` by node group; failed : `PredicateReason.Code` of those
    whose new nodes refuse the pods."""

    detail: str = ""
    reasons: Mapping[str, int] = MappingProxyType({})
    failed: Mapping[str, int] = MappingProxyType({})


NO_LACK: Final = Lack()


def lack_of(progress: PlanInProgress, waiting: Int32, order: Int32, pod_count: int, *, may_add: bool) -> Lack:
    """Return what a request of `pod_count` pods lacks. waiting : int32 pods without room, while the others are placed;
    order : int32 nodes that may take pods; may_add : its class adds nodes.
    """
    simulation, limits, groups = progress.packer.simulation, progress.limits, progress.groups
    detail = f"{len(waiting)} of {pod_count} pods have no room on {_why_nodes(simulation, int(waiting[0]), order)}"
    if not may_add:
        return Lack(detail)
    reasons, failed = _why_groups(progress, waiting)
    helping = [at for at, group in enumerate(groups) if reasons[group.id] == NodeGroupReason.NOT_EVALUATED]
    if helping:
        bound = min(int(limits.may_add[helping].sum()), progress.spare_nodes_left)
        helpers = "the one node group that helps" if len(helping) == 1 else f"the {len(helping)} node groups that help"
        why = f"{helpers} may get {bound} more nodes at most, which do not hold all of them"
        then = limits.reasons_when_full()
        for at in helping:
            reasons[groups[at].id] = int(then[at]) or int(NodeGroupReason.MAX_NEW_NODES_REACHED)
    else:
        resources = {groups[at].id: name for at, name in limits.binding_resources().items()}
        why = why_pending(reasons, failed, GrowthInPlan(set(), resources))
    return Lack(f"{detail}; {why}", reasons, failed)


def _why_groups(progress: PlanInProgress, waiting: Int32) -> tuple[dict[str, int], dict[str, int]]:
    """Return why each group's new nodes help none of the pods, NOT_EVALUATED if they do, and failing predicates."""
    ids = [group.id for group in progress.groups]
    reserve_memory(_BYTES_OF_GROUP * len(ids), "why node groups do not help ProvisioningRequests")
    refusals = refuse(progress, waiting, np.zeros(len(ids), np.int64))
    fails = refusals.reason == NodeGroupReason.PREDICATE_FAILED
    kind = fails.argmin(axis=0)
    reasons, failed = {}, {}
    for at, name in enumerate(ids):
        reasons[name] = int(refusals.reason[kind[at], at])
        if fails[kind[at], at]:
            failed[name] = int(refusals.predicate[kind[at], at])
    return reasons, failed


def _why_nodes(simulation: Simulation, pod: int, order: Int32) -> str:
    """Return the nodes, and how many of them refuse a pod for what. O(D · R)."""
    state = simulation.state
    of_class, count = state.pod_class[pod], len(order)
    if not count:
        return "nodes: there is none that may take pods"
    admits = state.blocked[of_class, state.node_class[order]] == 0
    need, free = state.resources.need[of_class], state.resources.free[order]
    lacking = (need > free) & admits[:, None]
    parts = []
    refused = int((~admits).sum())
    by_resource = lacking.sum(axis=0)
    if by_resource.any():
        scarcest = int(by_resource.argmax())
        name = simulation.resources[scarcest] if scarcest < len(simulation.resources) else "room for pods"
        parts.append(f"{int(by_resource[scarcest])} have too little {name}")
    if refused:
        parts.append(f"{refused} do not admit them")
    why = f" ({', '.join(parts)})" if parts else ""
    return f"the {count} nodes that may take pods{why}"
