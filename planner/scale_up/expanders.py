"""Expanders: how one option is chosen among several.

Each `score(context, state, options) -> float64[O]` rates options, the larger, the better; NaN = excluded. Options are
node groups, each with its growth for some pods. Rows of node groups are those of `Snapshot.groups`, which are sorted by
id. Amounts of a new node are its capacity, as in upstream. Scores do not depend on the order of options.

In the chain, each expander decides among the options that the previous one rates equal. The first is always applied, to
exclude options even if there is only one; the others only while more than one option is left. If one excludes all
options that the others left, the choice is repeated without these; upstream then adds no node. Among options that all
others rate equal, the cheapest for what it serves is preferred before RANDOM decides, if all of them have prices and
PRICE is not configured; RANDOM alone decides alone. Among options that all rate equal, the first by group is chosen.
CHEAPEST_PLAN is not part of the chain: it chooses among plans, not among options.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import accumulate, repeat
from operator import mul
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.facts.nodes import group_prices
from trimtab.planner.facts.readiness import GPU_SUFFIX
from trimtab.planner.facts.similarity import Similarity
from trimtab.planner.model.settings import ScaleUpSettings
from trimtab.planner.placement.group_templates import labels_by_group
from trimtab.planner.simulation.virtual_rows import GroupTemplate
from trimtab.planner.snapshot.columns import Bool, Float64, Int32, Int64, Snapshot
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1.reason_pb2 import NodeGroupReason

GIB: Final = float(1 << 30)
GIB_PER_CORE_PRICE: Final = 0.134
"""Price of 1 GiB relative to that of a core: the ratio of Google's list prices, which upstream's price model uses."""
STABILIZING_CORES: Final = 0.5
STABILIZING_GIB: Final = 500 / 1024
GPU_UNFITNESS: Final = 1000.0
_PREFERRED: Final = ((2, 1000.0), (6, 2000.0), (20, 4000.0), (60, 8000.0), (200, 16000.0))
"""Largest number of nodes of a cluster, and cpu of its preferred node in milli-cores."""
_PREFERRED_IN_LARGER: Final = 32000.0
_E_TO_2_15THS: Final = 1.1426308117957227
# 1 - tanh((n - 1) / 15) is 2 / (e^(2 (n - 1) / 15) + 1). Computed by products, because library functions differ in the
# last bit between machines. After the last entry, nothing of the unfitness is left.
_COUNTING: Final = np.array([2.0 / (power + 1.0) for power in accumulate(repeat(_E_TO_2_15THS, 300), mul, initial=1.0)])
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,15}")


class Options(NamedTuple):
    """Options as columns. group, node_count, pod_count, cpu_milli, memory_bytes : int64[O]."""

    group: Int64
    node_count: Int64
    pod_count: Int64
    cpu_milli: Int64
    memory_bytes: Int64


class GroupFacts(NamedTuple):
    """Data about a new node of each group.

    ids : ids; cpu_milli, memory_bytes : int64[G] capacity, 0 for a group without template; price_per_hour : float64[G],
    NaN = unknown; is_gpu : bool[G], it has GPUs or their label; labels : of the template; similarity : of the
    groups.
    """

    ids: tuple[str, ...]
    cpu_milli: Int64
    memory_bytes: Int64
    price_per_hour: Float64
    is_gpu: Bool
    labels: tuple[dict[str, str], ...]
    similarity: Similarity


def describe(
    snapshot: Snapshot, templates: Sequence[GroupTemplate | None], gpu_label: str, similarity: Similarity
) -> GroupFacts:
    """Return the expanders' input for each group. gpu_label : "" = none."""
    capacity = [dict(template.capacity) if template else {} for template in templates]
    labels = labels_by_group(templates)
    return GroupFacts(
        ids=tuple(group.id for group in snapshot.groups),
        cpu_milli=np.array([amounts.get("cpu", 0) for amounts in capacity], np.int64),
        memory_bytes=np.array([amounts.get("memory", 0) for amounts in capacity], np.int64),
        price_per_hour=group_prices(snapshot.groups),
        is_gpu=np.array(
            [
                template is not None and (gpu_label in label or offers_gpu(template.template.allocatable))
                for template, label in zip(templates, labels, strict=True)
            ],
            bool,
        ),
        labels=labels,
        similarity=similarity,
    )


