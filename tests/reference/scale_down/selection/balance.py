"""Evenness of similar groups and zones, by checking every candidate again in every step."""

Cell = tuple[str, str]
"""Group and zone; zone "" = none."""


def level_order(cells: list[Cell], sizes: dict[Cell, int]) -> list[int]:
    """Positions of candidates by turns: largest group, in it the largest zone, then the first in the order given.

    `sizes` : nodes by cell, candidates among them; a zone "" never counts.
    """
    gone: list[int] = []
    while len(gone) < len(cells):
        left = dict(sizes)
        for position in gone:
            left[cells[position]] -= 1
        groups = {group: sum(n for (g, _), n in left.items() if g == group) for group, _ in left}
        zones = {zone: sum(n for (_, z), n in left.items() if z == zone) if zone else 0 for _, zone in left}
        waiting = [position for position in range(len(cells)) if position not in gone]
        gone.append(min(waiting, key=lambda p: (-groups[cells[p][0]], -zones[cells[p][1]], p)))
    return gone


def is_even(before: dict[str, int], after: dict[str, int], most: int) -> bool:
    """Whether every part that gave is within `most` nodes of the largest of its like."""
    return all(after[part] >= max(after.values()) - most for part in before if after[part] < before[part])
