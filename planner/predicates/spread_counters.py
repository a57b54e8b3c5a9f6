"""The counters behind topology spread: pods by domain, and a histogram of them that gives the minimum in O(1).

Contract: numbers only, no knowledge of pods. A counter belongs to a (node set, topology row) pair; the counters of a
pair share the number of eligible nodes in each domain. The histogram of a counter has buckets 0 .. B-1, the last one
also for all larger counts; domains are searched only if the smallest count is in the last bucket. The kernels are in
`trimtab.planner.predicates.kernels.spread`.
"""

from collections.abc import Hashable, Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.planner.classes.pod_classes import PodClasses
from trimtab.planner.predicates.counter_kind import (
    CounterKind,
    ListBuilder,
    Lists,
    NodeLimit,
    items_of,
    rows_by_number,
)
from trimtab.planner.predicates.topologies import Topologies
from trimtab.planner.snapshot.columns import Bool, Int32, Int64, UInt8
from trimtab.planner.snapshot.dictionaries import places_in

_FEWEST_BUCKETS, _MOST_BUCKETS = 64, 4096


class SpreadCounters(NamedTuple):
    """U counters over V (node set, topology row) pairs and W node sets; S classes.

    domain : int32[rows, N]; own_row : uint8[rows] each virtual node is its own domain; eligible : uint8[W, N]; stays :
    uint8[W] cordoned nodes stay eligible; pair_nodes, pair_row : int32[V]; pair_start : int64[V+1] place of domain 0 in
    `nodes_in`; nodes_in : int32[…] eligible nodes of each domain; domains_in : int32[V] domains with an eligible node;
    pair_counters : int32[V+1] counters of a pair are consecutive; pair : int32[U]; start : int64[U] place of domain 0
    in `counts`; counts : int32[…]; histogram_start : int64[U+1]; histogram : int32[…] eligible domains by count; lowest
    : int32[U], 0 without domains; added : int32[n, 1] counters a class adds to; limit : int32[n, 4] (counter, max skew,
    matches itself, min domains); `…_offsets` : int32[S+1], those of each class.
    """

    domain: Int32
    own_row: UInt8
    eligible: UInt8
    stays: UInt8
    pair_nodes: Int32
    pair_row: Int32
    pair_start: Int64
    nodes_in: Int32
    domains_in: Int32
    pair_counters: Int32
    pair: Int32
    start: Int64
    counts: Int32
    histogram_start: Int64
    histogram: Int32
    lowest: Int32
    added_offsets: Int32
    added: Int32
    limit_offsets: Int32
    limit: Int32


class SpreadNotes(NamedTuple):
    """By entry of `limit`, L of them. passed_lowest : int32[L] the smallest count at which new nodes were skipped;
    failed_lowest, failed_domains : int32[L] smallest count and eligible domains when no node admitted the class.
    """

    passed_lowest: Int32
    failed_lowest: Int32
    failed_domains: Int32


def spread_notes(spread: SpreadCounters) -> SpreadNotes:
    """Return notes in which nothing is noted."""
    return SpreadNotes(*np.zeros((3, len(spread.limit)), np.int32))


def _over_nodes(spread: SpreadCounters) -> tuple[Int64, Int32]:
    """Return the classes of the constraints whose domains are single nodes : int64[n], one for each constraint; and 1
    where the class counts itself. int32[n]."""
    of_class = np.repeat(np.arange(len(spread.limit_offsets) - 1), np.diff(spread.limit_offsets))
    by_node = spread.own_row[spread.pair_row[spread.pair[spread.limit[:, 0]]]] != 0
    return of_class[by_node], spread.limit[by_node, 2]


def _domains(spread: SpreadCounters) -> dict[int, Int32]:
    """Return the domain of each node : int32[N], by the topology rows that constraints use, ascending."""
    return {row: spread.domain[row] for row in np.unique(spread.pair_row).tolist()}


def _local(spread: SpreadCounters) -> Bool:
    local: Bool = np.diff(spread.limit_offsets) == 0
    return local


def _node_limits(spread: SpreadCounters, classes: Int64) -> Iterator[NodeLimit]:
    """Yield the skew that pods which spread over nodes and count themselves are allowed above the emptiest node."""
    keys, entries = items_of(Lists(spread.limit_offsets, spread.limit), classes)
    counter, row = np.divmod(np.sort(keys[entries[:, 2] == 1]), max(len(classes), 1))
    by_node = spread.own_row[spread.pair_row[spread.pair[counter]]] != 0
    counter, row = counter[by_node], row[by_node]
    skew = np.zeros(len(spread.pair), np.int64)
    skew[entries[:, 0]] = entries[:, 1]
    starts = np.flatnonzero(np.diff(counter, prepend=-1))
    for rows, of in zip(rows_by_number(counter, row), counter[starts].tolist(), strict=True):
        yield NodeLimit(rows, int(skew[of]), int(spread.domains_in[spread.pair[of]]))


