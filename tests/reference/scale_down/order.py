"""Uids sorted by Python; balance of similar groups and zones, by checking every candidate again in every step."""


def sorted_uids(uids: list[str]) -> bytes:
    """Return uids in order, each followed by a line feed."""
    return b"".join(uid + b"\n" for uid in sorted(uid.encode() for uid in uids))


Cell = tuple[str, str]
"""Group and zone; zone "" = none."""


def level_order(cells: list[Cell], sizes: dict[Cell, int]) -> list[int]:
    """Return the positions of candidates: next is always the largest group, its largest zone, the first in the given
    order.

    `sizes` : nodes by cell, including candidates; a zone "" is ignored.
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
    """Return whether every part that lost nodes is within `most` nodes of the largest similar part."""
    return all(after[part] >= max(after.values()) - most for part in before if after[part] < before[part])
