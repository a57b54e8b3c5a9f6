"""Which pod classes a selector with its namespaces matches.

Contract: results are bool[S], cached by content, so that equal terms of many specs are evaluated once. A selector that
is None matches nothing, () everything. Source: apimachinery metav1.LabelSelectorAsSelector, labels.Selector, v0.34.
"""

from collections.abc import Callable

import numpy as np

from trimtab.planner.classes.label_columns import LabelMatrix, LookedAt, label_matrix
from trimtab.planner.classes.pod_classes import PodClasses, note_selector
from trimtab.planner.model.execution import UNLIMITED, RequestLimits
from trimtab.planner.model.values import AffinityTerm, Selector
from trimtab.planner.snapshot.columns import Bool, LabelSets


class NamespaceRows:
    """The namespaces that terms select from, by name, with their labels if they are listed.

    In the order of `classes.namespaces`; the last one stands for all other namespaces and is in no set.
    """

    def __init__(
        self,
        strings: tuple[str, ...],
        sets: LabelSets,
        listed: tuple[tuple[str, int], ...],
        classes: PodClasses,
        selectors: list[Selector],
    ) -> None:
        self._names = classes.namespaces
        label_sets = dict(listed)
        looked_at = LookedAt()
        for selector in selectors:
            note_selector(selector, looked_at)
        rows = np.array([label_sets.get(name, 0) for name in self._names], np.int32)
        self._labels: LabelMatrix = label_matrix(strings, sets, rows, looked_at)
        self._listed = np.array([name in label_sets for name in self._names], np.bool_)

    def named(self, names: tuple[str, ...]) -> Bool:
        """Return the namespaces with these names : bool[namespaces]."""
        return np.array([name in names and bool(name) for name in self._names], np.bool_)

    def listed_and(self, selector: Selector) -> Bool:
        """Return the listed namespaces whose labels match."""
        return self._listed & self.labelled(selector)

    def labelled(self, selector: Selector) -> Bool:
        """Return the namespaces whose labels match; one that is not listed has none."""
        met = np.ones(len(self._names), np.bool_)
        for requirement in selector:
            met &= self._labels.matches(requirement)[self._labels.groups.of]
        met[-1] = False
        return met

    def everywhere(self) -> Bool:
        """Return all namespaces."""
        met = np.ones(len(self._names), np.bool_)
        met[-1] = False
        return met


class PodMatching:
    """Evaluates selectors over pod classes."""

    def __init__(self, classes: PodClasses, namespaces: NamespaceRows, limits: RequestLimits = UNLIMITED) -> None:
        self.classes = classes
        self.limits = limits
        self._namespaces = namespaces
        self._by_selector: dict[Selector, Bool] = {}
        self._by_namespaces: dict[tuple[object, ...], Bool] = {}

    def labelled(self, selector: Selector | None) -> Bool:
        """Return the classes whose labels match : bool[S]."""
        if selector is None:
            return np.zeros(self.classes.size, np.bool_)
        matches = self._by_selector.get(selector)
        if matches is None:
            self.limits.check()
            self.limits.reserve(self.classes.size, "pod classes that a selector matches")
            labels = self.classes.labels
            met = np.ones(max(labels.groups.size, 1), np.bool_)
            for requirement in selector:
                met &= labels.matches(requirement)
            matches = self._by_selector[selector] = met[self.classes.label_group]
        return matches

    def in_namespace(self, namespace: str) -> Bool:
        """Return the classes of a namespace : bool[S]."""
        return self._in(("named", namespace), lambda: self._namespaces.named((namespace,)))

    def _in(self, key: tuple[object, ...], namespaces: Callable[[], Bool]) -> Bool:
        matches = self._by_namespaces.get(key)
        if matches is None:
            self.limits.check()
            self.limits.reserve(self.classes.size, "pod classes of namespaces")
            matches = self._by_namespaces[key] = namespaces()[self.classes.namespace]
        return matches

    def incoming(self, term: AffinityTerm) -> Bool:
        """Return the classes that a term of a pod to be placed matches : bool[S].

        Own namespace must be filled in. The scheduler adds the listed namespaces that the selector matches to the named
        ones; only the empty selector selects namespaces that are not listed.
        Source: interpodaffinity mergeAffinityTermNamespacesIfNotEmpty, v1.37.2.
        """
        selector = term.namespace_selector

        def namespaces() -> Bool:
            rows = self._namespaces.named(term.namespaces)
            if selector is None:
                return rows
            return rows | self._namespaces.listed_and(selector) if selector else self._namespaces.everywhere()

        return self._in(("incoming", term.namespaces, selector), namespaces) & self.labelled(term.selector)

    def existing(self, term: AffinityTerm) -> Bool:
        """Return the classes that a term of a placed pod matches : bool[S]. Own namespace must be filled in.

        Source: framework.AffinityTerm.Matches with the labels of the incoming pod's namespace, v1.37.2.
        """
        selector = term.namespace_selector

        def namespaces() -> Bool:
            rows = self._namespaces.named(term.namespaces)
            return rows if selector is None else rows | self._namespaces.labelled(selector)

        return self._in(("existing", term.namespaces, selector), namespaces) & self.labelled(term.selector)
