"""Pod groups in the simulated scheduler: which pods take their turn together, and where the pods of a gang go.

A pod that names a group waits until the PodGroup exists. The pods of a gang wait until as many exist as its minimum;
then they take one turn: they are placed one by one, by priority and age, on one state, and those without a place are
passed over. If with the pods already on nodes the minimum is reached, all that have a place are bound, otherwise none.
Pods of a group with the policy `basic` take their turns like any others. A gang takes its turn by the priority of its
first pod, then by the age of its object. Nothing of a group, basic or not, is scheduled if its pods name several
schedulers. A group of Kubernetes 1.37 has a priority of its own, which counts in place of that of its pods; nothing of
it is scheduled if a pod, one on a node included, has another one or names another scheduler, or while one has
scheduling gates. Decides that pods that have ended or are terminating do not count, that gangs do not preempt, and that
a group without a priority is as of 1.36. Not simulated: topology keys, volumes that pods of one gang share and that are
not bound yet, groups other than PodGroups of Kubernetes.
Source: kube-scheduler 1.36.3 and 1.37.2, plugins/gangscheduling; schedule_one_podgroup.go.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from trimtab.clients.simulation.cluster.node_info import NodeInfo
from trimtab.clients.simulation.cluster.pods import PodKey, SimulatedPod, priority_of
from trimtab.clients.simulation.cluster.scheduler import KubeScheduler
from trimtab.common.kubernetes.kinds.pod_groups import is_of_1_36
from trimtab.common.kubernetes.object_files import Object

API_GROUP: Final = "scheduling.k8s.io/"
HELD: Final = -1
"""Minimum of a group that holds its pods: its object does not exist or cannot be read."""
_MOST: Final = 2**31 - 1
_DEFAULT_SCHEDULER: Final = "default-scheduler"


class SchedulingTurn(NamedTuple):
    """Pods that the scheduler takes together. is_gang : several that are placed as one; need : how many of them must
    have a place.
    """

    pods: tuple[SimulatedPod, ...]
    is_gang: bool = False
    need: int = 0


class Placement(NamedTuple):
    """The places of a gang's pods, which their nodes hold already. rejected : pods without a place."""

    places: list[tuple[SimulatedPod, NodeInfo]]
    rejected: list[SimulatedPod]


class _GroupedObjects(Protocol):
    """What is needed of `ClusterState`."""

    @property
    def pending(self) -> Mapping[PodKey, SimulatedPod]:
        """Pending pods."""

    @property
    def others(self) -> Mapping[str, Object]:
        """Objects by "Kind/namespace/name"."""


class PodGroupMembers:
    """The pods that name a group, by namespace and name of the group."""

    def __init__(self) -> None:
        self._members: dict[PodKey, dict[PodKey, SimulatedPod]] = {}

    def put(self, pod: SimulatedPod) -> None:
        """Add or update a pod."""
        name = group_of(pod.spec)
        if name:
            self._members.setdefault((pod.key[0], name), {})[pod.key] = pod

    def drop(self, pod: SimulatedPod) -> None:
        """Remove a pod."""
        key = pod.key[0], group_of(pod.spec)
        members = self._members.get(key)
        if members is not None:
            members.pop(pod.key, None)
            if not members:
                del self._members[key]

    def turns(self, objects: _GroupedObjects) -> list[SchedulingTurn]:
        """Return the turns of the pending pods that nothing holds, in order. O(n log n) in pending pods."""
        pending = objects.pending.values()
        if not self._members:
            return [SchedulingTurn((pod,)) for pod in sorted(pending, key=scheduling_order)]
        found = [(scheduling_order(pod), SchedulingTurn((pod,))) for pod in pending if not group_of(pod.spec)]
        for namespace, name in sorted({(pod.key[0], group_of(pod.spec)) for pod in pending}):
            if name:
                found += self._of_group(objects, namespace, name)
        return [turn for _, turn in sorted(found, key=lambda one: one[0])]

    def _of_group(self, objects: _GroupedObjects, namespace: str, name: str) -> list[tuple[Any, SchedulingTurn]]:
        group = objects.others.get(f"PodGroup/{namespace}/{name}")
        least = minimum(group)
        if group is None or least == HELD:
            return []
        members = [pod for pod in self._members[namespace, name].values() if pod.active]
        pods = sorted((pod for pod in members if pod.key in objects.pending), key=scheduling_order)
        priority = own_priority(group)
        if len(members) < least or _is_held(priority, members, pods):
            return []
        if least == 0:
            return [(scheduling_order(pod), SchedulingTurn((pod,))) for pod in pods]
        of_pods, age, _ = scheduling_order(pods[0])
        order = (
            of_pods if priority is None else -priority,
            str(group["metadata"].get("creationTimestamp") or age),
            (namespace, name),
        )
        bound = sum(bool(pod.node) for pod in members)
        return [(order, SchedulingTurn(tuple(pods), is_gang=True, need=max(least - bound, 0)))]


