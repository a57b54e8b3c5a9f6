"""ANTI_AFFINITY: pods whose removal improves anti-affinity most go first.

For each term, required or preferred, of a pod: its weight (100 for required ones) for each other pod that the term
matches in the same domain; the same for the pod that is matched. Each removal changes ranks of other pods, also of
groups that share a term: such groups are linked, and one of them is scaled down at a time.
Cost: O(P), and for each distinct term the pods that have it or match it.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from planner.facts.kernels.grouping import group_by_node
from planner.facts.label_index import LabelIndex
from planner.model.settings.pod_costs import PodCostTerm
from planner.model.values import PodAffinityTerm, PodSpec
from planner.pod_costs.members import Members, active
from planner.pod_costs.strategy import Code, Ranks, Situation, Strategy
from planner.snapshot.columns import Bool, Float64, Int32, Int64, Snapshot

REQUIRED_WEIGHT: Final = 100


class _Grouped(NamedTuple):
    """Pods by a number that each has. offsets : int64[numbers+2]; members : int32[P]."""

    offsets: Int64
    members: Int32

    def of(self, numbers: Int64 | list[int]) -> Int64:
        """Return the pods that have one of the numbers, ascending."""
        parts = [self.members[self.offsets[one] : self.offsets[one + 1]] for one in numbers]
        return np.sort(np.concatenate([np.zeros(0, np.int32), *parts])).astype(np.int64)


def _rank(situation: Situation, term: PodCostTerm, threshold: float) -> Ranks:
    del term, threshold
    snapshot, members = situation.snapshot, situation.members
    rank = np.zeros(len(snapshot.pods.spec))
    links = _Links(snapshot, members)
    for having, matched, domain, weight in _pairs(situation):
        in_domain = having[domain[snapshot.pods.node[having]] >= 0]
        met = matched[domain[snapshot.pods.node[matched]] >= 0]
        _add(rank, in_domain, met, domain[snapshot.pods.node], weight)
        links.link(in_domain, met)
    return Ranks(rank[members.pods], situation.without_node, links.numbers())


def _add(rank: Float64, having: Int64, matched: Int64, domain: Int32, weight: int) -> None:
    """Add what a term is worth to the pods that have it, and to those that it matches, in place."""
    distinct, place = np.unique(domain[np.concatenate((having, matched))], return_inverse=True)
    own, other = place[: len(having)], place[len(having) :]
    matched_in = np.bincount(other, minlength=len(distinct))
    having_in = np.bincount(own, minlength=len(distinct))
    rank[having] += weight * (matched_in[own] - np.isin(having, matched, assume_unique=True))
    rank[matched] += weight * (having_in[other] - np.isin(matched, having, assume_unique=True))


def _pairs(situation: Situation) -> Iterator[tuple[Int64, Int64, Int32, int]]:
    """Yield for each distinct term (pods that have it, pods that it matches, domain of each node, weight)."""
    snapshot = situation.snapshot
    alive: Bool = active(snapshot.pods) & (snapshot.pods.node >= 0)
    by_spec = _grouped(snapshot.pods.spec, len(snapshot.specs))
    by_labels = _grouped(snapshot.pods.label_set, max(len(snapshot.label_sets.offsets) - 1, 1))
    index = LabelIndex(snapshot.strings, snapshot.label_sets)
    owners: dict[tuple[PodAffinityTerm, int], dict[int, int]] = {}
    for number, spec in enumerate(snapshot.specs):
        for one, weight in _terms(spec):
            times = owners.setdefault((one, weight), {})
            times[number] = times.get(number, 0) + 1
    for (one, weight), specs in owners.items():
        for repeated in sorted(set(specs.values())):
            situation.round.effort.check()
            having = by_spec.of([number for number, times in specs.items() if times == repeated])
            having = having[alive[having]]
            labelled = by_labels.of(index.sets_matching(one.selector).astype(np.int64))
            labelled = labelled[alive[labelled]]
            domain = situation.domains(one.topology_key)[0]
            for pods, spaces in _by_scope(snapshot, one, having, index):
                yield pods, labelled[spaces[snapshot.pods.namespace[labelled]]], domain, weight * repeated


def _terms(spec: PodSpec) -> Iterator[tuple[PodAffinityTerm, int]]:
    for one in spec.pod_anti_affinity:
        yield one, REQUIRED_WEIGHT
    for preferred in spec.preferred_pod_anti_affinity:
        yield preferred.term, preferred.weight


def _by_scope(
    snapshot: Snapshot, term: PodAffinityTerm, having: Int64, index: LabelIndex
) -> Iterator[tuple[Int64, Bool]]:
    """Yield (pods, bool[strings]: the namespaces in which their term looks), by their own namespace where it counts."""
    own_alone = not term.namespaces and term.namespace_selector is None
    if not own_alone:
        yield having, _named(snapshot, term, index)
        return
    namespace = snapshot.pods.namespace[having]
    for one in np.unique(namespace).tolist():
        spaces = np.zeros(len(snapshot.strings), np.bool_)
        spaces[one] = True
        yield having[namespace == one], spaces


def _named(snapshot: Snapshot, term: PodAffinityTerm, index: LabelIndex) -> Bool:
    """Return the namespaces that a term names or selects; one that is not listed has no labels. bool[strings]."""
    label_set = dict(snapshot.namespaces)
    selected = index.matching(term.namespace_selector)
    return np.array(
        [text in term.namespaces or bool(selected[label_set.get(text, 0)]) for text in snapshot.strings], np.bool_
    )


def _grouped(number: Int32, count: int) -> _Grouped:
    offsets, pods = np.zeros(count + 2, np.int64), np.zeros(len(number), np.int32)
    group_by_node(number, offsets, pods)
    return _Grouped(offsets, pods)


class _Links:
    """Which groups share terms, directly or through others."""

    def __init__(self, snapshot: Snapshot, members: Members) -> None:
        self._group = np.full(len(snapshot.pods.spec), -1, np.int64)
        self._group[members.pods] = members.group
        self._above = list(range(len(members.owners)))

    def link(self, having: Int64, matched: Int64) -> None:
        """Link the groups of pods that have a term with those of pods that it matches."""
        met = self._groups(matched)
        if met:
            first = self._top(met[0])
            for group in (*met, *self._groups(having)):
                top = self._top(group)
                first, other = min(first, top), max(first, top)
                self._above[other] = first

    def numbers(self) -> Int64:
        """Return the smallest group that each is linked with. int64[G]."""
        return np.array([self._top(group) for group in range(len(self._above))], np.int64)

    def _groups(self, pods: Int64) -> list[int]:
        groups = np.unique(self._group[pods])
        found: list[int] = groups[groups >= 0].tolist()
        return found

    def _top(self, group: int) -> int:
        while self._above[group] != group:
            self._above[group] = self._above[self._above[group]]
            group = self._above[group]
        return group


ANTI_AFFINITY = Strategy(Code.ANTI_AFFINITY, _rank, after_each_removal=True)
