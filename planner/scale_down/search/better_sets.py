"""Which sets of candidates could save more than a plan, all of them if they are few."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from trimtab.planner.scale_down.search.kernels.better_sets import TOO_MANY, better_sets
from trimtab.planner.snapshot.columns import Float64

MOST_SETS: Final = 512
"""Most sets that are few."""
MOST_BRANCHES: Final = 1 << 17
"""Most branches to find them: a few milliseconds."""
LEAST_SHARE: Final = 1e-12


def sets_that_save_more(saving: Float64, share: Float64, floor: float) -> tuple[NDArray[np.bool_] | None, int]:
    """Return every set that saves more than `floor` and that the shares allow, those that take the least first; None if
    there are too many; and how many branches were made. saving : float64[E]; share : float64[Q, E]; bool[S, E]."""
    row, order = _tightest(saving, share)
    count = len(saving)
    sets = np.zeros((MOST_SETS, count), np.bool_)
    used, goes = np.zeros((count + 1, len(share))), np.zeros(count, np.bool_)
    its_share = np.ascontiguousarray(share[:, order])
    branches = np.array([MOST_BRANCHES], np.int64)
    found = better_sets(saving[order], its_share, row, floor, branches, used, goes, sets)
    made = MOST_BRANCHES - int(branches[0])
    if found == TOO_MANY:
        return None, made
    sets[:found, order] = sets[:found].copy()
    takes = (share @ sets[:found].T).max(axis=0)
    easiest_first: NDArray[np.bool_] = sets[:found][np.argsort(takes, kind="stable")]
    return easiest_first, made


def _tightest(saving: Float64, share: Float64) -> tuple[int, NDArray[np.int64]]:
    """Return the row that bounds the saving most, and the candidates by saving for their share of it, descending."""
    best, least, order = 0, np.inf, np.arange(len(saving))
    for row in range(len(share)):
        its = np.argsort(-saving / np.maximum(share[row], LEAST_SHARE), kind="stable")
        upto = np.cumsum(share[row][its])
        whole = int(np.searchsorted(upto, 1.0, side="right"))
        most = float(saving[its[:whole]].sum())
        if whole < len(its):
            most += float(saving[its[whole]] * (1.0 - (upto[whole - 1] if whole else 0.0)) / share[row][its[whole]])
        if most < least:
            best, least, order = row, most, its
    return best, order
