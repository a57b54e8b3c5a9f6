"""ANTI_AFFINITY: pods whose removal improves anti-affinity most go first.

Each term of a pod, required or preferred, adds its weight (100 for required ones) for each other pod that it matches in
the same domain, and the same to the matched pod. Each removal changes ranks of other pods, also in groups that share a
term: such groups are linked, and only one of them is scaled down at a time. Cost: O(P), plus for each distinct term the
pods that have it or match it; their specs and label sets are cached with the snapshot.
"""

from functools import partial
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.facts.kernels.grouping import group_by_node
from trimtab.planner.facts.labels import LabelIndex
from trimtab.planner.model.execution import RequestLimits
from trimtab.planner.model.values import AffinityTerm, PodRequirements
from trimtab.planner.pod_costs.kernels.terms import CountedPods, Tally, Terms, add_terms
from trimtab.planner.pod_costs.members import active
from trimtab.planner.pod_costs.settings import PodCostTerm
from trimtab.planner.pod_costs.strategy import Code, Input, RankingContext, Ranks, Strategy
from trimtab.planner.snapshot.caches import SnapshotKey
from trimtab.planner.snapshot.columns import Bool, Float64, Int32, Int64, Snapshot
from trimtab.planner.snapshot.texts import string_index

REQUIRED_WEIGHT: Final = 100
OWN_NAMESPACE: Final = -1
_AT_ONCE: Final = 256
"""Terms between two checks of the deadline."""


class _SnapshotTerms(NamedTuple):
    """All terms of a snapshot. keys : topology keys, as `Terms.key` numbers them."""

    terms: Terms
    keys: tuple[str, ...]


class _Counted(NamedTuple):
    """rank : float64[P]; linked : int64[G], the smallest group that each is linked with."""

    rank: Float64
    linked: Int64


def _rank(context: RankingContext, term: PodCostTerm, threshold: float) -> Ranks:
    del term, threshold
    return Ranks(_counted(context).rank[context.members.pods], context.without_node)


def rank_of_pods(context: RankingContext, term: PodCostTerm) -> tuple[Float64, ...]:
    """Return the data of `Input.OTHER_PODS`: the contributions of other pods to each member's rank."""
    del term
    return (_counted(context).rank[context.members.pods],)


class AntiAffinityTermsKey(SnapshotKey["_SnapshotTerms"]):
    """The distinct terms of anti-affinity."""


def linked_groups(context: RankingContext) -> Int64:
    """Return the smallest of all groups that each of them is linked with: of groups with the same one only one may be
    scaled down at a time. int64[G].
    """
    return _counted(context).linked


def _counted(context: RankingContext) -> _Counted:
    """Return the results of the terms of all pods, for all groups of the target."""
    return context.once("terms of anti-affinity", partial(_count, context))


def _count(context: RankingContext) -> _Counted:
    snapshot, members = context.snapshot, context.every
    work = context.round.work
    known = work.cache.get(AntiAffinityTermsKey(), snapshot, lambda view: _terms(view, work.limits))
    domains = [context.domains(key) for key in known.keys]
    most = max((count for _, count in domains), default=0)
    group = np.full(len(snapshot.pods.spec), -1, np.int64)
    group[members.pods] = members.group
    tally = Tally(
        rank=np.zeros(len(group), np.int64),
        group=group,
        above=np.arange(len(members.owners)),
        having=np.zeros(most, np.int64),
        matched=np.zeros(most, np.int64),
        has=np.zeros(len(group), np.int64),
        met=np.zeros(len(group), np.int64),
        turn=np.zeros(1, np.int64),
        pods_having=np.zeros(len(group), np.int32),
        pods_matched=np.zeros(len(group), np.int32),
    )
    rows = [row for row, _ in domains] or [np.zeros(len(snapshot.nodes.name), np.int32)]
    placed, count = _placed(snapshot, np.stack(rows)), len(known.terms.weight)
    for first in range(0, count, _AT_ONCE):
        context.round.work.limits.check()
        add_terms(known.terms, placed, tally, first, min(first + _AT_ONCE, count))
    return _Counted(tally.rank.astype(np.float64), _lowest(tally.above))


