"""The limits on nodes that leave together: disruption budgets of their pods, minimums of node groups and of resources,
and budgets for nodes. One structure, which scale-down and replacement ask, one node or a set at a time.

A node may leave if each of its budgets has left what evicting its pods needs, and no minimum is broken. Evictions of a
node are at the same time, but for pods beyond what a budget ever allows at once, which follow one after the other: such
a node needs all of that budget; or, where a wave may take its time, one disruption. What leaves is subtracted in place.
"""

from typing import NamedTuple

from trimtab.planner.compiled.by_reference import by_reference
from trimtab.planner.compiled.decorators import inner_kernel, kernel, widened
from trimtab.planner.snapshot.columns import Bool, Int32, Int64

MIN_SIZE, MINIMUM, BLOCKED, NODE_BUDGET = 6, 9, 15, 27
"""Why a node may not leave, as `UnremovableReason.Code`."""
NOT_YET = 0


@by_reference()
class NodeLimits(NamedTuple):
    """What each node uses of limits if it leaves, and what is left of these."""

    offsets: Int64
    """int64[N+1] into the next three."""
    budget: Int32
    """PodDisruptionBudgets that evicting the pods of a node uses, and after them gangs."""
    need: Int64
    """Disruptions of each."""
    pod: Int32
    """The first pod of the node that uses it."""
    group: Int32
    """int32[N] node group, G for none."""
    amount: Int64
    """int64[N, Q] share of each node in each minimum of a resource."""
    counted: Bool
    """bool[K, N] nodes that count for each budget for nodes."""
    disruptions: Int64
    """int64[B] disruptions left, in place."""
    in_turn: Int64
    """int64[B] nodes that may need more than is left, in place: one disruption is enough for their pods in turn."""
    group_left: Int64
    """int64[G+1] nodes that each group can lose, in place."""
    amount_left: Int64
    """int64[Q] amount that can be removed, in place."""
    nodes_left: Int64
    """int64[K] nodes that each budget for nodes lets go, in place."""

    def copied(self) -> "NodeLimits":
        """Return the same with what is left as arrays of its own."""
        return self._replace(
            disruptions=self.disruptions.copy(),
            in_turn=self.in_turn.copy(),
            group_left=self.group_left.copy(),
            amount_left=self.amount_left.copy(),
            nodes_left=self.nodes_left.copy(),
        )


@inner_kernel
def over_limit(limits: NodeLimits, node: int) -> int:
    """Return why a minimum or a budget for nodes keeps a node, 0 if none does."""
    if limits.group_left[limits.group[node]] <= 0:
        return MIN_SIZE
    for q in range(len(limits.amount_left)):
        if 0 < limits.amount[node, q] > limits.amount_left[q]:
            return MINIMUM
    for k in range(len(limits.nodes_left)):
        if limits.counted[k, node] and limits.nodes_left[k] <= 0:
            return NODE_BUDGET
    return 0


@inner_kernel
def over_budget(limits: NodeLimits, node: int) -> int:
    """Return the first pod of a node whose budget does not suffice, -1 if none."""
    for at in range(limits.offsets[node], limits.offsets[node + 1]):
        budget = widened(limits.budget[at])
        disruptions = limits.disruptions[budget]
        if limits.need[at] > disruptions and not (disruptions > 0 and limits.in_turn[budget] > 0):
            return int(limits.pod[at])
    return -1


@inner_kernel
def spend(limits: NodeLimits, node: int, times: int) -> None:
    """Subtract a node that leaves; -1 times adds it back, where no node goes in turn."""
    for at in range(limits.offsets[node], limits.offsets[node + 1]):
        budget, need = widened(limits.budget[at]), times * limits.need[at]
        if need > limits.disruptions[budget] and limits.in_turn[budget] > 0:
            limits.in_turn[budget] -= 1
            need = widened(1)
        limits.disruptions[budget] -= need
    limits.group_left[limits.group[node]] -= times
    for q in range(len(limits.amount_left)):
        limits.amount_left[q] -= times * limits.amount[node, q]
    for k in range(len(limits.nodes_left)):
        limits.nodes_left[k] -= times * widened(limits.counted[k, node])


@kernel
def admit(limits: NodeLimits, order: Int32, limit: int, refused: Int32) -> int:
    """Let nodes : int32[M] leave in their order, at most so many; return how many do. order : those come first then;
    refused : int32[M], why each of the others may not, 0 = it was not asked."""
    count = 0
    for row in range(len(order)):
        node = widened(order[row])
        refused[row] = 0
        if count == limit:
            continue
        reason = over_limit(limits, node)
        if reason == 0 and over_budget(limits, node) >= 0:
            reason = BLOCKED
        refused[row] = reason
        if reason == 0:
            spend(limits, node, widened(1))
            order[count] = node
            count += 1
    return count


@inner_kernel
def all_may_leave(limits: NodeLimits, nodes: Int32) -> bool:
    """Return whether all nodes may leave together; what is left stays as it is."""
    spent = 0
    while spent < len(nodes):
        node = widened(nodes[spent])
        if over_limit(limits, node) != 0 or over_budget(limits, node) >= 0:
            break
        spend(limits, node, widened(1))
        spent += 1
    for row in range(spent):
        spend(limits, widened(nodes[row]), widened(-1))
    return spent == len(nodes)


class WaveBudgets(NamedTuple):
    """now, refilled : int64[B] disruptions that budgets allow in the first wave, and in each later one."""

    now: Int64
    refilled: Int64


@kernel
def number_waves(limits: NodeLimits, nodes: Int32, budgets: WaveBudgets, most_waves: int, wave: Int32) -> bool:
    """Write the wave : int32[K], from 1, in which each node : int32[K] goes: the first in which disruption budgets
    allow its evictions with the nodes before it. Return whether `most_waves` waves suffice. Only `disruptions` are
    written, and are of no use afterwards. Source: own; first fit, as in bin packing. O(waves · (budgets + uses)).
    """
    disruptions = limits.disruptions
    wave[:] = NOT_YET
    waiting = len(nodes)
    for number in range(1, most_waves + 1):
        if waiting == 0:
            break
        before = waiting
        for budget in range(len(disruptions)):
            disruptions[budget] = budgets.now[budget] if number == 1 else budgets.refilled[budget]
        for row in range(len(nodes)):
            node = widened(nodes[row])
            if wave[row] != NOT_YET or over_budget(limits, node) >= 0:
                continue
            for at in range(limits.offsets[node], limits.offsets[node + 1]):
                disruptions[limits.budget[at]] -= limits.need[at]
            wave[row] = number
            waiting -= 1
        if waiting == before and number > 1:
            break
    return bool(waiting == 0)
