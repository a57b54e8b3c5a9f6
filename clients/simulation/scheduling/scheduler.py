"""A scheduler with kube-scheduler's filters and default scores: the node for one pod, vectorised over nodes.

Filters: node selector and affinity, taints, resources, number of pods, host ports, required topology spread, required
pod affinity and anti-affinity. Scores, with the default weights: LeastAllocated or MostAllocated 1, balanced allocation
1, topology spread 2 (with the cluster's default constraints), soft taints 3. All nodes are scored, whereas
kube-scheduler samples in large clusters; ties are broken by a seeded generator. Not simulated: preferred affinities,
preemption, image locality, volumes. Terminating pods count until they are gone.
Source: kube-scheduler, plugins noderesources, podtopologyspread, tainttoleration, interpodaffinity.
"""

from collections.abc import Collection
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from trimtab.clients.kubernetes.selectors import selects_node
from trimtab.clients.simulation.cluster.objects import labels_of
from trimtab.clients.simulation.cluster.pods import SimulatedPod
from trimtab.clients.simulation.cluster.scheduler import NodeInfo
from trimtab.clients.simulation.scheduling.columns import Column, Columns
from trimtab.clients.simulation.scheduling.rules import HOSTNAME, Rules, Spread

Scoring = Literal["LeastAllocated", "MostAllocated"]
Mask = NDArray[np.bool_]
Scores = NDArray[np.float64]
MOST_SCORE: Final = 100.0
_UNREQUESTED: Final = {"cpu": 100, "memory": 200 << 20}
"""Amounts by which a pod without requests counts in scores. Source: util.GetNonzeroRequests."""
_SPREAD_WEIGHT, _TAINT_WEIGHT = 2.0, 3.0


class _Static:
    """Results of labels and taints for pods of one kind. fits, selected : bool[slots]; untolerated : int64[slots]."""

    def __init__(self, size: int) -> None:
        self.fits = np.zeros(size, bool)
        self.selected = np.zeros(size, bool)
        self.untolerated = np.zeros(size, np.int64)
        self.stale: set[int] = set(range(size))

    def refresh(self, pod: SimulatedPod, columns: Columns) -> None:
        """Update the nodes that have changed since the last pod."""
        for slot in self.stale:
            info = columns.infos[slot]
            if info is None:
                self.fits[slot] = self.selected[slot] = False
            else:
                self.fits[slot], self.untolerated[slot] = info.static_fit(pod)
                self.selected[slot] = selects_node(pod.spec, info.name, labels_of(info.node))
        self.stale.clear()


