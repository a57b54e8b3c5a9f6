"""The greedy loop in plain Python: every node is checked for every pod, a fork is a copy of the cluster."""

from dataclasses import dataclass, field

from tests.reference.simulation.checks import fits
from tests.reference.simulation.moves import Cluster

ACCEPTED, MIN_SIZE, MINIMUM, NO_PLACE, BLOCKED, DESTINATION = 0, 6, 9, 14, 15, 19


@dataclass
class Loop:
    """Inputs by index of pod and node, and the loop's results.

    moving : pods to move by node; order : nodes in search order; hint : node by pod; needs : budgets by pod, with the
    disruptions that its move uses; left : disruptions by budget; group, group_left, amount, amount_left : minimums;
    mix : the scarce resource and another one, None = pods go anywhere; kind : class of each pod; looked : by class,
    position in `order` up to which nodes have the mix of a pod.
    """

    cluster: Cluster
    moving: dict[int, list[int]]
    order: list[int]
    allowed: list[bool]
    hint: dict[int, int]
    needs: dict[int, list[tuple[int, int]]]
    left: list[int]
    group: list[int]
    group_left: list[int]
    amount: list[list[int]]
    amount_left: list[int]
    outcome: dict[int, int] = field(default_factory=dict)
    blocking_pod: dict[int, int] = field(default_factory=dict)
    destination: dict[int, int] = field(default_factory=dict)
    accepted: list[int] = field(default_factory=list)
    incoming: dict[int, list[int]] = field(default_factory=dict)
    freed: int = 0
    mix: tuple[str, str] | None = None
    kind: list[int] = field(default_factory=list)
    looked: dict[int, int] = field(default_factory=dict)

    def run(self, candidates: list[int]) -> None:
        """Try every candidate in order."""
        for node in candidates:
            self.outcome[node] = DESTINATION if self.incoming.get(node) else self._consider(node)

    def empty_destinations(self, candidates: list[int], patience: int) -> int:
        """Try nodes that have received pods once more, until too many in a row fail."""
        failures = 0
        for node in candidates:
            if failures >= patience:
                break
            if self.outcome[node] == DESTINATION and self.incoming.get(node):
                blocking_pod = self.blocking_pod.pop(node, None)
                if self._consider(node) == ACCEPTED:
                    self.outcome[node], failures, self.freed = ACCEPTED, 0, self.freed + 1
                else:
                    failures += 1
                    self.blocking_pod.pop(node, None)
                assert blocking_pod is None
        return self.freed

    def _consider(self, node: int) -> int:
        outcome = self._try(node)
        if outcome == ACCEPTED:
            self._accept(node)
        return outcome

    def _try(self, node: int) -> int:
        outcome, spent = self._kept(node)
        return self._empty(node, spent) if outcome == ACCEPTED else outcome

    def repeat(self, nodes: list[int], residents: dict[int, list[int]]) -> bool:
        """Remove nodes all together, with pods at their hints; check whether all fit once all are placed."""
        names, fork = list(self.cluster.nodes), self.cluster.mark()
        for node in nodes:
            kept, spent = self._kept(node)
            if self.incoming.get(node) or kept != ACCEPTED:
                self.cluster.revert(fork)
                return False
            self.left = spent
            self._accept(node)
            self.allowed[node] = False
            self.cluster.cordon(names[node])
        moved = [pod for node in nodes for pod in self.moving.get(node, [])]
        for pod in moved:
            target = self.hint.get(pod, -1)
            self.cluster.remove(pod)
            if target >= 0:
                self.cluster.place(pod, names[target])
        in_place = self.cluster.mark()
        for node in nodes:
            for pod in residents[node]:
                if self.cluster.at[pod] == names[node]:
                    self.cluster.remove(pod)
            self.cluster.remove_from_topology(names[node])
        fit = all(self._stays(pod) for pod in moved)
        self.cluster.revert(in_place if fit else fork)
        return fit

    def _stays(self, pod: int) -> bool:
        """Return whether a pod fits its node."""
        target = self.hint.get(pod, -1)
        if target < 0 or not self.allowed[target]:
            return False
        name = list(self.cluster.nodes)[target]
        self.cluster.remove(pod)
        fit = fits(self.cluster, self.cluster.pods[pod], name)
        self.cluster.place(pod, name)
        return fit

    def _accept(self, node: int) -> None:
        self.accepted.append(node)
        self.group_left[self.group[node]] -= 1
        self.amount_left = [a - b for a, b in zip(self.amount_left, self.amount[node], strict=True)]

    def _kept(self, node: int) -> tuple[int, list[int]]:
        """Return the verdict of limits and budgets, and the remaining budgets without the pods of the node."""
        if self.group_left[self.group[node]] <= 0:
            return MIN_SIZE, self.left
        if any(0 < a > left for a, left in zip(self.amount[node], self.amount_left, strict=True)):
            return MINIMUM, self.left
        spent = list(self.left)
        for pod in self.moving.get(node, []):
            for budget, need in self.needs.get(pod, []):
                spent[budget] -= need
        for pod in self.moving.get(node, []):
            if any(need and spent[budget] < 0 for budget, need in self.needs.get(pod, [])):
                self.blocking_pod[node] = pod
                return BLOCKED, self.left
        return ACCEPTED, spent

    def _empty(self, node: int, spent: list[int]) -> int:
        names = list(self.cluster.nodes)
        fork = self.cluster.mark()
        might_receive, self.allowed[node] = self.allowed[node], False
        self.cluster.cordon(names[node])
        # Pods received last are placed first.
        pods = self.moving.get(node, []) + self.incoming.get(node, [])[::-1]
        where: dict[int, int] = {}
        for pod in pods:
            self.cluster.remove(pod)
        for pod in pods:
            target = self._place_for(pod)
            if target < 0:
                self.cluster.revert(fork)
                self.allowed[node] = might_receive
                self.blocking_pod[node] = pod
                return NO_PLACE
            self.cluster.place(pod, names[target])
            where[pod] = target
        self.left = spent
        passed_on = self.incoming.pop(node, [])[::-1]
        for pod in [*passed_on, *self.moving.get(node, [])]:
            self.destination[pod] = where[pod]
            self.incoming.setdefault(where[pod], []).append(pod)
        return ACCEPTED

    def _place_for(self, pod: int) -> int:
        wanted = [self.hint[pod]] if self.hint.get(pod, -1) >= 0 else []
        if any(self._admits(node, pod) for node in wanted):
            return wanted[0]
        if self.mix and not self.cluster.pods[pod].pinned:
            at = self.looked.get(self.kind[pod], 0)
            while at < len(self.order) and not (
                self._admits(self.order[at], pod) and self._is_like(self.order[at], pod)
            ):
                at += 1
            self.looked[self.kind[pod]] = at
            if at < len(self.order):
                return self.order[at]
        return next((node for node in self.order if self._admits(node, pod)), -1)

    def _admits(self, node: int, pod: int) -> bool:
        """Return whether a node may get a pod."""
        name = list(self.cluster.nodes)[node]
        return self.allowed[node] and fits(self.cluster, self.cluster.pods[pod], name)

    def _is_like(self, node: int, pod: int) -> bool:
        """Return whether a node has as much of the other resource for the scarce one as a pod requests."""
        assert self.mix is not None
        scarce, other = self.mix
        row = list(self.cluster.nodes.values())[node]
        requests = [dict(one.spec.requests) for one in self.cluster.pods_on(row.name)]
        free = {name: row.allocatable.get(name, 0) - sum(one.get(name, 0) for one in requests) for name in self.mix}
        wanted = dict(self.cluster.pods[pod].spec.requests)
        return float(wanted.get(other, 0)) * float(free[scarce]) <= float(wanted.get(scarce, 0)) * float(free[other])
