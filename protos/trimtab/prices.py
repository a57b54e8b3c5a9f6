"""Which numbers the contract takes as a price. Written by hand, beside the generated modules: planner, actuator and
clients may all import it.
"""

import math
from typing import Final

MOST_PER_HOUR: Final = 1e12
"""Highest price of one node for one hour. Larger ones, such as the largest float for "unknown", add up to infinity."""


def is_price(value: float) -> bool:
    """Return whether a number can be the price of one node for one hour."""
    return math.isfinite(value) and 0 <= value <= MOST_PER_HOUR


ASSUMED_PER_CORE: Final = 0.03
ASSUMED_PER_GIB: Final = 0.004
"""About what large clouds ask on demand for machines of general purpose: 2 cores and 8 GiB cost 0.092 an hour."""
HOURS_A_MONTH: Final = 730
"""8,760 hours of a year divided by twelve, a month as clouds bill it."""


def behind_amount(currency: str) -> str:
    """Return what stands behind an amount of money: " USD"; "" for a currency that is not told."""
    return f" {currency}" if currency else ""
