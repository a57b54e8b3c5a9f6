"""All sets that save more than an amount and that shares allow, by trying every set."""

from collections.abc import Sequence
from itertools import product

SAME = 1e-9


def better_sets(saving: Sequence[float], share: Sequence[Sequence[float]], floor: float) -> set[tuple[bool, ...]]:
    """Return the sets. saving : of each candidate; share : by row, of each candidate."""
    return {
        goes
        for goes in product((False, True), repeat=len(saving))
        if _sum(saving, goes) > floor and all(_sum(row, goes) <= 1.0 + SAME for row in share)
    }


def _sum(of: Sequence[float], goes: Sequence[bool]) -> float:
    return sum(amount for amount, one in zip(of, goes, strict=True) if one)
