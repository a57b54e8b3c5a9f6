"""Gangs that move whole from several nodes: all these nodes go in one wave and at the same time, or none does.

These are gangs that run their minimum, are disrupted as a whole (`disruptionMode: PodGroup`) and bound to no domain,
with all pods on nodes that can be drained, are in no all-or-nothing node group, have no pod of another such gang, and
are no more than may be drained at the same time. All other running gangs are budgets of evictions
(`facts.pdb`). Source: ours.

All-or-nothing node groups: which can go completely, and which of their nodes need not be tried.

A group's size is the number of its registered nodes that are not being deleted; unregistered instances are left to the
cloud provider. Source: Cluster Autoscaler, AtomicResizeFilteringProcessor.
"""

from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.drainability import outcome
from trimtab.planner.facts.gangs import Gang
from trimtab.planner.facts.pdb import limited_gangs
from trimtab.planner.model.settings import ScaleDownSettings
from trimtab.planner.scale_down.context import ScaleDownContext
from trimtab.planner.snapshot.columns import Bool, Float64, Int32, Int64
from trimtab.planner.snapshot.references import take_or

NO_GANG: Final = -1


class WholeGangs(NamedTuple):
    """Gangs that move whole. of_node : int32[N] the gang on each node, NO_GANG = none; size : int64[W] how many nodes
    each is on; pod : int32[N] a pod of the gang on each node; budget : int64[W] its number among the budgets, from the
    first of gangs; pod_count : int64[W]; key : "namespace/name" of each."""

    of_node: Int32
    size: Int64
    pod: Int32
    budget: Int64
    pod_count: Int64
    key: tuple[str, ...]

    def torn(self, nodes: Int32) -> Int32:
        """Return those of the nodes, each once, with a gang of which other nodes are not among them. int32."""
        if not len(self.size):
            return nodes[:0]
        gang = self.of_node[nodes]
        count = np.bincount(gang[gang >= 0], minlength=len(self.size))
        torn: Int32 = nodes[(gang >= 0) & (count[gang] < self.size[gang])]
        return torn

    def without(self, gone: Bool) -> "WholeGangs":
        """Return the same without some gangs, which stay as numbers. gone : bool[W]."""
        return self._replace(of_node=np.where(take_or(gone, self.of_node, False), NO_GANG, self.of_node))

    def keys(self, nodes: Int32) -> list[str]:
        """Return the key of the gang that moves whole from each node and others, "" = none."""
        return [self.key[gang] if gang >= 0 and self.size[gang] > 1 else "" for gang in self.of_node[nodes].tolist()]

    def shared(self, of_node: Float64) -> Float64:
        """Return numbers by node, of which those of a gang's nodes, which go together or not at all, are replaced by
        their mean. of_node : float64[N], not changed. float64[N]."""
        if not len(self.size):
            return of_node
        mine = self.of_node >= 0
        sums = np.bincount(self.of_node[mine], of_node[mine], len(self.size))
        mean = of_node.copy()
        mean[mine] = (sums / self.size)[self.of_node[mine]]
        return mean

    def on_any(self, nodes: Bool) -> Bool:
        """Return which gangs are on some of the nodes : bool[N]. bool[W]."""
        on_nodes = np.zeros(len(self.size), np.bool_)
        of_nodes = self.of_node[nodes]
        on_nodes[of_nodes[of_nodes >= 0]] = True
        return on_nodes


def whole_gangs(context: ScaleDownContext) -> WholeGangs:
    """Return the gangs that may move whole if all their nodes can go. O(pods in gangs)."""
    request, count = context.request, len(context.request.leaving)
    gangs = limited_gangs(request.snapshot, request.cache) if request.round.settings.gangs.move_running else ()
    chosen = [(row, gang) for row, gang in enumerate(gangs) if _may_move(context, request.settings, gang)]
    nodes = [np.unique(request.snapshot.pods.node[gang.bound]) for _, gang in chosen]
    gangs_of_nodes = WholeGangs(
        np.full(count, NO_GANG, np.int32),
        np.array([len(gang_nodes) for gang_nodes in nodes], np.int64),
        np.full(count, -1, np.int32),
        np.array([row for row, _ in chosen], np.int64),
        np.array([len(gang.bound) for _, gang in chosen], np.int64),
        tuple(gang.key for _, gang in chosen),
    )
    shared = np.zeros(len(chosen), np.bool_)
    for number, ((_, gang), of_gang) in enumerate(zip(chosen, nodes, strict=True)):
        others = gangs_of_nodes.of_node[of_gang]
        shared[others[others >= 0]] = True
        shared[number] = bool((others >= 0).any())
        gangs_of_nodes.of_node[of_gang] = number
        gangs_of_nodes.pod[request.snapshot.pods.node[gang.bound]] = gang.bound
    return gangs_of_nodes.without(shared)


def _may_move(context: ScaleDownContext, settings: ScaleDownSettings, gang: Gang) -> bool:
    """Return whether a gang may move whole, as far as other gangs do not matter."""
    if gang.group is None or not gang.group.moves_whole or gang.topology_key or gang.need:
        return False
    pods, snapshot = context.pods, context.request.snapshot
    nodes = np.unique(snapshot.pods.node[gang.bound])
    if nodes[0] < 0 or len(nodes) > min(settings.max_parallelism, settings.max_drain_parallelism):
        return False
    is_free = not any(snapshot.groups[row].zero_or_max for row in snapshot.nodes.group[nodes].tolist() if row >= 0)
    can_go = pods.needs_place[gang.bound] & (pods.codes[gang.bound] <= outcome.DRAIN_OK)
    return is_free and bool(can_go.all())


def whole_sizes(context: ScaleDownContext) -> Int64:
    """Return how many nodes of each group go together or not at all: those that are registered and not being deleted;
    0 = each goes alone, as do those of no group, the last one. int64[G+1]."""
    snapshot = context.request.snapshot
    group = snapshot.nodes.group[~context.request.leaving]
    size = np.bincount(group[group >= 0], minlength=len(snapshot.groups) + 1)
    return np.where([*(group.zero_or_max for group in snapshot.groups), False], size, 0)


def complete_groups(context: ScaleDownContext, going: Bool) -> Bool:
    """Return for each node whether its group, if it is all-or-nothing, goes whole. going : bool[N] nodes. bool[N]."""
    group, size = context.request.snapshot.nodes.group, whole_sizes(context)
    count = np.bincount(group[going & (group >= 0)], minlength=len(size))
    complete: Bool = ((size == 0) | (count == size))[group]
    return complete