def _kept_out(spread: SpreadCounters, classes: Int64) -> Bool:
    """Return the classes whose constraints count pods of them, or pods that are placed. bool[C]."""
    count = max(len(classes), 1)
    keys, limits = items_of(Lists(spread.limit_offsets, spread.limit), classes)
    sums = np.concatenate([[0], np.cumsum(spread.counts, dtype=np.int64)])
    there = np.diff(sums[np.append(spread.start, len(spread.counts))])
    uneven = (limits[:, 2] == 1) | (there[keys // count] > 0)
    out: Bool = np.zeros(len(classes), np.bool_)
    out[keys[uneven] % count] = True
    return out


class SpreadBuilder:
    """Collects constraints."""

    def __init__(self, classes: PodClasses, topologies: Topologies) -> None:
        self.topologies = topologies
        self._pods_of_class = np.bincount(classes.of, minlength=classes.size).astype(np.int64)
        self.known_node_sets: dict[Hashable, int] = {}
        self._node_sets: dict[tuple[bytes, bool], int] = {}
        self._eligible: list[tuple[Bool, bool]] = []
        self._pairs: dict[tuple[int, int], int] = {}
        self._counters: dict[Hashable, int] = {}
        self._pair_of: list[int] = []
        self._added = ListBuilder(classes.size, 1, topologies.limits)
        self._limits = ListBuilder(classes.size, 4, topologies.limits)

    def node_set(self, eligible: Bool, stays: bool) -> int:
        """Return the number of a set of eligible nodes : bool[N]."""
        key = (eligible.tobytes(), stays)
        number = self._node_sets.get(key)
        if number is None:
            self.topologies.limits.reserve(3 * len(eligible), "node sets of spread constraints")
            number = self._node_sets[key] = len(self._eligible)
            self._eligible.append((eligible, stays))
        return number

    def counter(self, content: Hashable, row: int, node_set: int) -> tuple[int, bool]:
        """Return the provisional number of a counter, and whether it is new."""
        pair = self._pairs.setdefault((node_set, row), len(self._pairs))
        number = self._counters.get((content, pair))
        if number is not None:
            return number, False
        self._counters[(content, pair)] = len(self._pair_of)
        self._pair_of.append(pair)
        return len(self._pair_of) - 1, True

    def adds(self, classes: Int64, counter: int) -> None:
        """Count pods of these classes : int64[C]."""
        self._added.add(classes, counter)

    def limits(
        self, classes: NDArray[np.int64], counter: int, max_skew: int, matches_itself: int, min_domains: int
    ) -> None:
        """Constrain pods of these classes : int64[C]. matches_itself : 1 if the counter counts the pod, else 0."""
        self._limits.add(classes, counter, max_skew, matches_itself, min_domains)

    def build(self) -> SpreadCounters:
        """Return the counters, all 0 and without eligible nodes. The pods of a class bound the histograms."""
        pair_of = np.array(self._pair_of, np.int32)
        order = np.argsort(pair_of, kind="stable")  # counters of a pair become neighbours
        number = places_in(order)
        pairs = sorted(self._pairs, key=self._pairs.__getitem__)
        sizes = np.array([self.topologies.size(row) for _, row in pairs], np.int64)
        added, limit = self._added.build(), self._limits.build()
        added_items = number[added.items] if len(order) else added.items
        limit_items = limit.items.copy()
        if len(order):
            limit_items[:, 0] = number[limit.items[:, 0]]
        domains = sizes[pair_of[order]] if len(order) else np.zeros(0, np.int64)
        buckets = _buckets(len(order), added.offsets, added_items, domains, self._pods_of_class)
        cells = int(sizes.sum()) + int(domains.sum()) + int(buckets.sum())
        self.topologies.limits.reserve(4 * cells, "spread constraints times topology domains")
        nodes = len(self.topologies.domains(0))
        return SpreadCounters(
            self.topologies.matrix(),
            self.topologies.own_rows(),
            np.array([e for e, _ in self._eligible], np.uint8).reshape(len(self._eligible), nodes),
            np.array([stays for _, stays in self._eligible], np.uint8),
            np.array([node_set for node_set, _ in pairs], np.int32),
            np.array([row for _, row in pairs], np.int32),
            _starts(sizes),
            np.zeros(int(sizes.sum()), np.int32),
            np.zeros(len(pairs), np.int32),
            np.searchsorted(pair_of[order], np.arange(len(pairs) + 1)).astype(np.int32),
            np.ascontiguousarray(pair_of[order]),
            np.ascontiguousarray(_starts(domains)[:-1]),
            np.zeros(int(domains.sum()), np.int32),
            _starts(buckets),
            np.zeros(int(buckets.sum()), np.int32),
            np.zeros(len(order), np.int32),
            added.offsets,
            np.ascontiguousarray(added_items),
            limit.offsets,
            np.ascontiguousarray(limit_items),
        )


def _starts(sizes: NDArray[np.int64]) -> Int64:
    starts = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=starts[1:])
    return starts


def _buckets(
    count: int, offsets: Int32, items: Int32, domains: NDArray[np.int64], pods_of_class: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the bucket count of each counter: one per count for few pods, else enough for an even spread.

    offsets : int32[S+1], items : int32[n, 1] counters to which each class adds; domains : int64[count] of each counter;
    pods_of_class : int64[S]. int64[count].
    """
    if not count:
        return np.full(count, _FEWEST_BUCKETS, np.int64)
    weights = np.repeat(pods_of_class, np.diff(offsets))
    pods = np.bincount(items[:, 0], weights=weights, minlength=count).astype(np.int64)
    even = np.maximum(_FEWEST_BUCKETS, 2 * pods // np.maximum(domains, 1))
    return np.minimum(np.minimum(pods + 2, even), _MOST_BUCKETS)


SPREAD: Final = CounterKind(
    "spread",
    cost=1,
    builder=lambda context: SpreadBuilder(context.classes, context.topologies),
    notes=spread_notes,
    written=("nodes_in", "domains_in", "counts", "histogram", "lowest"),
    of_nodes=("domain", "eligible"),
    by_row=("domain",),
    lists=("added", "limit"),
    local=_local,
    node_limits=_node_limits,
    kept_out=_kept_out,
    over_nodes=_over_nodes,
    domains=_domains,
)
