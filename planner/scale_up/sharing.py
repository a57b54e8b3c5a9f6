"""How the chosen growth is shared between the chosen group and similar ones.

With balancing on, the smallest of the similar groups grows first, node by node, which makes sizes as equal as their
maxima allow; pods that only some of the groups take, such as those bound to a zone, come first, and the others restore
the balance. With balancing off the chosen group grows alone, except for pods that it admits in principle but that
counters keep from its new nodes, such as those that have to spread over zones: similar groups grow for these, too.
Source: Cluster Autoscaler, balanceScaleUps, for even sharing; upstream does not share if a pod is bound.
"""

from typing import NamedTuple

import numpy as np

from trimtab.planner.facts.similarity import Similarity
from trimtab.planner.placement.packing import GrowingGroups, Packed, pack
from trimtab.planner.scale_up.balance import split_within
from trimtab.planner.scale_up.estimate import Estimate
from trimtab.planner.scale_up.growing import Growing
from trimtab.planner.snapshot.columns import Bool, Int32, Int64

_LAST_RESORT = 1 << 30
"""Size of a group that grows only if another one cannot."""


class Share(NamedTuple):
    """group_of : group of each new node; pods, node_of : int32[M] as in `Packed`."""

    group_of: list[int]
    pods: Int32
    node_of: Int32


class Sharing(NamedTuple):
    """similarity : of the groups; balance : whether similar groups are balanced; sizes : int64[G] before the plan."""

    similarity: Similarity
    balance: bool
    sizes: Int64

    def room(self, growing: Growing, left: Int32, group: int, admits: Bool) -> int:
        """Return how many nodes a group and those with which it is balanced may get together.

        left : int32 pods without a place; admits : see `share`. Groups count that take all pods that this one takes.
        Source: Cluster Autoscaler, ComputeSimilarNodeGroups.
        """
        room = growing.limits.room(group)
        others = self.similarity.to(group) if self.balance else np.zeros(0, np.int64)
        if len(others) == 0:
            return room
        of_class = admits[np.unique(growing.state.pod_class[left])]
        takes_all = ~(of_class[:, [group]] & ~of_class[:, others]).any(axis=0)
        members = np.concatenate([np.array([group], np.int64), others[takes_all & (growing.limits.rooms[others] > 0)]])
        if len(members) == 1:
            return room
        sizes = self.sizes[members] + growing.limits.added[members]
        most = int(growing.limits.rooms[members].sum())
        return int(split_within(growing.limits, members, sizes, most).sum())


def share(growing: Growing, sharing: Sharing, option: Estimate, left: Int32, admits: Bool) -> Share:
    """Return the result of carrying out an option. left : int32 pods; admits : bool[S, G] as in `GroupBounds`, by
    class.
    """
    others = sharing.similarity.to(option.group)
    groups = np.concatenate([np.array([option.group], np.int64), others[growing.limits.reasons[others] == 0]])
    found: Share | None = None
    if len(groups) > 1 and not growing.groups[option.group].zero_or_max:
        if sharing.balance:
            found = _balanced(growing, sharing, groups, option, (left, admits))
        else:
            found = _helped_out(growing, groups, option)
    return found or _alone(growing, option)


def _alone(growing: Growing, option: Estimate) -> Share:
    """Grow the chosen group alone, as far as allowed."""
    room = growing.limits.room(option.group)
    if option.node_count <= room:
        return Share([option.group] * option.node_count, option.pods, option.packed.node_of)
    group, nobody = np.array([option.group], np.int64), np.zeros(1, np.int64)
    found = _packed(growing, group, nobody, np.array([room], np.int64), option.pods)
    return Share([option.group] * found.nodes, option.pods, found.node_of)


