"""How each node group would grow for the pods that are left: the best of a few packings per group.

Groups whose new nodes are the same for these pods share a packing. If groups are many, those that are promising are
packed first: packing shows how good a group really is, but is slow for hundreds of instance sizes. Bounds quickly show
how good it can be at best. So the groups that the expanders would prefer by their bounds come first, followed by a
sample of sizes of all others, because bounds do not include counters (spread, anti-affinity). If groups are few, as
`SearchBudgets.packed_groups` says, all are packed.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from trimtab.planner.model.tuning import PROMISING_GROUPS, REPACKED_GROUPS, SAMPLED_GROUPS
from trimtab.planner.new_nodes.progress import PlanInProgress
from trimtab.planner.placement.group_bounds import GroupBounds, group_bounds
from trimtab.planner.placement.packing import GrowingGroups, Packed, PodsToPack, pack_best
from trimtab.planner.placement.waiting import by_class
from trimtab.planner.scale_up.balance import Sharing
from trimtab.planner.scale_up.expanders import NONE, Chooser, Options, Verdict
from trimtab.planner.snapshot.columns import Bool, Int32, Int64
from trimtab.planner.snapshot.dictionaries import CPU, MEMORY
from trimtab.v1.reason_pb2 import NodeGroupReason


class Estimate(NamedTuple):
    """How a group would grow. pods : int32[M] in the order of placement; packed : their destinations; node_count : new
    nodes, including those without pods; cpu_milli, memory_bytes : requests of the pods that fit."""

    group: int
    pods: Int32
    packed: Packed
    node_count: int
    cpu_milli: int
    memory_bytes: int

    @property
    def placed(self) -> Int32:
        """The pods that fit. int32."""
        return self.pods[self.packed.node_of >= 0]


class Estimates(NamedTuple):
    """options : by group; not_evaluated : groups skipped for lack of time; passed_over : groups skipped because others
    are more promising; admits : bool[S, G] classes that a new node of a group may take, of the pods that are left."""

    options: list[Estimate]
    not_evaluated: list[int]
    passed_over: list[int]
    admits: Bool


class EstimateInput(NamedTuple):
    """groups : those that may grow; waiting : int32 pods without a place; sharing : how growth is shared with similar
    groups; smallest_first : see `PodsToPack`; most_kinds : of groups up to which all are packed."""

    groups: Sequence[int]
    waiting: Int32
    sharing: Sharing
    smallest_first: bool
    most_kinds: int


class GroupChoice(NamedTuple):
    """options : the candidates; verdict : which one was chosen, and why not the others."""

    options: list[Estimate]
    verdict: Verdict

    @property
    def chosen(self) -> Estimate | None:
        """The option that was chosen; None if the expanders exclude all."""
        return self.options[self.verdict.chosen] if self.verdict.chosen != NONE else None

    def excluded(self) -> dict[int, int]:
        """Return the groups that an expander excludes, with the reason."""
        out = np.isin(self.verdict.reason, (NodeGroupReason.PRICE_UNKNOWN, NodeGroupReason.PRIORITY_INVALID))
        return {self.options[row].group: int(self.verdict.reason[row]) for row in np.flatnonzero(out).tolist()}


def estimates(
    progress: PlanInProgress, inputs: EstimateInput, chooser: Chooser, time_left: Callable[[], bool] | None
) -> Estimates:
    """Return how each of the groups would grow for the pods that are left; without those that help no pod.

    If a group reaches its maximum, what the groups that share its growth may add counts, too.
    Source: Cluster Autoscaler, estimator.sngCapacityThreshold. If there are very many different groups, the most
    promising are packed, and others only if none of these helps; first in one order, then the best in several.
    """
    bounds = group_bounds(progress.packer.simulation, progress.packer.growth, inputs.waiting)
    packing = _Packing(progress, bounds, inputs)
    helping = [group for group in inputs.groups if packing.may_add[group] > 0 and bounds.pods[group] > 0]
    options: list[Estimate] = []
    looked_at: list[int] = []
    for some in promising(bounds, packing.may_add, helping, chooser, inputs.most_kinds):
        if options:
            break
        many = len(some) < len(helping)
        for number, group in enumerate(some):
            if time_left is not None and options and not time_left():
                return Estimates(options, some[number:], [], packing.admits)
            estimate = packing.estimate(group, once=many)
            if estimate is not None:
                options.append(estimate)
        if many and options:
            for row in chooser.verdict(as_options(options)).order[:REPACKED_GROUPS].tolist():
                options[row] = packing.estimate(options[row].group) or options[row]
        looked_at += some
    return Estimates(options, [], sorted(set(helping) - set(looked_at)), packing.admits)


class _Packing:
    """Packings of the same pods onto one group after the other.

    may_add : int64[G] nodes that each may get alone; admits : bool[S, G] as in `Estimates`.
    """

    def __init__(self, progress: PlanInProgress, bounds: GroupBounds, inputs: EstimateInput) -> None:
        simulation = progress.packer.simulation
        self._progress, self._bounds, self._inputs = progress, bounds, inputs
        self._pods = by_class(simulation, inputs.waiting)
        self.may_add = progress.may_add
        self.admits = np.zeros((len(simulation.state.local_class), len(progress.groups)), bool)
        self.admits[bounds.classes] = bounds.admitted
        self._takers = self.admits[:, progress.limits.may_add > 0].sum(axis=1)
        self._known: dict[tuple[int, bool], Estimate | None] = {}

    def estimate(self, group: int, *, once: bool = False) -> Estimate | None:
        """Return how a group would grow; None if no pod fits. once : packed in one order."""
        may_add, first = int(self.may_add[group]), (int(self._bounds.same_as[group]), once)
        is_atomic = self._progress.groups[group].zero_or_max
        same = self._known.get(first)
        if same is not None and same.packed.nodes < may_add:
            estimate: Estimate | None = same._replace(group=group)
        else:
            estimate = self._packed(group, may_add, once)
            if estimate is not None and estimate.packed.nodes == may_add and not is_atomic:
                together = self._inputs.sharing.may_add(self._progress, self._inputs.waiting, group, self.admits)
                together = min(together, self._progress.spare_nodes_left)
                if together > may_add:
                    estimate = self._packed(group, together, once)
            if estimate is not None and estimate.packed.nodes < may_add:
                self._known[first] = estimate
        if estimate is None:
            return None
        return estimate._replace(node_count=may_add if is_atomic else estimate.packed.nodes)

    def _packed(self, group: int, may_add: int, once: bool) -> Estimate | None:
        """Return the best packing onto at most the allowed number of nodes; None if no pod fits."""
        progress, bounds = self._progress, self._bounds
        rows = np.flatnonzero(bounds.admitted[:, group])
        least = int(bounds.least_nodes[group])
        to_pack = PodsToPack(
            self._pods, rows, bounds.free[group], self._takers, least, once, smallest_first=self._inputs.smallest_first
        )
        # Sizes do not matter if only one group grows.
        packed = pack_best(
            progress.packer, GrowingGroups([group], [0], [may_add]), to_pack, may_add, len(progress.group_of)
        )
        if not packed.placed:
            return None
        used = bounds.demand[group]
        if packed.placed < len(packed.pods):
            state = progress.state
            counts = np.bincount(state.pod_class[packed.pods[packed.node_of >= 0]], minlength=len(state.local_class))
            used = counts @ state.resources.request
        return Estimate(group, packed.pods, packed, packed.nodes, int(used[CPU]), int(used[MEMORY]))


def as_options(candidates: Sequence[Estimate]) -> Options:
    """Return estimates as options for expanders."""
    rows = [
        (estimate.group, estimate.node_count, estimate.packed.placed, estimate.cpu_milli, estimate.memory_bytes)
        for estimate in candidates
    ]
    return Options(*np.ascontiguousarray(np.array(rows, np.int64).reshape(-1, 5).T))


def promising(
    bounds: GroupBounds, may_add: Int64, groups: Sequence[int], chooser: Chooser, limit: int
) -> Iterator[list[int]]:
    """Yield the groups in parts, the most promising one_of_each first, each part ascending.

    may_add : int64[G] nodes that each may get; groups : those that admit a pod; chooser : ranks options; limit :
    kinds of groups up to which all are packed; groups whose new nodes are the same for the pods are of one kind.
    """
    all_of_them = np.array(groups, np.int64)
    kinds, first = np.unique(bounds.same_as[all_of_them], return_index=True)
    limit = max(limit, PROMISING_GROUPS + SAMPLED_GROUPS)
    if len(kinds) <= limit:
        yield list(groups)
        return
    one_of_each = all_of_them[np.sort(first)]
    at_best = Options(
        group=one_of_each,
        node_count=np.clip(bounds.least_nodes[one_of_each], 1, may_add[one_of_each]),
        pod_count=bounds.pods[one_of_each],
        cpu_milli=bounds.demand[one_of_each, CPU],
        memory_bytes=bounds.demand[one_of_each, MEMORY],
    )
    order = one_of_each[chooser.verdict(at_best).order]
    rest = order[PROMISING_GROUPS:]
    rest = rest[np.lexsort((rest, bounds.free[rest, MEMORY], bounds.free[rest, CPU]))]
    steps = np.unique(np.linspace(0, len(rest) - 1, SAMPLED_GROUPS).astype(np.int64))
    chosen = np.concatenate([order[:PROMISING_GROUPS], rest[steps]])
    yield np.sort(chosen).tolist()
    rest = np.sort(np.setdiff1d(all_of_them, chosen))
    for start in range(0, len(rest), limit):
        yield rest[start : start + limit].tolist()
