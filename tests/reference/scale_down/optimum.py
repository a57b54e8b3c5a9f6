"""The largest number of removable nodes, found by trying every set of nodes with every placement of their pods."""

from itertools import combinations


def most_that_can_go(room: list[int], pods: list[list[int]], stays: set[int]) -> int:
    """Return how many nodes can go at most. room : free amount by node; pods : amounts by node; stays : by
    node.
    """
    candidates = [node for node in range(len(room)) if node not in stays]
    for count in range(len(candidates), 0, -1):
        for going in combinations(candidates, count):
            left = [free for node, free in enumerate(room) if node not in going]
            moving = sorted((amount for node in going for amount in pods[node]), reverse=True)
            if _fit(moving, left):
                return count
    return 0


def _fit(moving: list[int], left: list[int]) -> bool:
    """Return whether all amounts, largest first, fit into the remaining room, by trying all places."""
    if not moving:
        return True
    if sum(moving) > sum(left):
        return False
    for node, free in enumerate(left):
        # Nodes with equal room are equivalent.
        if free >= moving[0] and free not in left[:node]:
            left[node] -= moving[0]
            if _fit(moving[1:], left):
                left[node] += moving[0]
                return True
            left[node] += moving[0]
    return False
