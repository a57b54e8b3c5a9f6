"""The greedy loop in plain Python: every node is asked for every pod, a fork is a copy of the cluster."""

from dataclasses import dataclass, field

from tests.reference.simulation.checks import fits
from tests.reference.simulation.moves import Cluster

ACCEPTED, MIN_SIZE, MINIMUM, NO_PLACE, BLOCKED, DESTINATION = 0, 6, 9, 14, 15, 19


@dataclass
class Loop:
    """Inputs by index of pod and node, and what the loop found.

    moving : pods to move by node; order : nodes in search order; hint : node by pod; needs : budgets by pod, with
    what moving it uses up; left : disruptions by budget; in_turn : by node, whether one left is enough; group,
    group_left, amount, amount_left : minimums.
    """

    cluster: Cluster
    moving: dict[int, list[int]]
    order: list[int]
    allowed: list[bool]
    hint: dict[int, int]
    needs: dict[int, list[tuple[int, int]]]
    left: list[int]
    in_turn: list[bool]
    group: list[int]
    group_left: list[int]
    amount: list[list[int]]
    amount_left: list[int]
    outcome: dict[int, int] = field(default_factory=dict)
    culprit: dict[int, int] = field(default_factory=dict)
    destination: dict[int, int] = field(default_factory=dict)
    accepted: list[int] = field(default_factory=list)
    held: dict[int, list[int]] = field(default_factory=dict)
    freed: int = 0

    def run(self, candidates: list[int]) -> None:
        """Try every candidate in order."""
        for node in candidates:
            self.outcome[node] = DESTINATION if self.held.get(node) else self._consider(node)

    def empty_destinations(self, candidates: list[int], patience: int) -> int:
        """Try once more those that have received pods, until too many fail on end."""
        failures = 0
        for node in candidates:
            if failures >= patience:
                break
            if self.outcome[node] == DESTINATION and self.held.get(node):
                culprit = self.culprit.pop(node, None)
                if self._consider(node) == ACCEPTED:
                    self.outcome[node], failures, self.freed = ACCEPTED, 0, self.freed + 1
                else:
                    failures += 1
                    self.culprit.pop(node, None)
                assert culprit is None
        return self.freed

    def _consider(self, node: int) -> int:
        outcome = self._try(node)
        if outcome == ACCEPTED:
            self.accepted.append(node)
            self.group_left[self.group[node]] -= 1
            self.amount_left = [a - b for a, b in zip(self.amount_left, self.amount[node], strict=True)]
        return outcome

    def _try(self, node: int) -> int:
        if self.group_left[self.group[node]] <= 0:
            return MIN_SIZE
        if any(0 < a > left for a, left in zip(self.amount[node], self.amount_left, strict=True)):
            return MINIMUM
        spent = list(self.left)
        for pod in self.moving.get(node, []):
            for budget, need in self.needs.get(pod, []):
                spent[budget] -= need
        lacks = [one < 1 for one in self.left] if self.in_turn[node] else [one < 0 for one in spent]
        for pod in self.moving.get(node, []):
            if any(need and lacks[budget] for budget, need in self.needs.get(pod, [])):
                self.culprit[node] = pod
                return BLOCKED
        return self._empty(node, spent)

    def _empty(self, node: int, spent: list[int]) -> int:
        names = list(self.cluster.nodes)
        fork = self.cluster.mark()
        self.allowed[node] = False
        self.cluster.retire(names[node])
        # What was received last is placed first.
        pods = self.moving.get(node, []) + self.held.get(node, [])[::-1]
        where: dict[int, int] = {}
        for pod in pods:
            self.cluster.remove(pod)
        for pod in pods:
            target = self._place_for(pod)
            if target < 0:
                self.cluster.revert(fork)
                self.allowed[node] = True
                self.culprit[node] = pod
                return NO_PLACE
            self.cluster.place(pod, names[target])
            where[pod] = target
        self.left = spent
        passed_on = self.held.pop(node, [])[::-1]
        for pod in [*passed_on, *self.moving.get(node, [])]:
            self.destination[pod] = where[pod]
            self.held.setdefault(where[pod], []).append(pod)
        return ACCEPTED

    def _place_for(self, pod: int) -> int:
        names = list(self.cluster.nodes)
        wanted = [self.hint[pod]] if self.hint.get(pod, -1) >= 0 else []
        for node in [*wanted, *self.order]:
            if self.allowed[node] and fits(self.cluster, self.cluster.pods[pod], names[node]):
                return node
        return -1