class KubeScheduler:
    """A `Scheduler` (see `trimtab.clients.simulation.cluster.scheduler`). Cost of a choice: O(nodes), some 0.1 ms for
    1,000."""

    def __init__(self, seed: int = 0, scoring: Scoring = "LeastAllocated") -> None:
        self._columns = Columns()
        self._static: dict[bytes, _Static] = {}
        self._draw = np.random.default_rng(seed)
        self._packs = scoring == "MostAllocated"

    def node_changed(self, info: NodeInfo) -> None:
        """Record a new or changed node."""
        self._stale(self._columns.put(info))

    def node_gone(self, info: NodeInfo) -> None:
        """Record that a node is gone."""
        self._stale(self._columns.drop(info))

    def pod_added(self, info: NodeInfo, pod: SimulatedPod) -> None:
        """Record that a pod is now on a node."""
        self._columns.add(info, pod)

    def pod_removed(self, info: NodeInfo, pod: SimulatedPod) -> None:
        """Record that a pod has left a node."""
        self._columns.add(info, pod, -1)

    def least_use(self, aside: Collection[str] = ()) -> float:
        """Return the utilization of the least utilized node; see `Columns.least_use`."""
        return self._columns.least_use(aside)

    def feasible(self, pod: SimulatedPod) -> list[str]:
        """Return the nodes that the pod fits, sorted."""
        fits = np.flatnonzero(self._filter(pod, self._static_of(pod)))
        return sorted(info.name for slot in fits if (info := self._columns.infos[slot]) is not None)

    def choose(self, pod: SimulatedPod) -> NodeInfo | None:
        """Return the node with the best score among those that the pod fits, None = it fits nowhere."""
        static = self._static_of(pod)
        slots = np.flatnonzero(self._filter(pod, static))
        if not len(slots):
            return None
        if len(slots) == 1:
            return self._columns.infos[int(slots[0])]
        score = self._resource_score(pod, slots)
        score += _SPREAD_WEIGHT * self._spread_score(self._columns.rules(pod).preferred, slots)
        untolerated = static.untolerated[slots]
        if untolerated.any():
            score += _TAINT_WEIGHT * np.floor(MOST_SCORE * (1 - untolerated / untolerated.max()))
        best = slots[score == score.max()]
        return self._columns.infos[int(best[self._draw.integers(len(best))] if len(best) > 1 else best[0])]

    def _stale(self, slot: int) -> None:
        for static in self._static.values():
            static.stale.add(slot)

    def _static_of(self, pod: SimulatedPod) -> _Static:
        static = self._static.get(pod.static_key)
        if static is None or len(static.fits) < self._columns.size:
            static = self._static[pod.static_key] = _Static(self._columns.size)
        if static.stale:
            static.refresh(pod, self._columns)
        return static

    def _filter(self, pod: SimulatedPod, static: _Static) -> Mask:
        """Return which slots a pod fits. bool[slots]."""
        columns = self._columns
        fits: Mask = static.fits & (columns.pod_count < columns.pod_limit)
        for name, amount in pod.requests.items():
            if amount > 0:
                whole = columns.allocatable.get(name)
                if whole is None:
                    return np.zeros(columns.size, bool)
                used = columns.used.get(name)
                fits &= whole - (0 if used is None else used) >= amount
        rules = columns.rules(pod)
        for spread in rules.required:
            fits &= self._spread_fits(pod, spread, static.selected & columns.live, rules)
        self._affinity_fits(pod, rules, fits)
        if pod.ports:
            for slot in np.flatnonzero(fits):
                info = columns.infos[slot]
                fits[slot] = info is not None and info.fits(pod)
        return fits

    def _spread_fits(self, pod: SimulatedPod, spread: Spread, eligible: Mask, rules: Rules) -> Mask:
        """Return where a constraint allows a pod: the skew with it stays within the limit."""
        columns = self._columns
        for other in rules.required:
            eligible = eligible & (columns.domains(other.key) >= 0)
        domains = columns.domains(spread.key)
        sums = columns.sums(np.where(eligible, columns.counts[spread.term], 0), spread.key)
        present = np.unique(domains[eligible])
        least = int(sums[eligible].min()) if len(present) >= max(1, spread.minimum) else 0
        fits: Mask = (domains >= 0) & (sums + spread.term.counts(pod) - least <= spread.max_skew)
        return fits

    def _affinity_fits(self, pod: SimulatedPod, rules: Rules, fits: Mask) -> None:
        """Clear in place the slots that affinity or anti-affinity forbid, of the pod or of those on nodes."""
        columns = self._columns
        for one in rules.anti_affinity:
            fits &= columns.sums(columns.counts[one.term], one.key) == 0
        for held, column in columns.holders.items():
            if held.term.counts(pod):
                fits &= columns.sums(column, held.key) == 0
        if not rules.affinity:
            return
        every = [columns.counts[one.term] for one in rules.affinity]
        is_first = all(not column.any() for column in every) and all(one.term.counts(pod) for one in rules.affinity)
        for one, column in zip(rules.affinity, every, strict=True):
            fits &= columns.domains(one.key) >= 0
            if not is_first:
                fits &= columns.sums(column, one.key) > 0

    def _resource_score(self, pod: SimulatedPod, slots: Column) -> Scores:
        """Return the scores of allocation and its balance. float64[slots]."""
        shares = []
        for name, unrequested in _UNREQUESTED.items():
            whole = self._columns.allocatable.get(name)
            if whole is not None:
                used = self._columns.used.get(name)
                wanted = (0 if used is None else used[slots]) + (pod.requests.get(name, 0) or unrequested)
                shares.append(np.minimum(wanted / np.maximum(whole[slots], 1), 1.0))
        if not shares:
            return np.zeros(len(slots))
        each = shares if self._packs else [1 - share for share in shares]
        allocated: Scores = np.floor(sum(np.floor(MOST_SCORE * share) for share in each) / len(each))
        uneven = np.abs(shares[0] - shares[-1]) / 2
        score: Scores = allocated + np.floor(MOST_SCORE * (1 - uneven))
        return score

    def _spread_score(self, spreads: tuple[Spread, ...], slots: Column) -> Scores:
        """Return the normalized score of constraints that only score. float64[slots]."""
        if not spreads:
            return np.zeros(len(slots))
        columns, raw = self._columns, np.zeros(len(slots))
        for spread in spreads:
            domains = columns.domains(spread.key)[slots]
            counts = columns.counts[spread.term]
            by_domain = counts[slots] if spread.key == HOSTNAME else columns.sums(counts, spread.key)[slots]
            size = len(slots) if spread.key == HOSTNAME else len(np.unique(domains[domains >= 0]))
            raw += np.where(domains >= 0, by_domain * np.log(size + 2) + spread.max_skew - 1, 0)
        raw = np.round(raw)
        most, least = raw.max(), raw.min()
        if most == 0:
            return np.full(len(slots), MOST_SCORE)
        normalized: Scores = np.floor(MOST_SCORE * (most + least - raw) / most)
        return normalized
