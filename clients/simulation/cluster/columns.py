"""The nodes of a simulated cluster as columns: resources, topology domains, counts of pods by term.

It keeps sums, O(terms) for each pod that comes or goes. A node has a slot, a row of every column; the
slot of a node that is gone is used again. Units: `cpu` in milli-cores, all else in base units.
"""

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.clients.simulation.cluster.node_info import NodeInfo
from trimtab.clients.simulation.cluster.objects import labels_of
from trimtab.clients.simulation.cluster.placement_rules import (
    PreferredAffinity,
    RequiredAffinity,
    Rules,
    Term,
    rules_of,
)
from trimtab.clients.simulation.cluster.pods import SimulatedPod

Column = NDArray[np.int64]
_FIRST_SIZE = 256
_GPU = "/gpu"


class Columns:
    """resource[name] : int64[slots] allocatable, then used; live : bool[slots]; counts[term] : int64[slots]."""

    def __init__(self, default_spread: bool = True) -> None:
        self._default_spread = default_spread
        self.size = _FIRST_SIZE
        self.infos: list[NodeInfo | None] = [None] * self.size
        self.slot_of: dict[str, int] = {}
        self._free = list(range(self.size - 1, -1, -1))
        self.live = np.zeros(self.size, bool)
        self.pod_count = np.zeros(self.size, np.int64)
        self.pod_limit = np.zeros(self.size, np.int64)
        self.allocatable: dict[str, Column] = {}
        self.used: dict[str, Column] = {}
        # By topology key: index of each slot's domain, -1 = it has none; and the index of each value.
        self._domains: dict[str, Column] = {}
        self._domain_index: dict[str, dict[str, int]] = {}
        self.counts: dict[Term, Column] = {}
        # Pods with an anti-affinity, by term.
        self.holders: dict[RequiredAffinity, Column] = {}
        # Pods with a preferred, or a required, affinity, by term and weight.
        self.attracting: dict[PreferredAffinity, Column] = {}
        # Pods whose priority may be too low to count for utilization.
        self._low_count = 0
        self._terms_of: dict[tuple[Any, ...], list[Term]] = {}
        self._rules: dict[tuple[Any, ...], Rules] = {}

    def put(self, info: NodeInfo) -> int:
        """Add or update a node; return its slot."""
        slot = self.slot_of.get(info.name)
        if slot is None:
            slot = self._take_slot(info)
        for key, column in self._domains.items():
            column[slot] = self._domain(key, info)
        return slot

    def drop(self, info: NodeInfo) -> int:
        """Remove a node; return its slot. O(columns)."""
        slot = self.slot_of.pop(info.name)
        self.infos[slot], self.live[slot] = None, False
        for column in self._every():
            column[slot] = 0
        for column in self._domains.values():
            column[slot] = -1
        self._free.append(slot)
        return slot

    def add(self, info: NodeInfo, pod: SimulatedPod, sign: int = 1) -> None:
        """Add a pod to its node's sums; sign -1 = remove it."""
        slot = self.slot_of[info.name]
        if not pod.terminal:
            self.pod_count[slot] += sign
            for name, amount in pod.requests.items():
                self._resource(self.used, name)[slot] += sign * amount
            self._low_count += sign * _may_be_low(pod)
        for term in self._counting(pod):
            self.counts[term][slot] += sign
        rules = self.rules(pod)
        for held in rules.anti_affinity:
            self.held(held)[slot] += sign
        for attraction in rules.attractions:
            if attraction not in self.attracting:
                self.attracting[attraction] = np.zeros(self.size, np.int64)
            self.attracting[attraction][slot] += sign

    def least_use(self, aside: Collection[str] = ()) -> float:
        """Return the requested share of cpu or memory, whichever is larger, of the least utilized node.

        aside : names of nodes that do not count. 0 if these shares are not sufficient: without nodes, with GPUs, with
        pods of a low priority. O(nodes).
        """
        has_gpus = any(name.endswith(_GPU) and column.any() for name, column in self.allocatable.items())
        counts = self.live.copy()
        counts[[self.slot_of[name] for name in aside if name in self.slot_of]] = False
        if not counts.any() or has_gpus or self._low_count:
            return 0.0
        share = np.zeros(self.size)
        for name in ("cpu", "memory"):
            room = self.allocatable.get(name)
            if room is not None:
                share = np.maximum(share, self._resource(self.used, name) / np.maximum(room, 1))
        return float(share[counts].min())

    def rules(self, pod: SimulatedPod) -> Rules:
        """Return the rules of a pod, and start to count their terms."""
        key = (pod.shape_key, pod.key[0], pod.owner_uid)
        found = self._rules.get(key)
        if found is None:
            found = self._rules[key] = rules_of(pod, self._default_spread)
            for term in found.terms:
                self._count(term)
        return found

    def domains(self, key: str) -> Column:
        """Return the index of each slot's domain, -1 = it has none. int64[slots]."""
        found = self._domains.get(key)
        if found is None:
            found = self._domains[key] = np.full(self.size, -1, np.int64)
            for info in self.infos:
                if info is not None:
                    found[self.slot_of[info.name]] = self._domain(key, info)
        return found

    def sums(self, counts: Column, key: str) -> Column:
        """Return for each slot the count of its whole domain; 0 without domain. int64[slots]."""
        domain = self.domains(key)
        by_domain = np.bincount(domain + 1, counts, len(self._domain_index.get(key, ())) + 1).astype(np.int64)
        by_domain[0] = 0
        return by_domain[domain + 1]

    def held(self, held: RequiredAffinity) -> Column:
        """Return the count of pods that have an anti-affinity. int64[slots]."""
        if held not in self.holders:
            self.holders[held] = np.zeros(self.size, np.int64)
        return self.holders[held]

    def _count(self, term: Term) -> None:
        """Start to count a term. O(pods)."""
        if term in self.counts:
            return
        column = self.counts[term] = np.zeros(self.size, np.int64)
        self._terms_of.clear()
        for info in self.infos:
            if info is not None:
                column[self.slot_of[info.name]] = sum(term.counts(pod) for pod in info.pods.values())

    def _counting(self, pod: SimulatedPod) -> list[Term]:
        """Return the terms that count a pod."""
        key = (pod.key[0], frozenset(pod.labels.items()), pod.owner_uid)
        found = self._terms_of.get(key)
        if found is None:
            found = self._terms_of[key] = [term for term in self.counts if term.counts(pod)]
        return found

    def _resource(self, columns: dict[str, Column], name: str) -> Column:
        found = columns.get(name)
        if found is None:
            found = columns[name] = np.zeros(self.size, np.int64)
        return found

    def _domain(self, key: str, info: NodeInfo) -> int:
        value = labels_of(info.node).get(key)
        index = self._domain_index.setdefault(key, {})
        return -1 if value is None else index.setdefault(value, len(index))

    def _take_slot(self, info: NodeInfo) -> int:
        if not self._free:
            self._grow()
        slot = self.slot_of[info.name] = self._free.pop()
        self.infos[slot], self.live[slot], self.pod_limit[slot] = info, True, info.pod_limit
        for name, amount in info.allocatable.items():
            self._resource(self.allocatable, name)[slot] = amount
        return slot

    def _every(self) -> list[Column]:
        return [
            *(self.pod_count, self.pod_limit),
            *(*self.allocatable.values(), *self.used.values(), *self.counts.values(), *self.holders.values()),
            *self.attracting.values(),
        ]

    def _grow(self) -> None:
        """Double every column."""
        old, self.size = self.size, 2 * self.size
        self.infos.extend([None] * old)
        self._free = list(range(self.size - 1, old - 1, -1))
        self.live = np.concatenate([self.live, np.zeros(old, bool)])
        self.pod_count, self.pod_limit = _doubled(self.pod_count), _doubled(self.pod_limit)
        self.allocatable = {name: _doubled(column) for name, column in self.allocatable.items()}
        self.used = {name: _doubled(column) for name, column in self.used.items()}
        self.counts = {term: _doubled(column) for term, column in self.counts.items()}
        self.holders = {held: _doubled(column) for held, column in self.holders.items()}
        self.attracting = {one: _doubled(column) for one, column in self.attracting.items()}
        absent = np.full(old, -1, np.int64)
        self._domains = {key: np.concatenate([column, absent]) for key, column in self._domains.items()}


def _may_be_low(pod: SimulatedPod) -> bool:
    priority = pod.spec.get("priority")
    return bool(pod.spec.get("priorityClassName")) if priority is None else int(priority) < 0


def _doubled(column: Column) -> Column:
    return np.concatenate([column, np.zeros_like(column)])
