"""One pass over the candidates as listed: by name, empty nodes first; in plain Python, with one resource."""

from typing import NamedTuple


class ListedNode(NamedTuple):
    """room : free amount; pods : (amount, number of its disruption budget) of each pod, in order of name, -1 = none;
    stays : it is no candidate."""

    room: int
    pods: list[tuple[int, int]]
    stays: bool


def free_in_list_order(nodes: list[ListedNode], allowed: list[int]) -> list[int]:
    """Return the nodes that go. nodes : in order of name; allowed : disruptions by budget.

    Pods go to the first node with room: those that stay anyway, then the candidates, last first. A node that has
    received a pod stays.
    """
    listed = [number for number, node in enumerate(nodes) if not node.stays]
    candidates = sorted(listed, key=lambda number: (bool(nodes[number].pods), number))
    search = [number for number, node in enumerate(nodes) if node.stays] + candidates[::-1]
    left, room = list(allowed), [node.room for node in nodes]
    received: set[int] = set()
    going: list[int] = []
    for number in candidates:
        budgets = [budget for _, budget in nodes[number].pods if budget >= 0]
        if number in received or any(left[budget] < budgets.count(budget) for budget in budgets):
            continue
        then = list(room)
        open_nodes = [node for node in search if node not in (number, *going)]
        where = [_place(amount, then, open_nodes) for amount, _ in nodes[number].pods]
        if -1 in where:
            continue
        room = then
        received.update(where)
        going.append(number)
        for budget in budgets:
            left[budget] -= 1
    return going


def _place(amount: int, room: list[int], search: list[int]) -> int:
    """Take the room of a pod on the first node that has it; return the node, -1 if there is none."""
    for node in search:
        if room[node] >= amount:
            room[node] -= amount
            return node
    return -1
