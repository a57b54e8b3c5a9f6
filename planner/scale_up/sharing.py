"""How the chosen growth is shared between the chosen group and similar ones.

With balancing on, the smallest of the similar groups grows first, node by node, which makes sizes as equal as their
maxima allow; pods that only some of the groups take, such as those bound to a zone, come first, and the others restore
the balance. With balancing off the chosen group grows alone, except for pods that it admits in principle but that
counters keep from its new nodes, such as those that have to spread over zones: similar groups grow for these, too.
Source: Cluster Autoscaler, balanceScaleUps, for even sharing; upstream does not share if a pod is bound.
"""

from typing import NamedTuple

import numpy as np

from trimtab.planner.new_nodes.progress import PlanInProgress
from trimtab.planner.placement.packing import GrowingGroups, Packed, pack
from trimtab.planner.scale_up.balance import Sharing, split_within
from trimtab.planner.scale_up.estimate import Estimate
from trimtab.planner.snapshot.columns import Bool, Int32, Int64

_LAST_RESORT = 1 << 30
"""Size of a group that grows only if another one cannot."""


class SharedGrowth(NamedTuple):
    """group_of : group of each new node; pods, node_of : int32[M] as in `Packed`."""

    group_of: list[int]
    pods: Int32
    node_of: Int32


def share_growth(
    progress: PlanInProgress, sharing: Sharing, option: Estimate, left: Int32, admits: Bool
) -> SharedGrowth:
    """Return the result of carrying out an option. left : int32 pods; admits : bool[S, G] as in `GroupBounds`, by
    class.
    """
    others = sharing.similarity.to(option.group)
    groups = np.concatenate([np.array([option.group], np.int64), others[progress.limits.reasons[others] == 0]])
    found: SharedGrowth | None = None
    if len(groups) > 1 and not progress.groups[option.group].zero_or_max:
        if sharing.balance:
            found = _balanced(progress, sharing, groups, option, left, admits)
        else:
            found = _helped_out(progress, groups, option)
    return found or _alone(progress, option)


def _alone(progress: PlanInProgress, option: Estimate) -> SharedGrowth:
    """Grow the chosen group alone, as far as allowed."""
    may_add = int(progress.limits.may_add[option.group])
    if option.node_count <= may_add:
        return SharedGrowth([option.group] * option.node_count, option.pods, option.packed.node_of)
    group, nobody = np.array([option.group], np.int64), np.zeros(1, np.int64)
    found = _packed(progress, group, nobody, np.array([may_add], np.int64), option.pods)
    return SharedGrowth([option.group] * found.nodes, option.pods, found.node_of)


def _balanced(
    progress: PlanInProgress, sharing: Sharing, groups: Int64, option: Estimate, left: Int32, admits: Bool
) -> SharedGrowth | None:
    """Grow the groups evenly for all pods that any of them takes, or else for those that all of them take."""
    sizes = sharing.sizes[groups] + progress.limits.added[groups]
    # Among groups of equal size, the one that was smaller before comes first.
    groups = groups[np.argsort(sizes, kind="stable")]
    pod_class = progress.state.pod_class
    takers = admits[pod_class[left]][:, groups].sum(axis=1)
    any_of_them = left[takers > 0]
    placed = option.placed
    by_all = groups[admits[pod_class[placed]][:, groups].all(axis=0)]
    ways = [[(groups, _like(option.pods, any_of_them))], [(by_all, option.pods)]]
    if (takers[takers > 0] < len(groups)).any():
        ways[0].insert(0, (groups, any_of_them[np.argsort(takers[takers > 0], kind="stable")]))
    ways[0] += [(groups, pods) for pods in _bound_first(progress, ways[0][-1][1])]
    for way in ways:
        found = [_evenly(progress, sharing, members, pods) for members, pods in way]
        good = [
            (one, members) for one, (members, _) in zip(found, way, strict=True) if _is_admitted(progress, members, one)
        ]
        good = [(one, members) for one, members in good if one.placed >= option.packed.placed]
        if good:
            best, members = min(good, key=lambda one: (-one[0].placed, one[0].nodes))
            return SharedGrowth(members[best.group_of].tolist(), best.pods, best.node_of)
    return None


def _evenly(progress: PlanInProgress, sharing: Sharing, members: Int64, pods: Int32) -> Packed:
    """Pack pods onto new nodes of groups, the smallest first, within limits that they have in common."""
    sizes = sharing.sizes[members] + progress.limits.added[members]
    found = _packed(progress, members, sizes, progress.limits.may_add[members], pods)
    if _is_admitted(progress, members, found):
        return found
    return _packed(progress, members, sizes, split_within(progress.limits, members, sizes, found.nodes), pods)


def _like(order: Int32, pods: Int32) -> Int32:
    """Return pods, with those in an order first, in that order."""
    return np.concatenate([order, pods[~np.isin(pods, order)]])


def _helped_out(progress: PlanInProgress, groups: Int64, option: Estimate) -> SharedGrowth | None:
    """Grow the other groups for pods that counters keep from the chosen one; None if they help no more pods."""
    state = progress.state
    kept_out = option.pods[option.packed.node_of < 0]
    if state.local_class[state.pod_class[kept_out]].all():
        return None
    sizes = np.where(np.arange(len(groups)) == 0, 0, _LAST_RESORT)
    may_add = progress.limits.may_add[groups]
    found = [
        _packed(progress, groups, sizes, may_add, pods) for pods in (option.pods, *_bound_first(progress, option.pods))
    ]
    good = [one for one in found if one.placed > option.packed.placed and _is_admitted(progress, groups, one)]
    if not good:
        return None
    best = min(good, key=lambda one: (-one.placed, one.nodes))
    return SharedGrowth(groups[best.group_of].tolist(), best.pods, best.node_of)


def _bound_first(progress: PlanInProgress, pods: Int32) -> list[Int32]:
    """Return pods with those first that others bind (`placement.waiting.boundness`), if that changes their order:
    unrestricted pods then fill the remaining room in every zone."""
    order = np.argsort(-progress.packer.bound[progress.state.pod_class[pods]], kind="stable")
    return [pods[order]] if (np.diff(order) < 0).any() else []


def _packed(progress: PlanInProgress, groups: Int64, sizes: Int64, most: Int64, pods: Int32) -> Packed:
    at_most = GrowingGroups(groups.tolist(), sizes.tolist(), most.tolist())
    return pack(progress.packer, at_most, pods, progress.spare_nodes_left, len(progress.group_of))


def _is_admitted(progress: PlanInProgress, groups: Int64, found: Packed) -> bool:
    """Return whether limits that groups have in common allow the result."""
    added = np.zeros(len(progress.limits.added), np.int64)
    np.add.at(added, groups[found.group_of], 1)
    return progress.limits.admit(added)
