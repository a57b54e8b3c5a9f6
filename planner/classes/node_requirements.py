"""Node selectors, required node affinity and similar requirements, evaluated for all node classes at once.

Contract: same results as kube-scheduler, also for objects that the API server refuses: a term with an unparsable
requirement, an empty term and an empty list of terms match nothing.
Source: component-helpers nodeaffinity.LazyErrorNodeSelector and apimachinery labels.NewRequirement, v0.34.
"""

import numpy as np

from trimtab.planner.classes.label_columns import FIRST_NAMED, LabelMatrix, LookedAt
from trimtab.planner.classes.scheduling_specs import NodeRequirement
from trimtab.planner.model.execution import UNLIMITED, RequestLimits
from trimtab.planner.model.label_syntax import NAME_FIELD, is_alive
from trimtab.planner.model.values import LabelRequirement, NodeAffinityTerm
from trimtab.planner.snapshot.columns import Bool, Int32
from trimtab.v1.snapshot_pb2 import LabelOperator


def note_terms(terms: tuple[NodeAffinityTerm, ...], looked_at: LookedAt, names: set[str]) -> None:
    """Note the labels and node names that terms use."""
    for term in terms:
        if not is_alive(term):
            continue
        for requirement in term.match_expressions:
            looked_at.requirement(requirement)
        for requirement in term.match_fields:
            if requirement.key == NAME_FIELD:
                names.update(requirement.values)


def note_requirement(requirement: NodeRequirement, looked_at: LookedAt, names: set[str]) -> None:
    """Note the labels and node names that a node selector with its required node affinity uses."""
    selector, terms = requirement
    for key, value in selector:
        looked_at.value(key, value)
    note_terms(terms or (), looked_at, names)


class NodeRows:
    """Node classes in the form for requirements: labels in use, and names. labels : matrix whose groups are the rows of
    `group`; group : int32[K]; name : tuple of K names in use, "" for any other, None for a node without a name. Results
    are cached by content.
    """

    def __init__(
        self, labels: LabelMatrix, group: Int32, name: tuple[str | None, ...], limits: RequestLimits = UNLIMITED
    ) -> None:
        self._limits = limits
        self._labels = labels
        self._group = group
        self._name = np.array([FIRST_NAMED if n is None else 0 for n in name], np.int32)
        self._names = name
        self._by_requirement: dict[LabelRequirement, Bool] = {}
        self._by_terms: dict[tuple[NodeAffinityTerm, ...], Bool] = {}

    def release(self) -> None:
        """Drop the request's limits: the object is kept for later requests."""
        self._limits = UNLIMITED

    @property
    def count(self) -> int:
        """Return the number of node classes."""
        return len(self._group)

    def has_labels(self, requirement: LabelRequirement) -> Bool:
        """Return which classes meet a requirement on labels : bool[K]."""
        known = self._by_requirement.get(requirement)
        if known is None:
            self._limits.check()
            self._limits.reserve(self.count, "node classes that a selector matches")
            known = self._by_requirement[requirement] = self._labels.matches(requirement)[self._group]
        return known

    def _has_field(self, requirement: LabelRequirement) -> Bool:
        wanted = requirement.values[0]
        own = self._names if requirement.key == NAME_FIELD else ("",) * self.count
        equal = np.fromiter((name == wanted for name in own), np.bool_, self.count)
        met: Bool = equal if requirement.operator == LabelOperator.IN else ~equal
        # A node without a name has no fields, and fields are then not checked.
        met |= self._name == FIRST_NAMED
        return met

    def meet_terms(self, terms: tuple[NodeAffinityTerm, ...]) -> Bool:
        """Return which classes match one of the terms : bool[K]."""
        known = self._by_terms.get(terms)
        if known is None:
            self._limits.check()
            self._limits.reserve(self.count, "node classes that terms match")
            known = np.zeros(self.count, np.bool_)
            for term in filter(is_alive, terms):
                known = known | self._meets_term(term)
            self._by_terms[terms] = known
        return known

    def _meets_term(self, term: NodeAffinityTerm) -> Bool:
        met = np.ones(self.count, np.bool_)
        for requirement in term.match_expressions:
            met &= self.has_labels(requirement)
        for requirement in term.match_fields:
            met &= self._has_field(requirement)
        return met

    def meet(self, requirement: NodeRequirement) -> Bool:
        """Return which classes a node selector with its required node affinity admits : bool[K]."""
        selector, terms = requirement
        met = np.ones(self.count, np.bool_)
        for key, value in selector:
            met &= self.has_labels(LabelRequirement(key, LabelOperator.IN, (value,)))
        return met if terms is None else met & self.meet_terms(terms)