def _lowest(above: Int64) -> Int64:
    """Return the smallest group that each is linked with, given a link of each to one that is not larger."""
    while not np.array_equal(further := above[above], above):
        above = further
    return above


def _placed(snapshot: Snapshot, domains: Int32) -> CountedPods:
    pods = snapshot.pods
    counts: Bool = active(pods) & (pods.node >= 0)
    spec_offsets, by_spec = _grouped(np.where(counts, pods.spec, np.int32(-1)), len(snapshot.specs))
    set_count = max(len(snapshot.label_sets.offsets) - 1, 1)
    set_offsets, by_set = _grouped(np.where(counts, pods.label_set, np.int32(-1)), set_count)
    return CountedPods(spec_offsets, by_spec, set_offsets, by_set, pods.node, pods.namespace, domains)


def _grouped(number: Int32, count: int) -> tuple[Int64, Int32]:
    """Return (offsets : int64[count+2], rows by number : int32[P])."""
    offsets, rows = np.zeros(count + 2, np.int64), np.zeros(len(number), np.int32)
    group_by_node(number, offsets, rows)
    return offsets, rows


def _terms(snapshot: Snapshot, limits: RequestLimits) -> _SnapshotTerms:
    """Return the distinct terms, with the specs that have them and the label sets that they match."""
    found: list[tuple[AffinityTerm, int, list[int]]] = []
    for (one, weight), times in _by_term(snapshot).items():
        # A spec that has a term twice counts twice.
        for repeated in sorted(set(times.values())):
            found.append((one, weight * repeated, [spec for spec, often in times.items() if often == repeated]))
    index = LabelIndex(snapshot.strings, snapshot.label_sets)
    keys = {key: number for number, key in enumerate(dict.fromkeys(one.topology_key for one, _, _ in found))}
    scopes = {_scope(one): one for one, _, _ in found if _scope(one) is not None}
    limits.reserve(len(scopes) * len(snapshot.strings), "namespaces of terms of anti-affinity")
    number = {scope: row for row, scope in enumerate(scopes)}
    spaces = [_named(snapshot, one, index) for one in scopes.values()]
    spec_offsets, specs = _joined([np.array(having, np.int32) for _, _, having in found])
    set_offsets, sets = _joined([index.sets_matching(one.selector) for one, _, _ in found])
    terms = Terms(
        weight=np.array([weight for _, weight, _ in found], np.int64),
        key=np.array([keys[one.topology_key] for one, _, _ in found], np.int64),
        scope=np.array([number.get(_scope(one), OWN_NAMESPACE) for one, _, _ in found], np.int64),
        spaces=np.stack(spaces) if spaces else np.zeros((0, len(snapshot.strings)), np.bool_),
        spec_offsets=spec_offsets,
        specs=specs,
        set_offsets=set_offsets,
        sets=sets,
    )
    return _SnapshotTerms(terms, tuple(keys))


def _by_term(snapshot: Snapshot) -> dict[tuple[AffinityTerm, int], dict[int, int]]:
    """Return by term and weight how often each spec has it."""
    found: dict[tuple[AffinityTerm, int], dict[int, int]] = {}
    for number, spec in enumerate(snapshot.specs):
        for one in _terms_of(spec):
            times = found.setdefault(one, {})
            times[number] = times.get(number, 0) + 1
    return found


def _terms_of(spec: PodRequirements) -> list[tuple[AffinityTerm, int]]:
    required = [(one, REQUIRED_WEIGHT) for one in spec.pod_anti_affinity]
    return required + [(one.term, one.weight) for one in spec.preferred_pod_anti_affinity]


def _joined(parts: list[Int32]) -> tuple[Int64, Int32]:
    """Return (int64[parts+1] the start of each part, the joined parts)."""
    offsets = np.zeros(len(parts) + 1, np.int64)
    np.cumsum([len(one) for one in parts], out=offsets[1:])
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


ANTI_AFFINITY = Strategy(Code.ANTI_AFFINITY, _rank, depends_on=frozenset({Input.OTHER_PODS}), after_each_removal=True)
