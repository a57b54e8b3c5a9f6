"""Nodes that no static predicate distinguishes share a class; requirements are evaluated for all classes at once.

Contract: a class is (labels in use, name if a selector names it, taint set, unschedulable, what predicates read of
traits). A label such as the hostname splits nodes only if a selector names its value; K stays near the number of node
groups. Cost: O(N x keys in use), vectorised.

Node selectors and required node affinity have the same results as in kube-scheduler, also for objects that the API
server refuses: a term with an unparsable requirement, an empty term and an empty list of terms match nothing.
Source: component-helpers nodeaffinity.LazyErrorNodeSelector and apimachinery labels.NewRequirement, v0.34.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import NamedTuple

import numpy as np

from trimtab.planner.classes.label_columns import (
    FIRST_NAMED,
    LabelMatrix,
    LookedAt,
    group_columns,
    label_matrix,
    number_values,
)
from trimtab.planner.classes.scheduling_specs import NodeRequirement
from trimtab.planner.model.execution import UNLIMITED, RequestLimits
from trimtab.planner.model.label_syntax import NAME_FIELD, is_alive
from trimtab.planner.model.values import LabelRequirement, NodeAffinityTerm, NodeTraits, TaintSpec
from trimtab.planner.snapshot.columns import Bool, Int32, Int64, LabelSets
from trimtab.v1.snapshot_pb2 import LabelOperator

TraitPart = Callable[[NodeTraits], Hashable]
"""Returns what a predicate reads of a node's traits."""


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
        meet = self._by_requirement.get(requirement)
        if meet is None:
            self._limits.check()
            self._limits.reserve(self.count, "node classes that a selector matches")
            meet = self._by_requirement[requirement] = self._labels.matches(requirement)[self._group]
        return meet

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
        meet = self._by_terms.get(terms)
        if meet is None:
            self._limits.check()
            self._limits.reserve(self.count, "node classes that terms match")
            meet = np.zeros(self.count, np.bool_)
            for term in filter(is_alive, terms):
                meet = meet | self._meets_term(term)
            self._by_terms[terms] = meet
        return meet

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


class NodeInput(NamedTuple):
    """N nodes as scheduling sees them; more in `trimtab.planner.snapshot.columns.NodeColumns`.

    label_set : int32[N]; taint_set : int32[N] into `taint_sets`; unschedulable : bool[N]; allocatable : int64[N,
    resources]; traits : of each node.
    """

    name: tuple[str, ...]
    label_set: Int32
    taint_set: Int32
    taint_sets: tuple[tuple[TaintSpec, ...], ...]
    unschedulable: Bool
    allocatable: Int64
    traits: tuple[NodeTraits, ...]


class NodeClasses(NamedTuple):
    """K node classes. of : int32[N]; rows : each class in the form for requirements; taint_set : int32[K] into
    `taint_sets`; unschedulable : bool[K]; traits : those of one node of each class. The parts of traits that make
    classes (`NodeSignature.traits`) are the same for all nodes of a class. template_traits : those of the templates of
    all node groups, in the simulation or not.
    """

    of: Int32
    rows: NodeRows
    taint_set: Int32
    taint_sets: tuple[tuple[TaintSpec, ...], ...]
    unschedulable: Bool
    traits: tuple[NodeTraits, ...]
    template_traits: tuple[NodeTraits, ...] = ()


class NodeSignature(NamedTuple):
    """What predicates tell apart in nodes, besides taints and `unschedulable`: labels, names, parts of traits."""

    labels: LookedAt
    names: set[str]
    traits: tuple[TraitPart, ...]


def node_classes(
    strings: tuple[str, ...],
    sets: LabelSets,
    nodes: NodeInput,
    signature: NodeSignature,
    limits: RequestLimits = UNLIMITED,
) -> NodeClasses:
    """Build the classes of all nodes."""
    labels = label_matrix(strings, sets, nodes.label_set, signature.labels, limits)
    name, name_texts = _names(nodes, signature.names)
    groups = group_columns(
        [
            (labels.groups.of, labels.groups.size),
            (name, len(name_texts)),
            (nodes.taint_set, len(nodes.taint_sets)),
            (nodes.unschedulable.astype(np.int32), 2),
            *_by_traits(nodes.traits, signature.traits),
        ]
    )
    first = groups.first
    texts = tuple(name_texts[i] for i in name[first].tolist())
    rows = NodeRows(labels, labels.groups.of[first], texts, limits)
    return NodeClasses(
        groups.of,
        rows,
        nodes.taint_set[first],
        nodes.taint_sets,
        np.ascontiguousarray(nodes.unschedulable[first]),
        tuple([nodes.traits[node] for node in first.tolist()]),
    )


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


def _by_traits(traits: tuple[NodeTraits, ...], parts: Iterable[TraitPart]) -> list[tuple[Int32, int]]:
    """Return a column for each part of the traits, and its number of values."""
    columns = []
    for part in parts:
        of, values = number_values(list(map(part, traits)))
        columns.append((of, len(values)))
    return columns


def _names(nodes: NodeInput, names: set[str]) -> tuple[Int32, list[str | None]]:
    texts: list[str | None] = ["", None, *sorted(names)]
    if not names:
        return np.zeros(len(nodes.name), np.int32), texts
    number = {text: i for i, text in enumerate(texts)} | {"": 1}
    return np.fromiter((number.get(name, 0) for name in nodes.name), np.int32, len(nodes.name)), texts
