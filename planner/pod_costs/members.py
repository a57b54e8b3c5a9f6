"""The groups: which pods of which owner one target ranks, and conflicts about them. Decides group membership and why a
group is left alone: pods selected by different targets, claimed by two controllers, or in a rolling update. Members are
pods controlled by an owner in the snapshot, not in a terminal phase, not being deleted, and not mirror pods, as for the
ReplicaSet controller. It removes pods that are on no node, then pending ones, then those that are not ready, before it
looks at costs: where a group has better pods, these count as already gone. Symbols: O owners, G groups, M pods in
groups. Cost: O(P) per target, vectorised. Source:
Kubernetes, controller.FilterActivePods, controller.ActivePodsWithRanks.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.facts.kernels.membership import group_by_node
from trimtab.planner.facts.labels import LabelIndex
from trimtab.planner.pod_costs.settings import PodCostTarget
from trimtab.planner.snapshot.caches import SnapshotCache, SnapshotKey
from trimtab.planner.snapshot.columns import (
    FLAG_MIRROR,
    FLAG_READY,
    NO_NODE,
    Bool,
    Int64,
    PodColumns,
    Snapshot,
    UInt8,
)
from trimtab.planner.snapshot.dictionaries import entries_of
from trimtab.v1.reason_pb2 import PodCostGroupReason as Reason
from trimtab.v1.snapshot_pb2 import PodPhase

_ABOVE_OTHERS: Final = frozenset({"Deployment"})
"""Kinds whose selector also covers the pods of the controllers that they own."""


class ClaimsKey(SnapshotKey[dict[tuple[int, str], list[int]]]):
    """The first two owners that select each label set in each namespace where one does."""


def _claims(snapshot: Snapshot) -> dict[tuple[int, str], list[int]]:
    """Return the first two owners by label set and namespace. O(owners · requirements + what they select)."""
    index = LabelIndex(snapshot.strings, snapshot.label_sets)
    claims: dict[tuple[int, str], list[int]] = {}
    for number, owner in enumerate(snapshot.owners):
        if owner.selector and owner.desired_replicas != 0 and owner.kind not in _ABOVE_OTHERS:
            for label_set in index.sets_matching(owner.selector).tolist():
                claimants = claims.setdefault((label_set, owner.namespace), [])
                if len(claimants) < 2:
                    claimants.append(number)
    return claims


NO_TARGET: Final = -1


class Members(NamedTuple):
    """The pods of groups. owners : int64[G] into `Snapshot.owners`; bounds : int64[G+1]; pods : int64[M] rows, group by
    group, ascending within each."""

    owners: Int64
    bounds: Int64
    pods: Int64

    @property
    def group(self) -> Int64:
        """Return the group of each pod. int64[M]."""
        return np.repeat(np.arange(len(self.owners)), np.diff(self.bounds))

    def take(self, groups: Int64) -> "Members":
        """Return some of the groups. groups : int64, ascending, each once."""
        if len(groups) == len(self.owners):
            return self
        sizes = np.diff(self.bounds)[groups]
        bounds = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
        return Members(self.owners[groups], bounds, self.pods[entries_of(self.bounds, groups)])


class LeftAlone(NamedTuple):
    """Why a group is not ranked."""

    reason: "Reason.Code.ValueType"
    detail: str


class Grouped(NamedTuple):
    """All groups with a pod that a target selects, by owner number. target : int64[G], NO_TARGET if it is left alone;
    first : int64[G] the first target that selects any of its pods; left_alone : by group; gone : number of their pods
    that are removed before costs count."""

    members: Members
    target: Int64
    first: Int64
    left_alone: dict[int, LeftAlone]
    gone: int


def active(pods: PodColumns) -> Bool:
    """Return which pods a controller counts as its own. bool[P]."""
    counts: Bool = ~pods.is_terminal() & (pods.deletion_s == 0) & ((pods.flags & FLAG_MIRROR) == 0)
    return counts


def group_pods(snapshot: Snapshot, targets: Sequence[PodCostTarget], cache: SnapshotCache) -> Grouped:
    """Return the groups that targets select."""
    every = _by_owner(snapshot)
    chosen = _target_of(snapshot, targets, every.pods)
    selected = np.maximum.reduceat(chosen, every.bounds[:-1]) if len(chosen) else np.zeros(0, np.int64)
    groups = np.flatnonzero(selected >= 0)
    members = every.take(groups)
    if not len(groups):
        return Grouped(members, np.zeros(0, np.int64), np.zeros(0, np.int64), {}, 0)
    starts = every.bounds[:-1]
    lowest, highest = np.minimum.reduceat(chosen, starts)[groups], selected[groups]
    first = np.minimum.reduceat(np.where(chosen < 0, len(targets), chosen), starts)[groups]
    left_alone = _mixed(lowest, highest) | _rolling(snapshot, members, every, cache) | _rivals(snapshot, members, cache)
    target = highest.copy()
    target[list(left_alone)] = NO_TARGET
    of_group = np.isin(snapshot.pods.owner[active(snapshot.pods)], members.owners)
    return Grouped(members, target, first, left_alone, int(np.count_nonzero(of_group)) - len(members.pods))


def _by_owner(snapshot: Snapshot) -> Members:
    """Return the active pods of every owner that has any, of each those that it removes last before costs count."""
    pods, count = snapshot.pods, len(snapshot.owners)
    owner, removal_class = np.where(active(pods), pods.owner, np.int32(-1)), _removal_class(pods)
    best, owned = np.zeros(count, np.uint8), np.flatnonzero(owner >= 0)
    np.maximum.at(best, owner[owned], removal_class[owned])
    owner[owned[removal_class[owned] < best[owner[owned]]]] = -1
    offsets, order = np.zeros(count + 2, np.int64), np.zeros(len(owner), np.int32)
    group_by_node(owner, offsets, order)
    sizes = np.diff(offsets[: count + 1])
    owners = np.flatnonzero(sizes)
    bounds = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes[owners])))
    return Members(owners, bounds, order[: offsets[count]].astype(np.int64))


def _removal_class(pods: PodColumns) -> UInt8:
    """Return in which turn a controller removes each pod: 0 on no node, 1 pending, 2 not ready, 3 ready. uint8[P]."""
    of_phase = np.where(pods.phase == PodPhase.PENDING, 1, 2 + ((pods.flags & FLAG_READY) != 0))
    return np.where(pods.node == NO_NODE, 0, of_phase).astype(np.uint8)


def _target_of(snapshot: Snapshot, targets: Sequence[PodCostTarget], pods: Int64) -> Int64:
    """Return the first target that selects each pod, NO_TARGET if none does. int64[M]."""
    target_of_pod = np.full(len(pods), NO_TARGET, np.int64)
    index = LabelIndex(snapshot.strings, snapshot.label_sets)
    for number in range(len(targets) - 1, -1, -1):
        target = targets[number]
        selects = np.ones(len(pods), np.bool_)
        if target.namespaces:
            in_namespace = np.array([text in target.namespaces for text in snapshot.strings], np.bool_)
            selects &= in_namespace[snapshot.pods.namespace[pods]]
        if target.owner_kinds:
            of_kind = [
                owner.kind in target.owner_kinds or owner.controller.partition("/")[0] in target.owner_kinds
                for owner in snapshot.owners
            ]
            selects &= np.array(of_kind, np.bool_)[snapshot.pods.owner[pods]]
        if target.selector:
            selects &= index.matching(target.selector)[snapshot.pods.label_set[pods]]
        target_of_pod[selects] = number
    return target_of_pod


def _mixed(lowest: Int64, highest: Int64) -> dict[int, LeftAlone]:
    """Return the groups whose pods are selected by different targets, or only in part."""

    def detail(group: int) -> str:
        if lowest[group] == NO_TARGET:
            return f"targets[{highest[group]}] selects only some of its pods; select all of them or none"
        return f"targets[{lowest[group]}] and targets[{highest[group]}] select its pods; one target must select all"

    return {
        group: LeftAlone(Reason.SEVERAL_TARGETS, detail(group)) for group in np.flatnonzero(lowest != highest).tolist()
    }


class SiblingsKey(SnapshotKey[list[list[int]]]):
    """The owners that share a controller with another one."""


def _rolling(snapshot: Snapshot, members: Members, every: Members, cache: SnapshotCache) -> dict[int, LeftAlone]:
    """Return the groups that another revision of the same controller is replacing."""
    busy = set(every.owners.tolist())
    left_alone: dict[int, LeftAlone] = {}
    for siblings in cache.get(SiblingsKey(), snapshot, _siblings):
        rivals = [rival for rival in siblings if rival in busy or snapshot.owners[rival].desired_replicas > 0]
        if len(rivals) < 2:
            continue
        newest = max(snapshot.owners[number].revision for number in rivals)
        is_clear = sum(snapshot.owners[number].revision == newest for number in rivals) == 1
        for number in rivals:
            owner = snapshot.owners[number]
            at = int(np.searchsorted(members.owners, number))
            is_member = at < len(members.owners) and members.owners[at] == number
            if is_member and not (is_clear and owner.revision == newest):
                others = ", ".join(snapshot.owners[other].name for other in rivals if other != number)
                text = f"{owner.controller} is being rolled out: {others} also has or requests pods"
                left_alone[at] = LeftAlone(Reason.ROLLING_UPDATE, text)
    return left_alone


def _siblings(snapshot: Snapshot) -> list[list[int]]:
    """Return the owners that share a controller with another owner."""
    by_controller: dict[str, list[int]] = {}
    for number, owner in enumerate(snapshot.owners):
        if owner.controller:
            by_controller.setdefault(f"{owner.namespace} {owner.controller}", []).append(number)
    return [numbers for numbers in by_controller.values() if len(numbers) > 1]


def _rivals(snapshot: Snapshot, members: Members, cache: SnapshotCache) -> dict[int, LeftAlone]:
    """Return the groups with a pod that another controller also claims, and the groups of that controller."""
    claims, pods = cache.get(ClaimsKey(), snapshot, _claims), snapshot.pods
    group, label_set = members.group, pods.label_set[members.pods].astype(np.int64)
    # The pods of a group that have the same labels have the same rivals.
    _, places = np.unique(group * (label_set.max(initial=0) + 1) + label_set, return_index=True)
    left_alone: dict[int, LeftAlone] = {}
    for place in np.sort(places).tolist():
        pod, at = int(members.pods[place]), int(group[place])
        namespace = snapshot.strings[pods.namespace[pod]]
        rivals = [
            claimant
            for claimant in claims.get((int(label_set[place]), namespace), ())
            if claimant != members.owners[at]
        ]
        if not rivals:
            continue
        text = f"{snapshot.pod_key(pod)} is also selected by {owner_name(snapshot, rivals[0])}"
        left_alone.setdefault(at, LeftAlone(Reason.SEVERAL_CONTROLLERS, text))
        other = int(np.searchsorted(members.owners, rivals[0]))
        if other < len(members.owners) and members.owners[other] == rivals[0]:
            owner = owner_name(snapshot, int(members.owners[at]))
            text = f"its selector selects {snapshot.pod_key(pod)} of {owner} too"
            left_alone.setdefault(other, LeftAlone(Reason.SEVERAL_CONTROLLERS, text))
    return left_alone


class OwnerTexts(NamedTuple):
    """By owner, names : "Kind/namespace/name"; place : int64[O] its position in the order of these texts, ties by
    number."""

    names: list[str]
    place: Int64


class OwnerTextsKey(SnapshotKey[OwnerTexts]):
    """The texts of all owners."""


def owner_texts(snapshot: Snapshot, cache: SnapshotCache) -> OwnerTexts:
    """Return the texts of all owners, cached or made."""
    return cache.get(OwnerTextsKey(), snapshot, _owner_texts)


def _owner_texts(snapshot: Snapshot) -> OwnerTexts:
    names = [owner_name(snapshot, owner) for owner in range(len(snapshot.owners))]
    place = np.empty(len(names), np.int64)
    place[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
    return OwnerTexts(names, place)


def owner_name(snapshot: Snapshot, owner: int) -> str:
    """Return "Kind/namespace/name" of an owner."""
    row = snapshot.owners[owner]
    return f"{row.kind}/{row.namespace}/{row.name}"
