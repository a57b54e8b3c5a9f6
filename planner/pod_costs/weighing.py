"""Combine the ranks of several strategies into one cost for each pod. Each strategy's ranks are capped at its
threshold, divided by it, and weighted. The sum is expressed in units of 2^-26 or, if the weights add up to more than
31, in units so large that the largest possible sum is 2^31 - 1. The cost is the negated number: lower costs are removed
first, and every int32 is a valid annotation. Exact and equal on every machine: one order of additions, one rounding,
half to even.
"""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from trimtab.planner.snapshot.columns import Float64, Int32

UNITS: Final = float(1 << 26)
LARGEST: Final = float((1 << 31) - 1)


def share(rank: Float64, threshold: float, weight: float) -> Float64:
    """Return a strategy's contribution: 0 to its weight. rank : float64[M]."""
    # One array for all steps: allocating memory costs more than the arithmetic.
    found: Float64 = np.maximum(rank, 0.0)
    np.minimum(found, threshold, out=found)
    found /= threshold
    found *= weight
    return found


def costs(shares: Sequence[Float64], weights: Sequence[float]) -> Int32:
    """Return the costs: int32[M], -(2^31 - 1) to 0. shares : of each strategy, float64[M], 0 to its weight."""
    heaviest = max(weights)
    # Weights near the largest float would add up to infinity; divided by the largest weight they do not.
    relative = math.fsum(weight / heaviest for weight in weights) if heaviest else 0.0
    is_small = relative * heaviest * UNITS <= LARGEST
    unit = UNITS if is_small else LARGEST / relative
    total = np.zeros(len(shares[0]))
    for one in shares:
        total += one if is_small else one / heaviest
    total *= unit
    np.minimum(np.rint(total, out=total), LARGEST, out=total)
    return np.negative(total, out=total).astype(np.int32)