def _is_held(priority: int | None, members: Sequence[SimulatedPod], waiting: Sequence[SimulatedPod]) -> bool:
    """Return whether the scheduler places no pod of a group, because of what its pods are like. priority : of the
    group, None = of 1.36; waiting : those of its members that wait for a place."""
    if priority is None:
        return len({_scheduler_of(pod) for pod in waiting}) > 1
    return (
        any(priority_of(pod) != priority for pod in members)
        or len({_scheduler_of(pod) for pod in members}) > 1
        or any(not pod.node and pod.spec.get("schedulingGates") for pod in members)
    )


def _scheduler_of(pod: SimulatedPod) -> str:
    return str(pod.spec.get("schedulerName") or _DEFAULT_SCHEDULER)


def place(scheduler: KubeScheduler, gang: SchedulingTurn) -> Placement:
    """Place a gang: its nodes hold the pods that have a place, or none if too few have one."""
    placement = Placement([], [])
    hopeless: set[tuple[object, ...]] = set()
    for index, pod in enumerate(gang.pods):
        if len(placement.places) + len(gang.pods) - index < gang.need:
            break
        alike = fitting_kind(pod)
        info = None if alike in hopeless else scheduler.choose(pod)
        if info is None:
            hopeless.add(alike)
            placement.rejected.append(pod)
            continue
        # A pod may have waited for this one, by its affinity.
        hopeless.clear()
        info.add(pod)
        scheduler.pod_added(info, pod)
        placement.places.append((pod, info))
    if len(placement.places) >= gang.need:
        return placement
    _undo(scheduler, placement.places)
    return Placement([], list(gang.pods))


def _undo(scheduler: KubeScheduler, places: Sequence[tuple[SimulatedPod, NodeInfo]]) -> None:
    for pod, info in reversed(places):
        info.remove(pod)
        scheduler.pod_removed(info, pod)


def group_of(spec: Mapping[str, Any]) -> str:
    """Return the name of the group of pods with that spec, "" = none."""
    return str((spec.get("schedulingGroup") or {}).get("podGroupName") or "")


def own_priority(group: Mapping[str, Any]) -> int | None:
    """Return the priority of a group that the scheduler looks at, None = that of its pods."""
    spec = group.get("spec") or {}
    priority = spec.get("priority")
    return (
        None if priority is None or is_of_1_36(group.get("apiVersion"), spec.get("disruptionMode")) else int(priority)
    )


def minimum(group: Mapping[str, Any] | None) -> int:
    """Return how many pods of a group must be on nodes together: 0 = policy `basic`, `HELD` = it holds its pods."""
    if group is None or not str(group.get("apiVersion") or "").startswith(API_GROUP):
        return HELD
    policy = (group.get("spec") or {}).get("schedulingPolicy") or {}
    if ("gang" in policy) is ("basic" in policy):
        return HELD
    if "basic" in policy:
        return 0
    least = (policy["gang"] or {}).get("minCount")
    return least if isinstance(least, int) and 1 <= least <= _MOST else HELD


def fitting_kind(pod: SimulatedPod) -> tuple[object, ...]:
    """Return what is equal for pods that fit the same nodes."""
    return pod.key[0], pod.shape_key, frozenset(pod.labels.items()), pod.claims


def scheduling_order(pod: SimulatedPod) -> tuple[int, str, PodKey]:
    """Return by what the scheduler takes a pod: priority, age, name."""
    created = str(pod.item["metadata"].get("creationTimestamp") or "")
    return -priority_of(pod), created, pod.key