def offers_gpu(allocatable: Iterable[tuple[str, int]]) -> bool:
    """Return whether a node with these amounts has GPUs."""
    return any(name.endswith(GPU_SUFFIX) and amount > 0 for name, amount in allocatable)


@dataclass(frozen=True)
class ExpanderContext:
    """The expanders' input besides the options, the same for all choices of a decision.

    node_count : nodes of the cluster; seed : `PlanRequest.seed`.
    """

    groups: GroupFacts
    settings: ScaleUpSettings
    node_count: int
    seed: int = 0
    _by_group: dict[str, Float64] = field(default_factory=dict, repr=False, compare=False)

    def by_group(self, name: str, build: Callable[[], Float64]) -> Float64:
        """Return the result of `build`, float64[G], built on first use of this name."""
        values = self._by_group.get(name)
        if values is None:
            values = self._by_group[name] = build()
        return values


class ChoiceState(NamedTuple):
    """The input that changes from one choice to the next.

    choice : its number, from 0; size : int64[G] nodes of each group, including those added by the plan.
    """

    choice: int
    size: Int64


def balanced(context: ExpanderContext, state: ChoiceState, options: Options) -> Float64:
    """BALANCED: by how many nodes the group is larger than the smallest of the options similar to it, negative.

    So the smallest groups of each kind of similar groups rate equal, and the next expander decides which kind grows.
    """
    kind = context.groups.similarity.kinds[options.group]
    size = state.size[options.group]
    smallest = np.full(int(kind.max(initial=-1)) + 1, np.iinfo(np.int64).max)
    alike = kind >= 0
    np.minimum.at(smallest, kind[alike], size[alike])
    ahead = np.zeros(len(size), np.int64)
    ahead[alike] = size[alike] - smallest[kind[alike]]
    return -ahead.astype(np.float64)


def highest_priority(context: ExpanderContext, state: ChoiceState, options: Options) -> Float64:
    """HIGHEST_PRIORITY: the number in a label of the group's template; 0 without the label, NaN if it is no number.

    A group whose label is not an integer, or has more than 15 digits, is excluded. Source: the Zalando fork of the
    Cluster Autoscaler, label `zalando.org/scaling-priority`.
    """
    del state
    texts = [labels.get(context.settings.priority_label, "0") for labels in context.groups.labels]
    by_group = context.by_group(
        "priority", lambda: np.array([float(text) if _INTEGER.fullmatch(text) else np.nan for text in texts])
    )
    return by_group[options.group]


def least_nodes(context: ExpanderContext, state: ChoiceState, options: Options) -> Float64:
    """LEAST_NODES: the number of new nodes, negated. Source: Cluster Autoscaler, expander/leastnodes."""
    del context, state
    return -options.node_count.astype(np.float64)


def least_waste(context: ExpanderContext, state: ChoiceState, options: Options) -> Float64:
    """LEAST_WASTE: the share of cpu that stays idle on the new nodes plus that of memory, negated.

    Capacity counts, so amounts reserved for the node itself and for DaemonSets are waste. A resource that the nodes
    lack is not wasted. Source: Cluster Autoscaler, expander/waste.
    """
    del state
    groups = context.groups
    # As floats: the total of very many of the largest nodes exceeds int64. Floats are exact up to 2**53.
    node_count = options.node_count.astype(np.float64)
    cpu = _idle(groups.cpu_milli[options.group] * node_count, options.cpu_milli)
    memory = _idle(groups.memory_bytes[options.group] * node_count, options.memory_bytes)
    return -(cpu + memory)


def _idle(offered: Float64, requested: Int64) -> Float64:
    share = np.zeros(len(offered))
    np.divide(offered - requested, offered, out=share, where=offered > 0)
    return share


