"""ANTI_AFFINITY: pods whose removal improves anti-affinity most go first.

Each term of a pod, required or preferred, adds its weight (100 for required ones) for each other pod that it matches in
the same domain, and the same to the matched pod. Each removal changes ranks of other pods, also in groups that share a
term: such groups are linked, and only one of them is scaled down at a time. Cost: O(P log P), plus for each distinct
term the pods that have it or match it; their specs and label sets are cached with the snapshot.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.facts.labels import LabelIndex
from trimtab.planner.model.execution import RequestLimits
from trimtab.planner.model.values import AffinityTerm
from trimtab.planner.pod_costs.members import active
from trimtab.planner.pod_costs.settings import PodCostTerm
from trimtab.planner.pod_costs.strategy import RankingContext, Ranks, Strategy
from trimtab.planner.snapshot.caches import SnapshotKey
from trimtab.planner.snapshot.columns import Bool, Int32, Int64, Snapshot
from trimtab.planner.snapshot.dictionaries import entries_of
from trimtab.planner.snapshot.texts import string_index

REQUIRED_WEIGHT: Final = 100
OWN_NAMESPACE: Final = -1
_AT_ONCE: Final = 1 << 20
"""Pods of terms that are counted between two checks of the deadline, unless a single term has more."""


class Terms(NamedTuple):
    """T distinct terms.

    weight : int64[T]; key : int64[T] row of `keys`, the topology keys; scope : int64[T] row of `spaces`, -1 = the
    namespace of the pod that has the term; spaces : bool[X+1, strings], the namespaces of each scope, all for -1; specs
    : int32 of term t at spec_offsets[t] : spec_offsets[t + 1], those that have it; sets : int32 likewise, the label
    sets that it matches.
    """

    weight: Int64
    key: Int64
    keys: tuple[str, ...]
    scope: Int64
    spaces: Bool
    spec_offsets: Int64
    specs: Int32
    set_offsets: Int64
    sets: Int32


class PlacedPods(NamedTuple):
    """Counted pods that are on nodes, in the order of a number. offsets : int64 by number; pods : int64 rows."""

    offsets: Int64
    pods: Int64


class TermPods(NamedTuple):
    """Pods of terms: that have it, or that it matches, in a domain of its key. term, pod : int64[Q]; space : int64[Q]
    the namespace, 0 where it does not matter; domain : int64[Q]."""

    term: Int64
    pod: Int64
    space: Int64
    domain: Int64


class AntiAffinityTermsKey(SnapshotKey[Terms]):
    """The distinct terms of anti-affinity."""


def _rank(context: RankingContext, term: PodCostTerm, threshold: float) -> Ranks:
    del term, threshold
    snapshot, members, work = context.snapshot, context.members, context.round.work
    terms = work.cache.get(AntiAffinityTermsKey(), snapshot, lambda view: _terms(view, work.limits))
    rows = [context.domains(key)[0] for key in terms.keys] or [np.zeros(len(snapshot.nodes.name), np.int32)]
    domains = np.stack(rows)
    by_spec = _placed(snapshot, snapshot.pods.spec, len(snapshot.specs))
    by_set = _placed(snapshot, snapshot.pods.label_set, max(len(snapshot.label_sets.offsets) - 1, 1))
    group = np.full(len(snapshot.pods.spec), -1, np.int64)
    group[members.pods] = members.group
    rank, linked = np.zeros(len(group), np.int64), np.arange(len(members.owners))
    for first, last in _portions(terms, by_spec, by_set):
        work.limits.check()
        some = np.arange(first, last)
        having = _term_pods(snapshot, terms, domains, some, terms.spec_offsets, terms.specs, by_spec)
        matched = _term_pods(snapshot, terms, domains, some, terms.set_offsets, terms.sets, by_set)
        scope = terms.scope[matched.term]
        matched = _of(matched, terms.spaces[scope, snapshot.pods.namespace[matched.pod]])
        _add(terms, having, matched, rank)
        linked = _linked(having, matched, group, linked)
    return Ranks(rank[members.pods].astype(np.float64), context.without_node, linked)


def _placed(snapshot: Snapshot, number: Int32, count: int) -> PlacedPods:
    """Return the counted pods on nodes by a number : int32[P] below count."""
    pods = np.flatnonzero(active(snapshot.pods) & (snapshot.pods.node >= 0))
    order = pods[np.argsort(number[pods], kind="stable")]
    return PlacedPods(np.searchsorted(number[order], np.arange(count + 1)).astype(np.int64), order)


def _portions(terms: Terms, by_spec: PlacedPods, by_set: PlacedPods) -> Iterator[tuple[int, int]]:
    """Yield the first term and the end of portions of about `_AT_ONCE` pods."""
    count = np.zeros(len(terms.weight) + 1, np.int64)
    for offsets, numbers, placed in (
        (terms.spec_offsets, terms.specs, by_spec),
        (terms.set_offsets, terms.sets, by_set),
    ):
        upto = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.diff(placed.offsets)[numbers])])
        count += upto[offsets]
    first = 0
    while first < len(terms.weight):
        last = max(int(np.searchsorted(count, count[first] + _AT_ONCE, "right")) - 1, first + 1)
        yield first, last
        first = last


def _term_pods(
    snapshot: Snapshot, terms: Terms, domains: Int32, some: Int64, offsets: Int64, numbers: Int32, placed: PlacedPods
) -> TermPods:
    """Return the pods of some terms. domains : int32[keys, N]; offsets, numbers : specs or label sets of all terms."""
    of = numbers[entries_of(offsets, some)]
    pod = placed.pods[entries_of(placed.offsets, of)]
    term = np.repeat(np.repeat(some, np.diff(offsets)[some]), np.diff(placed.offsets)[of])
    space = np.where(terms.scope[term] < 0, snapshot.pods.namespace[pod].astype(np.int64), 0)
    pods = TermPods(term, pod, space, domains[terms.key[term], snapshot.pods.node[pod]].astype(np.int64))
    return _of(pods, pods.domain >= 0)


def _of(pods: TermPods, which: Bool) -> TermPods:
    return TermPods(*(column[which] for column in pods))


def _numbered(*columns: Int64) -> Int64:
    """Return a number for each row, equal for equal rows. int64."""
    number = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        number = np.unique(number * (column.max(initial=0) + 1) + column, return_inverse=True)[1].ravel()
    return number


def _add(terms: Terms, having: TermPods, matched: TermPods, rank: Int64) -> None:
    """Add the weight of each pair of a pod that has a term and another one that it matches to both, in rank :
    int64[P]."""
    both = TermPods(*(np.concatenate(columns) for columns in zip(having, matched, strict=True)))
    place, count = _numbered(both.term, both.space, both.domain), len(having.pod)
    term_and_pod = both.term * len(rank) + both.pod
    for mine, others in ((slice(count), slice(count, None)), (slice(count, None), slice(count))):
        pairs = np.bincount(place[others], minlength=len(place) + 1)[place[mine]]
        pairs = pairs - np.isin(term_and_pod[mine], term_and_pod[others])
        np.add.at(rank, both.pod[mine], terms.weight[both.term[mine]] * pairs)


def _linked(having: TermPods, matched: TermPods, group: Int64, linked: Int64) -> Int64:
    """Return the smallest group that each is linked with. group : int64[P], -1 = none; linked : int64[G] so far."""
    both = TermPods(*(np.concatenate(columns) for columns in zip(having, matched, strict=True)))
    term, is_matched = _numbered(both.term, both.space), np.arange(len(both.term)) >= len(having.term)
    is_met, is_had = np.zeros((2, len(term) + 1), np.bool_)
    is_had[term[: len(having.term)]] = True
    is_met[term[is_matched & (group[both.pod] >= 0)]] = True
    links = (group[both.pod] >= 0) & is_met[term] & is_had[term]
    term, of = term[links], group[both.pod[links]]
    while True:
        least = np.full(len(is_met), len(linked), np.int64)
        np.minimum.at(least, term, linked[of])
        lower = linked.copy()
        np.minimum.at(lower, linked[of], least[term])
        lower = lower[lower]
        if np.array_equal(lower, linked):
            return linked
        linked = lower


def _terms(snapshot: Snapshot, limits: RequestLimits) -> Terms:
    """Return the distinct terms, with the specs that have them and the label sets that they match."""
    rows: list[tuple[AffinityTerm, int, list[int]]] = []
    for (term, weight), times in _by_term(snapshot).items():
        # A spec that has a term twice counts twice.
        for repeated in sorted(set(times.values())):
            rows.append((term, weight * repeated, [spec for spec, often in times.items() if often == repeated]))
    index = LabelIndex(snapshot.strings, snapshot.label_sets)
    keys = {key: number for number, key in enumerate(dict.fromkeys(term.topology_key for term, _, _ in rows))}
    scopes = {_scope(term): term for term, _, _ in rows if _scope(term) is not None}
    limits.reserve(len(scopes) * len(snapshot.strings), "namespaces of terms of anti-affinity")
    number = {scope: row for row, scope in enumerate(scopes)}
    spaces = [_named(snapshot, term, index) for term in scopes.values()]
    spec_offsets, specs = _joined([np.array(having, np.int32) for _, _, having in rows])
    set_offsets, sets = _joined([index.sets_matching(term.selector) for term, _, _ in rows])
    return Terms(
        weight=np.array([weight for _, weight, _ in rows], np.int64),
        key=np.array([keys[term.topology_key] for term, _, _ in rows], np.int64),
        keys=tuple(keys),
        scope=np.array([number.get(_scope(term), OWN_NAMESPACE) for term, _, _ in rows], np.int64),
        spaces=np.stack([*spaces, np.ones(len(snapshot.strings), np.bool_)]),
        spec_offsets=spec_offsets,
        specs=specs,
        set_offsets=set_offsets,
        sets=sets,
    )


def _by_term(snapshot: Snapshot) -> dict[tuple[AffinityTerm, int], dict[int, int]]:
    """Return by term and weight how often each spec has it."""
    by_term: dict[tuple[AffinityTerm, int], dict[int, int]] = {}
    for number, spec in enumerate(snapshot.specs):
        required = [(term, REQUIRED_WEIGHT) for term in spec.pod_anti_affinity]
        for term in required + [(preferred.term, preferred.weight) for preferred in spec.preferred_pod_anti_affinity]:
            times = by_term.setdefault(term, {})
            times[number] = times.get(number, 0) + 1
    return by_term


def _joined(parts: list[Int32]) -> tuple[Int64, Int32]:
    offsets = np.zeros(len(parts) + 1, np.int64)
    np.cumsum([len(part) for part in parts], out=offsets[1:])
    return offsets, np.concatenate([np.zeros(0, np.int32), *parts]).astype(np.int32)


def _scope(term: AffinityTerm) -> object:
    """Return a key for the namespaces from which a term selects; None = that of its pod."""
    is_own = not term.namespaces and term.namespace_selector is None
    return None if is_own else (term.namespaces, term.namespace_selector)


def _named(snapshot: Snapshot, term: AffinityTerm, index: LabelIndex) -> Bool:
    """Return the namespaces that a term names or selects; one that is not listed has no labels. bool[strings]."""
    selected = index.matching(term.namespace_selector)
    spaces = np.full(len(snapshot.strings), selected[0])
    listed = {name: bool(selected[label_set]) for name, label_set in snapshot.namespaces}
    for name, is_selected in (listed | dict.fromkeys(term.namespaces, True)).items():
        if (row := string_index(snapshot.strings, name)) >= 0:
            spaces[row] = is_selected
    return spaces


ANTI_AFFINITY = Strategy(_rank, after_each_removal=True)
