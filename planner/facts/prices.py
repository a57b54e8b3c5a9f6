"""What a node costs per hour, what its removal saves, and sums of such numbers. Source: the price of its node group."""

import numpy as np

from trimtab.planner.facts.utilization import Float64
from trimtab.planner.snapshot.columns import Snapshot


def prices(snapshot: Snapshot) -> Float64:
    """Return the price per hour of each node. float64[N], NaN = unknown."""
    by_group = np.array([*(group.price_per_hour for group in snapshot.groups), np.nan])
    price: Float64 = by_group[snapshot.nodes.group]
    return price


def savings(price: Float64) -> Float64:
    """Return the saving by removing each node: its price; if unknown, the mean price; without any prices, 1."""
    known = ~np.isnan(price)
    return np.where(known, price, total(price[known]) / int(known.sum()) if known.any() else 1.0)


def total(numbers: Float64) -> float:
    """Return the sum of floats : float64[M], added one after the other; NaN counts as 0.

    numpy's `sum` adds blocks, whose rounding depends on the machine; answers and states have the same bytes on all.
    """
    return float(np.cumsum(np.nan_to_num(numbers))[-1]) if len(numbers) else 0.0