def most_pods(context: ExpanderContext, state: ChoiceState, options: Options) -> Float64:
    """MOST_PODS: how many pods the option serves. Source: Cluster Autoscaler, expander/mostpods."""
    del context, state
    return options.pod_count.astype(np.float64)


def priority(context: ExpanderContext, state: ChoiceState, options: Options) -> Float64:
    """PRIORITY: the highest rank with a pattern that matches the group's id; minus infinity for a group without rank.

    So a group without rank loses against all that have one, and among groups without rank the next expander decides.
    Source: Cluster Autoscaler, expander/priority, which in addition never takes a group of a rank below -1.
    """
    del state
    by_group = context.by_group(
        "rank", lambda: np.array([_rank(group, context.settings) for group in context.groups.ids], np.float64)
    )
    return by_group[options.group]


def _rank(group: str, settings: ScaleUpSettings) -> float:
    """Return the rank of a group. Ranks are sorted, highest first."""
    for rank in settings.priority:
        if any(pattern.search(group) for pattern in rank.patterns):
            return float(rank.rank)
    return -np.inf


def seeded_random(context: ExpanderContext, state: ChoiceState, options: Options) -> Float64:
    """RANDOM: a number from 0 to 1, drawn from the seed of the request, the number of the choice and the group's id.

    So the same request has the same answer, and the order of options does not matter.
    """
    ids, salt = context.groups.ids, f"{context.seed}/{state.choice}/"
    return np.array([_draw(salt + ids[group]) for group in options.group.tolist()], np.float64)


