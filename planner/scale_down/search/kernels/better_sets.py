"""All sets of candidates that save more than a given amount and that shares of limits allow, by branch and bound.

Candidates are decided one after the other, those that save most for their share of one row first. A branch ends where
the saving so far and the fractional optimum of that row for the rest do not reach the amount.
Source: own; branch and bound with the bound of Dantzig (1957) for knapsacks.
"""

from typing import Final

from trimtab.planner.compiled.decorators import inner_kernel, kernel
from trimtab.planner.snapshot.columns import Bool, Float64, Int64

TOO_MANY: Final = -1
SAME: Final = 1e-9
"""Difference of two shares that may be rounding."""


@kernel
def better_sets(
    saving: Float64, share: Float64, row: int, floor: float, branches: Int64, used: Float64, goes: Bool, sets: Bool
) -> int:
    """Write the sets to sets : bool[S, E]; return how many there are, TOO_MANY if more than S or more than
    these branches.

    saving : float64[E], share : float64[Q, E] of candidates in the order in which they are decided: by saving for the
    share in `row`, descending; floor : the saving to exceed. branches : int64[1] how many more may be made, in place.
    Scratch: used : float64[E + 1, Q], goes : bool[E].
    """
    count, found, depth = len(saving), 0, 0
    for q in range(len(share)):
        used[0, q] = 0.0
    saved = 0.0
    while True:
        if branches[0] == 0:
            return TOO_MANY
        branches[0] -= 1
        if depth == count and saved > floor:
            if found == len(sets):
                return TOO_MANY
            for one in range(count):
                sets[found, one] = goes[one]
            found += 1
        deeper = depth < count and bound(saving, share, row, depth, saved, used[depth, row]) > floor
        if deeper:
            fits = True
            for q in range(len(share)):
                fits = fits and used[depth, q] + share[q, depth] <= 1.0 + SAME
            for q in range(len(share)):
                used[depth + 1, q] = used[depth, q] + (share[q, depth] if fits else 0.0)
            goes[depth] = fits
            saved += saving[depth] if fits else 0.0
            depth += 1
            continue
        # Back to the last candidate that goes, which then stays.
        depth -= 1
        while depth >= 0 and not goes[depth]:
            depth -= 1
        if depth < 0:
            return found
        goes[depth] = False
        saved = 0.0
        for one in range(depth):
            saved += saving[one] if goes[one] else 0.0
        for q in range(len(share)):
            used[depth + 1, q] = used[depth, q]
        depth += 1


@inner_kernel
def bound(saving: Float64, share: Float64, row: int, depth: int, saved: float, used: float) -> float:
    """Return the most that can be saved with the candidates from `depth` on, one of them in part. used : of the row."""
    most, left = saved, 1.0 - used
    for one in range(depth, len(saving)):
        if share[row, one] > left:
            most += saving[one] * left / share[row, one]
            break
        most += saving[one]
        left -= share[row, one]
    return most
