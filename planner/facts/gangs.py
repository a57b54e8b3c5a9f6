"""Pod groups as kube-scheduler treats them: which pods are scheduled together, in which order, and how many must run.

A pod waits until the pod group that it names exists and, if that is a gang, until as many pods exist as its minimum.
From then on its pods are placed one by one, by priority and age, on one state; those without a place are passed over.
The group is scheduled if, with the pods already on nodes, its minimum is reached, and otherwise nothing of it is. With
a topology key, all its pods are in one domain. Nothing of a group is scheduled if its pods name several schedulers. A
group with the policy BASIC and without a topology key is otherwise no more than its pods. From 1.37 on a group has a
priority; nothing of it is scheduled if a pod, one on a node included, has another one or names another scheduler, or
while one has scheduling gates.
Pods that have ended or are terminating do not count. Not modelled: 1.37 asks for one preemption policy, too. Never
decides where pods go. O(pods in groups).
Source: kube-scheduler 1.36.3 and 1.37.2, plugins/gangscheduling PreEnqueue, Permit; schedule_one_podgroup.go
podGroupSchedulingDefaultAlgorithm, podGroupSchedulingPlacementAlgorithm, validatePodGroup (1.37); 1.36's groups take
their turn by their pods.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.model.settings import SECOND_NS
from trimtab.planner.model.values import PodGroup, TemplatePod
from trimtab.planner.snapshot.caches import SnapshotCache, SnapshotKey
from trimtab.planner.snapshot.columns import FLAG_GATED, NO_NODE, Int32, Snapshot
from trimtab.v1 import reason_pb2

Reason = reason_pb2.GangReason
_DEFAULT_SCHEDULER: Final = "default-scheduler"
MISSING_UID: Final = "missing/"
"""What the uids of pods begin with that their workload has not made yet; no uid of a pod that exists does."""


class Gang(NamedTuple):
    """A pod group whose pods are scheduled together. group : its object, None = it does not exist; pending : int32 its
    pods on no node, in the order in which the scheduler places them; bound : int32 those on nodes; priority, since_ns :
    by which it takes its turn, the larger priority first, then the earlier time; schedulers : that its pending pods
    name, and from 1.37 on those on nodes, too, sorted; other_priorities : of pods, sorted, that are not the group's;
    has_gates : a pending pod has scheduling gates, which counts from 1.37 on; is_room : its
    pods are placeholders, which come after all pods.
    """

    namespace: str
    name: str
    group: PodGroup | None
    pending: Int32
    bound: Int32
    priority: int
    since_ns: int
    schedulers: tuple[str, ...]
    other_priorities: tuple[int, ...] = ()
    has_gates: bool = False
    is_room: bool = False

    @property
    def key(self) -> str:
        """Return "namespace/name"."""
        return f"{self.namespace}/{self.name}"

    @property
    def min_count(self) -> int:
        """Fewest pods that must run: 1 for a group that is no gang, 0 if the object is missing or unreadable."""
        return 0 if self.group is None or self.group.problem else max(self.group.min_count, 1)

    @property
    def topology_key(self) -> str:
        """Label whose value all its nodes share, "" = none."""
        return "" if self.group is None else self.group.topology_key

    @property
    def existing_count(self) -> int:
        """How many of its pods exist."""
        return len(self.pending) + len(self.bound)

    @property
    def need(self) -> int:
        """How many more pods must be on nodes."""
        return max(self.min_count - len(self.bound), 0)

    @property
    def held(self) -> int:
        """Why the scheduler holds its pending pods : `GangReason.Code`, UNSPECIFIED = it does not."""
        if self.group is None:
            return Reason.POD_GROUP_MISSING
        if self.group.problem:
            return Reason.POD_GROUP_INVALID
        if self.existing_count < self.group.min_count:
            return Reason.TOO_FEW_PODS
        if self.other_priorities:
            return Reason.SEVERAL_PRIORITIES
        if len(self.schedulers) > 1:
            return Reason.SEVERAL_SCHEDULERS
        return Reason.MEMBER_GATED if self.has_gates else Reason.UNSPECIFIED

    @property
    def is_bound_together(self) -> bool:
        """Whether its pending pods are placed as one: its minimum does not run yet, or a domain binds them."""
        return not self.held and (self.need > 0 or bool(self.topology_key))


class GangsKey(SnapshotKey[tuple[Gang, ...]]):
    """The pod groups of a snapshot that have pods."""


def gangs_of(snapshot: Snapshot, cache: SnapshotCache) -> tuple[Gang, ...]:
    """Return the groups that have pods, by namespace and name, without those that are no more than their pods."""
    if not len(snapshot.pods.group_pod):
        return ()
    return cache.get(GangsKey(), snapshot, _find)


def _find(snapshot: Snapshot) -> tuple[Gang, ...]:
    pods = snapshot.pods
    counts = (pods.deletion_s == 0) & ~pods.is_terminal()
    present = counts[pods.group_pod]
    pod, name = pods.group_pod[present], pods.group_name[present]
    place = (pods.namespace[pod].astype(np.int64) << 32) | name
    priority = np.array([spec.priority for spec in snapshot.specs], np.int64)[pods.spec[pod]]
    order = np.lexsort((pod, pods.created_s[pod], -priority, place))
    starts = np.flatnonzero(np.diff(place[order], prepend=-1))
    objects = {(gang.namespace, gang.name): gang for gang in snapshot.pod_groups}
    gangs_or_none = [_gang(snapshot, objects, pod[rows]) for rows in np.split(order, starts[1:])] if len(order) else []
    gangs = [gang for gang in gangs_or_none if gang is not None]
    return tuple(sorted(gangs, key=lambda gang: (gang.namespace, gang.name)))


def _gang(snapshot: Snapshot, objects: Mapping[tuple[str, str], PodGroup], members: Int32) -> Gang | None:
    """Return the group of some pods, all of it, in the scheduler's order; None if it is no more than its pods. Priority
    and schedulers are those of kube-scheduler 1.37 if the group has a priority, as a group of 1.37 always has."""
    pods = snapshot.pods
    at = int(np.searchsorted(pods.group_pod, members[0]))
    namespace, name = snapshot.strings[pods.namespace[members[0]]], snapshot.strings[pods.group_name[at]]
    group = objects.get((namespace, name))
    is_pending = pods.node[members] == NO_NODE
    pending = members[is_pending].astype(np.int32)
    own = None if group is None or group.problem else group.priority
    specs = [snapshot.specs[spec] for spec in np.unique(pods.spec[members]).tolist()]
    others = () if own is None else tuple(sorted({spec.priority for spec in specs} - {own}))
    has_gates = own is not None and bool((pods.flags[pending] & FLAG_GATED).any())
    if own is None:
        specs = [snapshot.specs[spec] for spec in np.unique(pods.spec[pending]).tolist()]
    schedulers = tuple(sorted({spec.scheduler_name or _DEFAULT_SCHEDULER for spec in specs}))
    differ = len(pending) > 0 and (bool(others) or len(schedulers) > 1)
    if group is not None and group.is_basic and not (has_gates or differ):
        return None
    first = pending if len(pending) else members
    since_ns = group.created_ns if group is not None and group.created_ns else 0
    return Gang(
        namespace,
        name,
        group,
        pending,
        members[~is_pending].astype(np.int32),
        snapshot.specs[pods.spec[first[0]]].priority if own is None else own,
        since_ns or int(pods.created_s[first[0]]) * SECOND_NS,
        schedulers,
        others,
        has_gates,
    )


def members_by_group(snapshot: Snapshot) -> Mapping[tuple[str, str], list[int]]:
    """Return the pods that exist of each group, named by namespace and name, by name; those that have ended count, as
    no other takes their place."""
    pods, members = snapshot.pods, defaultdict[tuple[str, str], list[int]](list)
    for pod, name in zip(pods.group_pod.tolist(), pods.group_name.tolist(), strict=True):
        if not pods.deletion_s[pod]:
            members[snapshot.strings[pods.namespace[pod]], snapshot.strings[name]].append(pod)
    return members


def template_of(snapshot: Snapshot, group: PodGroup, members: Sequence[int]) -> TemplatePod | None:
    """Return what a new pod of a group is like: its workload's template, or else the last of its pods by name; None =
    not known. members : its pods, by name."""
    if group.pod_template or not members:
        return group.pod_template
    pods, pod = snapshot.pods, members[-1]
    labels = snapshot.labels_of(int(pods.label_set[pod]))
    return TemplatePod(snapshot.strings[pods.namespace[pod]], snapshot.specs[pods.spec[pod]], labels)
