"""The limits on nodes that leave, in plain Python."""

from collections import Counter
from typing import NamedTuple

MIN_SIZE, MINIMUM, BLOCKED, NODE_BUDGET = 6, 9, 15, 27


class Limits(NamedTuple):
    """moving : pods by node; needs : budgets of each pod that uses one; most : that a node needs at most, by budget;
    group, amount : by node; counted : by budget for nodes, the nodes that count; the rest is left."""

    moving: list[list[int]]
    needs: dict[int, list[int]]
    most: list[int]
    group: list[int]
    amount: list[int]
    counted: list[set[int]]
    disruptions: list[int]
    in_turn: list[int]
    group_left: list[int]
    amount_left: int
    nodes_left: list[int]

    def uses(self, node: int) -> dict[int, int]:
        """Return the budgets of a node's pods, in the order of the pods, and what it needs of each."""
        count = Counter(budget for pod in self.moving[node] for budget in self.needs.get(pod, []))
        return {budget: min(number, self.most[budget]) for budget, number in count.items()}

    def refusal(self, node: int, gone: list[int]) -> int:
        """Return why a node may not leave after others."""
        if self.group_left[self.group[node]] <= sum(self.group[one] == self.group[node] for one in gone):
            return MIN_SIZE
        if 0 < self.amount[node] > self.amount_left - sum(self.amount[one] for one in gone):
            return MINIMUM
        for nodes, left in zip(self.counted, self.nodes_left, strict=True):
            if node in nodes and left <= sum(one in nodes for one in gone):
                return NODE_BUDGET
        left, in_turn = list(self.disruptions), list(self.in_turn)
        for one in [*gone, node]:
            for budget, need in self.uses(one).items():
                if need > left[budget]:
                    if not left[budget] or not in_turn[budget]:
                        return BLOCKED
                    in_turn[budget] -= 1
                left[budget] -= need if need <= left[budget] else 1
        return 0

    def admitted(self, order: list[int], most: int) -> tuple[list[int], set[int]]:
        """Return the nodes that leave, and why others may not."""
        gone, refused = list[int](), set[int]()
        for node in order:
            if len(gone) < most:
                reason = self.refusal(node, gone)
                refused |= {reason} - {0}
                gone += [node] if not reason else []
        return gone, refused
