"""The waves of a set of nodes by budgets alone, in plain Python."""

from collections.abc import Sequence

from tests.reference.scale_down.search.drain_sets import Loop


def wave_numbers(loop: Loop, nodes: Sequence[int], now: Sequence[int], later: Sequence[int], most: int) -> list[int]:
    """Return the wave of each node, in order, 0 for those that no wave takes: each the first with room for it.

    now, later : disruptions by budget in the first wave, and in each other one.
    """
    found = [0] * len(nodes)
    for number in range(1, most + 1):
        left = list(now if number == 1 else later)
        for row, node in enumerate(nodes):
            need = [0] * len(left)
            for pod in loop.moving[node]:
                for budget, one in loop.needs[pod]:
                    need[budget] += one
            fits = all(takes <= has for takes, has in zip(need, left, strict=True) if takes)
            if not found[row] and fits:
                found[row] = number
                left = [has - takes for has, takes in zip(left, need, strict=True)]
    return found
