"""Percentiles of times that things have waited. Units: seconds."""

from collections.abc import Iterable
from typing import Final

import numpy as np

PERCENTILES: Final = (50, 90, 99)


def percentiles(waits: Iterable[float]) -> dict[str, float]:
    """Return the percentiles, "p50" and so on, and the longest time, "max"; all 0 if nothing has waited."""
    ordered = sorted(waits)
    return {f"p{share}": _percentile(ordered, share) for share in PERCENTILES} | {
        "max": round(ordered[-1], 3) if ordered else 0.0
    }


def _percentile(sorted_values: list[float], share: int) -> float:
    """Return a percentile; always one of the measured values."""
    if not sorted_values:
        return 0.0
    return round(float(np.percentile(sorted_values, share, method="inverted_cdf")), 3)
