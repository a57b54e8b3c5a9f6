"""A scheduler with kube-scheduler's filters and default scores: the node for one pod, vectorised over nodes.

Filters: node selector and affinity, taints, resources, number of pods, host ports, required topology spread, required
pod affinity and anti-affinity, zones and attach limits of volumes. Scores, with the default weights: LeastAllocated or
MostAllocated 1, balanced allocation 1, topology spread 2 (with the cluster's default constraints), soft taints 3,
preferred node affinity 2, preferred pod affinity and anti-affinity 2 (of the pod, and of those on nodes; a required
affinity of those on nodes counts 1). All nodes are scored, whereas kube-scheduler samples in large clusters; ties are
broken by a seeded generator, or by name. A pod that fits nowhere may preempt others (see `preemption`); on its
nominated node no pod of a lower priority takes the room. Not simulated: image locality. Terminating pods count until
they are gone.
Source: kube-scheduler, plugins noderesources, podtopologyspread, tainttoleration, nodeaffinity, interpodaffinity;
RunFilterPluginsWithNominatedPods.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from trimtab.clients.simulation.cluster.columns import Column, Columns
from trimtab.clients.simulation.cluster.disruption import BudgetIndex
from trimtab.clients.simulation.cluster.node_info import NodeInfo, Preemption, VolumeFilter
from trimtab.clients.simulation.cluster.objects import labels_of
from trimtab.clients.simulation.cluster.placement_rules import HOSTNAME, PreferredAffinity, Rules, Spread
from trimtab.clients.simulation.cluster.pods import PodKey, SimulatedPod, priority_of
from trimtab.clients.simulation.cluster.preemption import Candidate, best_candidate, possible_victims, reprieved
from trimtab.common.kubernetes.selectors import preference, selects_node

Scoring = Literal["LeastAllocated", "MostAllocated"]
Mask = NDArray[np.bool_]
Scores = NDArray[np.float64]
MOST_SCORE: Final = 100.0
_UNREQUESTED: Final = {"cpu": 100, "memory": 200 << 20}
"""Amounts by which a pod without requests counts in scores. Source: util.GetNonzeroRequests."""
_SPREAD_WEIGHT, _TAINT_WEIGHT, _NODE_AFFINITY_WEIGHT, _POD_AFFINITY_WEIGHT = 2.0, 3.0, 2.0, 2.0


class _Static:
    """Results of labels and taints for pods of one kind. fits, selected : bool[slots]; untolerated, preference :
    int64[slots], the latter sums of weights.
    """

    def __init__(self, size: int) -> None:
        self.fits = np.zeros(size, bool)
        self.selected = np.zeros(size, bool)
        self.untolerated = np.zeros(size, np.int64)
        self.preference = np.zeros(size, np.int64)
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
                self.preference[slot] = preference(pod.spec, info.name, labels_of(info.node))
        self.stale.clear()


class KubeScheduler:
    """The scheduler of a simulated cluster. It is notified of every change of nodes and of their pods, and keeps sums.
    Cost of a choice: O(nodes), some 0.1 ms for 1,000."""

    def __init__(
        self,
        seed: int | None = 0,
        scoring: Scoring = "LeastAllocated",
        *,
        preempts: bool = True,
        default_spread: bool = True,
    ) -> None:
        """Set up. seed : of ties, None = the first by name; default_spread : with the cluster's default constraints for
        pods without topology spread, which would stand against packing.
        """
        self._columns = Columns(default_spread)
        self._static: dict[bytes, _Static] = {}
        self._preempts = preempts
        self._volumes: VolumeFilter | None = None
        # Pods on nodes, by priority.
        self._priorities: Counter[int] = Counter()
        # Pods for which room is kept, and where.
        self._nominated: dict[PodKey, tuple[SimulatedPod, str]] = {}
        self._draw = None if seed is None else np.random.default_rng(seed)
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
        self._priorities[priority_of(pod)] += 1

    def pod_removed(self, info: NodeInfo, pod: SimulatedPod) -> None:
        """Record that a pod has left a node."""
        self._columns.add(info, pod, -1)
        self._priorities[priority_of(pod)] -= 1

    def follow_volumes(self, volumes: VolumeFilter) -> None:
        """Ask from now on which nodes can have a pod's volumes."""
        self._volumes = volumes

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
        fits = self._filter(pod, static)
        if self._nominated:
            self._leave_to_nominated(pod, static, fits)
            own = self._columns.slot_of.get(self._nominated_node(pod))
            if own is not None and fits[own]:
                return self._columns.infos[own]
        slots = np.flatnonzero(fits)
        if not len(slots):
            return None
        if len(slots) == 1:
            return self._columns.infos[int(slots[0])]
        score = self._resource_score(pod, slots)
        score += _SPREAD_WEIGHT * self._spread_score(self._columns.rules(pod).preferred, slots)
        untolerated = static.untolerated[slots]
        if untolerated.any():
            score += _TAINT_WEIGHT * np.floor(MOST_SCORE * (1 - untolerated / untolerated.max()))
        preferred = static.preference[slots]
        if preferred.any():
            score += _NODE_AFFINITY_WEIGHT * np.floor(MOST_SCORE * preferred / preferred.max())
        score += _POD_AFFINITY_WEIGHT * self._pod_affinity_score(pod, slots)
        best = slots[score == score.max()]
        if self._draw is None:
            tied = (info for slot in best if (info := self._columns.infos[int(slot)]) is not None)
            return min(tied, key=lambda info: info.name)
        return self._columns.infos[int(best[self._draw.integers(len(best))] if len(best) > 1 else best[0])]

    def preempt(self, pod: SimulatedPod, budgets: BudgetIndex) -> Preemption | None:
        """Return where a pod that fits nowhere gets a place, and which pods have to go; None = nowhere."""
        priority = priority_of(pod)
        if not self._preempts or not any(count and one < priority for one, count in self._priorities.items()):
            return None
        static = self._static_of(pod)
        found = []
        for slot in np.flatnonzero(static.fits & self._columns.live):
            info = self._columns.infos[int(slot)]
            candidate = None if info is None else self._candidate(pod, info, static, budgets)
            if candidate is not None:
                found.append(candidate)
        best = best_candidate(found)
        return None if best is None else Preemption(best.node, best.victims)

    def nominate(self, pod: SimulatedPod, node: str) -> list[SimulatedPod]:
        """Keep room on a node for a pending pod; return the pods of a lower priority that lose their room there."""
        others = [one for one, at in self._nominated.values() if at == node and priority_of(one) < priority_of(pod)]
        for one in others:
            self.withdraw(one)
        self._nominated[pod.key] = pod, node
        return others

    def withdraw(self, pod: SimulatedPod) -> None:
        """Keep no room for a pod any more."""
        self._nominated.pop(pod.key, None)

    def _nominated_node(self, pod: SimulatedPod) -> str:
        return self._nominated[pod.key][1] if pod.key in self._nominated else ""

    def _candidate(self, pod: SimulatedPod, info: NodeInfo, static: _Static, budgets: BudgetIndex) -> Candidate | None:
        """Return the fewest victims on a node; None = the pod would not fit even without all of them."""
        possible = possible_victims(info, priority_of(pod))
        if not possible:
            return None
        with self._supposing(info, out=possible):
            if not self._fits_beside_nominated(pod, info, static):
                return None

            def put_back(one: SimulatedPod) -> bool:
                self._place(info, one)
                if self._fits_beside_nominated(pod, info, static):
                    return True
                self._place(info, one, out=True)
                return False

            return Candidate(info, *reprieved(possible, budgets, put_back))

    def _fits_beside_nominated(self, pod: SimulatedPod, info: NodeInfo, static: _Static) -> bool:
        """Return whether a pod fits a node, without the pods nominated there and with them."""
        if not self._fits_at(pod, info, static):
            return False
        nominated = self._nominated_at(info, pod)
        if not nominated:
            return True
        with self._supposing(info, on=nominated):
            return self._fits_at(pod, info, static)

    def _leave_to_nominated(self, pod: SimulatedPod, static: _Static, fits: Mask) -> None:
        """Clear in place the slots where a pod fits only if it takes the room of nominated ones."""
        for node in sorted({node for _, node in self._nominated.values()}):
            slot = self._columns.slot_of.get(node)
            info = None if slot is None else self._columns.infos[slot]
            if slot is not None and info is not None and fits[slot]:
                nominated = self._nominated_at(info, pod)
                if nominated:
                    with self._supposing(info, on=nominated):
                        fits[slot] = self._fits_at(pod, info, static)

    def _nominated_at(self, info: NodeInfo, pod: SimulatedPod) -> list[SimulatedPod]:
        """Return the other pods of at least the same priority for which a node keeps room."""
        return [
            one
            for one, node in self._nominated.values()
            if node == info.name and one.key != pod.key and priority_of(one) >= priority_of(pod)
        ]

    @contextmanager
    def _supposing(
        self, info: NodeInfo, out: Sequence[SimulatedPod] = (), on: Sequence[SimulatedPod] = ()
    ) -> Iterator[None]:
        """Take pods from a node, or put some on it, for the length of a block."""
        before = dict(info.pods)
        for pod in out:
            self._place(info, pod, out=True)
        for pod in on:
            self._place(info, pod)
        try:
            yield
        finally:
            for key, pod in list(info.pods.items()):
                if key not in before:
                    self._place(info, pod, out=True)
            for key, pod in before.items():
                if key not in info.pods:
                    self._place(info, pod)
            info.pods = before

    def _place(self, info: NodeInfo, pod: SimulatedPod, *, out: bool = False) -> None:
        if out:
            info.remove(pod)
        else:
            info.add(pod)
        self._columns.add(info, pod, -1 if out else 1)

    def _fits_at(self, pod: SimulatedPod, info: NodeInfo, static: _Static) -> bool:
        """Return whether a pod fits one node; O(nodes) only with rules that count other pods."""
        columns, slot = self._columns, self._columns.slot_of[info.name]
        if not static.fits[slot] or not info.fits(pod):
            return False
        rules = columns.rules(pod)
        is_counted = rules.required or rules.affinity or rules.anti_affinity or pod.claims
        if is_counted or any(held.term.counts(pod) for held in columns.holders):
            return bool(self._filter(pod, static)[slot])
        return True

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
        needs = self._volumes.needs(pod) if pod.claims and self._volumes is not None else None
        if needs is not None and self._volumes is not None:
            for slot in np.flatnonzero(fits):
                info = columns.infos[slot]
                fits[slot] = info is not None and self._volumes.allow(needs, info)
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

    def _pod_affinity_score(self, pod: SimulatedPod, slots: Column) -> Scores:
        """Return the normalized score of preferred pod affinity and anti-affinity. float64[slots]."""
        columns, raw = self._columns, np.zeros(len(slots))
        for one in columns.rules(pod).preferred_affinity:
            raw += self._attraction(one, columns.counts[one.term], slots)
        for one, column in columns.attracting.items():
            if one.term.counts(pod):
                raw += self._attraction(one, column, slots)
        most, least = raw.max(), raw.min()
        if most == least:
            return np.zeros(len(slots))
        score: Scores = np.floor(MOST_SCORE * (raw - least) / (most - least))
        return score

    def _attraction(self, affinity: PreferredAffinity, counts: Column, slots: Column) -> Scores:
        sums: Scores = affinity.weight * self._columns.sums(counts, affinity.key)[slots].astype(np.float64)
        return sums

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