def _draw(text: str) -> float:
    # 53 bits: the precision of a float.
    return (int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") >> 11) / 2.0**53


def price(context: ExpanderContext, state: ChoiceState, options: Options) -> Float64:
    """PRICE: the cost of the new nodes per worth of their pods, times the distance from the preferred node; negated.

    The preferred node has 1, 2, 4, 8, 16 or 32 cores in clusters of up to 2, 6, 20, 60, 200 and more nodes. The
    distance of another node, the ratio of their cores, counts less the more nodes are added. GPU nodes always count as
    far from it. The worth of a pod is defined by the cloud provider in upstream, by prices of a core and of memory.
    Here the price of a core is the lowest at which any node group sells one, with memory at the usual ratio; half a
    core and 500 MiB are added on both sides, as upstream does, to keep the ratio finite for pods without requests. An
    option of unknown price is excluded. Source: Cluster Autoscaler, expander/price.
    """
    del state
    groups = context.groups
    unfitness = context.by_group("unfitness", lambda: _unfitness(groups, context.node_count))[options.group]
    counts = _COUNTING[np.minimum(options.node_count - 1, len(_COUNTING) - 1)]
    suppressed = np.where(groups.is_gpu[options.group], GPU_UNFITNESS, (unfitness - 1.0) * counts + 1.0)
    score: Float64 = -(suppressed * price_per_worth(context, options))
    return score


def price_per_worth(context: ExpanderContext, options: Options) -> Float64:
    """Return the cost of each option per worth of its pods, whatever the preferred node; NaN = unknown. float64[O]."""
    groups = context.groups
    core = _price_of_core(groups)
    stabilizing = core * (STABILIZING_CORES + STABILIZING_GIB * GIB_PER_CORE_PRICE)
    nodes = groups.price_per_hour[options.group] * options.node_count
    pods = core * _cores(options.cpu_milli, options.memory_bytes)
    # Without any price, no option is more expensive than another.
    ratio = (nodes + stabilizing) / (pods + stabilizing) if core > 0 else np.where(np.isnan(nodes), np.nan, 1.0)
    price_ratio: Float64 = ratio
    return price_ratio


def preferred_cpu_milli(node_count: int) -> float:
    """Return the cpu of the preferred node for a cluster of the given number of nodes."""
    return next((cpu_milli for nodes, cpu_milli in _PREFERRED if node_count <= nodes), _PREFERRED_IN_LARGER)


def _unfitness(groups: GroupFacts, node_count: int) -> Float64:
    preferred = preferred_cpu_milli(node_count)
    cpu = groups.cpu_milli.astype(np.float64)
    larger = np.full(len(cpu), np.inf)
    np.divide(preferred, cpu, out=larger, where=cpu > 0)
    unfitness: Float64 = np.maximum(larger, cpu / preferred)
    return unfitness


def _cores(cpu_milli: Int64, memory_bytes: Int64) -> Float64:
    """Return cpu and memory as a number of cores of equal cost."""
    cores: Float64 = cpu_milli / 1000.0 + memory_bytes / GIB * GIB_PER_CORE_PRICE
    return cores


def _price_of_core(groups: GroupFacts) -> float:
    """Return the lowest price of a core for one hour; 0 if no node has a price."""
    cores = _cores(groups.cpu_milli, groups.memory_bytes)
    sold = (groups.price_per_hour > 0) & (cores > 0)
    return float((groups.price_per_hour[sold] / cores[sold]).min(initial=np.inf)) if sold.any() else 0.0


Score = Callable[[ExpanderContext, ChoiceState, Options], Float64]


class Expander(NamedTuple):
    """One expander. score : the larger, the better, NaN = excluded; excludes : why it excludes options, if it does."""

    score: Score
    excludes: int = NodeGroupReason.UNSPECIFIED


EXPANDERS: Final[Mapping[int, Expander]] = {
    pb.Expander.LEAST_WASTE: Expander(least_waste),
    pb.Expander.MOST_PODS: Expander(most_pods),
    pb.Expander.LEAST_NODES: Expander(least_nodes),
    pb.Expander.PRICE: Expander(price, NodeGroupReason.PRICE_UNKNOWN),
    pb.Expander.PRIORITY: Expander(priority),
    pb.Expander.HIGHEST_PRIORITY: Expander(highest_priority, NodeGroupReason.PRIORITY_INVALID),
    pb.Expander.BALANCED: Expander(balanced),
    pb.Expander.RANDOM: Expander(seeded_random),
}
NONE: Final = -1


class Verdict(NamedTuple):
    """The result of a choice.

    chosen : the option, NONE if all are excluded or there is none; expanders : `Expander.Code`s in order; scores :
    float64[len(expanders), O], NaN if an option was excluded or no longer considered; decided_by : int32[O] the
    expander that preferred another option, UNSPECIFIED for the chosen and the excluded ones; reason : int32[O]
    `NodeGroupReason.Code`, UNSPECIFIED for the chosen one; order : int64[O] the options, best first.
    """

    chosen: int
    expanders: tuple[int, ...]
    scores: Float64
    decided_by: Int32
    reason: Int32
    order: Int64


class Chooser(NamedTuple):
    """One choice among node groups. context : the expanders' input; expanders : those configured, `Expander.Code`s;
    state : what differs from one choice to the next."""

    context: ExpanderContext
    expanders: tuple[int, ...]
    state: ChoiceState

    def verdict(self, options: Options) -> Verdict:
        """Choose among options by the configured expanders."""
        prices = self.context.groups.price_per_hour[options.group]
        return choose(self.context, self.state, options, nearest_to_cheapest(self.expanders, prices))


def nearest_to_cheapest(configured: tuple[int, ...], price: Float64) -> tuple[int, ...]:
    """Return the expanders that choose among options: if CHEAPEST_PLAN is the only one, those nearest to it.

    price : float64[O] of a node of each option, NaN = unknown.
    """
    if configured != (pb.Expander.CHEAPEST_PLAN, pb.Expander.RANDOM):
        return configured
    nearest = pb.Expander.LEAST_NODES if np.isnan(price).any() else pb.Expander.PRICE
    return (nearest, pb.Expander.LEAST_WASTE, pb.Expander.RANDOM)


def choose(context: ExpanderContext, state: ChoiceState, options: Options, expanders: Iterable[int]) -> Verdict:
    """Choose one option. expanders : `Expander.Code`s; those not in `EXPANDERS` are skipped.

    O(options · expanders); repeated for each exclusion of all options.
    """
    chain = [code for code in expanders if code in EXPANDERS]
    verdict = _choose(context, state, options, chain)
    beaten = np.flatnonzero(verdict.reason == NodeGroupReason.NOT_CHOSEN)
    if verdict.chosen != NONE or len(beaten) == 0:
        return verdict
    return _among(beaten, verdict, choose(context, state, _rows(options, beaten), chain))


def _choose(context: ExpanderContext, state: ChoiceState, options: Options, chain: list[int]) -> Verdict:
    rows = np.argsort(options.group, kind="stable")
    ranking = _Ranking(len(rows))
    for code in chain:
        if len(rows) == 0 or (len(rows) == 1 and ranking.expanders):
            break
        if code == pb.Expander.RANDOM and pb.Expander.PRICE not in chain and ranking.expanders:
            cost = price_per_worth(context, _rows(options, rows))
            rows = rows if np.isnan(cost).any() else ranking.note(pb.Expander.PRICE, rows, np.negative(cost))
            if len(rows) == 1:
                break
        rows = ranking.note(code, rows, EXPANDERS[code].score(context, state, _rows(options, rows)))
    return ranking.choice(rows)


def _rows(options: Options, rows: Int64) -> Options:
    return Options(*(column[rows] for column in options))


def _among(rows: Int64, all_options: Verdict, part: Verdict) -> Verdict:
    """Return a choice among some of the options, `rows`, as one among all: the others were excluded."""
    scores = np.full((len(part.expanders), len(all_options.reason)), np.nan)
    scores[:, rows] = part.scores
    decided_by, reason = all_options.decided_by.copy(), all_options.reason.copy()
    decided_by[rows], reason[rows] = part.decided_by, part.reason
    excluded = all_options.order[~np.isin(all_options.order, rows)]
    return Verdict(
        chosen=int(rows[part.chosen]) if part.chosen != NONE else NONE,
        expanders=part.expanders,
        scores=scores,
        decided_by=decided_by,
        reason=reason,
        order=np.concatenate([rows[part.order], excluded]),
    )


class _Ranking:
    """Options in the order in which they are eliminated."""

    def __init__(self, count: int) -> None:
        self.expanders: list[int] = []
        self._scores: list[Float64] = []
        self._decided_by = np.zeros(count, np.int32)
        self._reason = np.zeros(count, np.int32)
        self._worse: list[Int64] = []

    def note(self, code: int, rows: Int64, scores: Float64) -> Int64:
        """Record an expander's scores; return the options that it rates highest."""
        self.expanders.append(code)
        row = np.full(len(self._reason), np.nan)
        row[rows] = scores
        self._scores.append(row)
        excluded = np.isnan(scores)
        self._reason[rows[excluded]] = EXPANDERS[code].excludes
        best: Bool = scores == scores[~excluded].max(initial=-np.inf)
        beaten = ~best & ~excluded
        self._reason[rows[beaten]] = NodeGroupReason.NOT_CHOSEN
        self._decided_by[rows[beaten]] = code
        # A stable sort: options that rate equal stay in the order of their groups.
        falls = np.lexsort((np.negative(scores[~best]), excluded[~best]))
        self._worse.insert(0, rows[~best][falls])
        return rows[best]

    def choice(self, rows: Int64) -> Verdict:
        """Return the choice among the options rows: the first by group."""
        last = self.expanders[-1] if self.expanders else pb.Expander.UNSPECIFIED
        self._reason[rows[1:]] = NodeGroupReason.NOT_CHOSEN
        self._decided_by[rows[1:]] = last
        return Verdict(
            chosen=int(rows[0]) if len(rows) else NONE,
            expanders=tuple(self.expanders),
            scores=np.array(self._scores, np.float64).reshape(len(self.expanders), len(self._reason)),
            decided_by=self._decided_by,
            reason=self._reason,
            order=np.concatenate([rows, *self._worse]),
        )