def _balanced(
    growing: Growing, sharing: Sharing, groups: Int64, option: Estimate, asking: tuple[Int32, Bool]
) -> Share | None:
    """Grow the groups evenly for all pods that any of them takes, or else for those that all of them take."""
    left, admits = asking
    sizes = sharing.sizes[groups] + growing.limits.added[groups]
    # Among groups of equal size, the one that was smaller before comes first.
    groups = groups[np.argsort(sizes, kind="stable")]
    pod_class = growing.state.pod_class
    takers = admits[pod_class[left]][:, groups].sum(axis=1)
    any_of_them = left[takers > 0]
    placed = option.placed
    by_all = groups[admits[pod_class[placed]][:, groups].all(axis=0)]
    ways = [[(groups, _like(option.pods, any_of_them))], [(by_all, option.pods)]]
    if (takers[takers > 0] < len(groups)).any():
        ways[0].insert(0, (groups, any_of_them[np.argsort(takers[takers > 0], kind="stable")]))
    ways[0] += [(groups, pods) for pods in _bound_first(growing, ways[0][-1][1])]
    for way in ways:
        found = [_evenly(growing, sharing, members, pods) for members, pods in way]
        good = [
            (one, members) for one, (members, _) in zip(found, way, strict=True) if _is_admitted(growing, members, one)
        ]
        good = [(one, members) for one, members in good if one.placed >= option.packed.placed]
        if good:
            best, members = min(good, key=lambda one: (-one[0].placed, one[0].nodes))
            return Share(members[best.group_of].tolist(), best.pods, best.node_of)
    return None


def _evenly(growing: Growing, sharing: Sharing, members: Int64, pods: Int32) -> Packed:
    """Pack pods onto new nodes of groups, the smallest first, within limits that they have in common."""
    sizes = sharing.sizes[members] + growing.limits.added[members]
    found = _packed(growing, members, sizes, growing.limits.rooms[members], pods)
    if _is_admitted(growing, members, found):
        return found
    return _packed(growing, members, sizes, split_within(growing.limits, members, sizes, found.nodes), pods)


def _like(order: Int32, pods: Int32) -> Int32:
    """Return pods, with those in an order first, in that order."""
    return np.concatenate([order, pods[~np.isin(pods, order)]])


def _helped_out(growing: Growing, groups: Int64, option: Estimate) -> Share | None:
    """Grow the other groups for pods that counters keep from the chosen one; None if they help no more pods."""
    state = growing.state
    kept_out = option.pods[option.packed.node_of < 0]
    if state.local_class[state.pod_class[kept_out]].all():
        return None
    sizes = np.where(np.arange(len(groups)) == 0, 0, _LAST_RESORT)
    rooms = growing.limits.rooms[groups]
    found = [
        _packed(growing, groups, sizes, rooms, pods) for pods in (option.pods, *_bound_first(growing, option.pods))
    ]
    good = [one for one in found if one.placed > option.packed.placed and _is_admitted(growing, groups, one)]
    if not good:
        return None
    best = min(good, key=lambda one: (-one.placed, one.nodes))
    return Share(groups[best.group_of].tolist(), best.pods, best.node_of)


def _bound_first(growing: Growing, pods: Int32) -> list[Int32]:
    """Return pods with those first that others bind (`trimtab.planner.placement.orders.boundness`), if that changes
    their
    order: unrestricted pods then fill the remaining room in every zone."""
    order = np.argsort(-growing.within.bound[growing.state.pod_class[pods]], kind="stable")
    return [pods[order]] if (np.diff(order) < 0).any() else []


def _packed(growing: Growing, groups: Int64, sizes: Int64, most: Int64, pods: Int32) -> Packed:
    at_most = GrowingGroups(groups.tolist(), sizes.tolist(), most.tolist())
    return pack(growing.within, at_most, pods, growing.blanks_left, len(growing.group_of))


def _is_admitted(growing: Growing, groups: Int64, found: Packed) -> bool:
    """Return whether limits that groups have in common allow the result."""
    added = np.zeros(len(growing.limits.added), np.int64)
    np.add.at(added, groups[found.group_of], 1)
    return growing.limits.admit(added)
