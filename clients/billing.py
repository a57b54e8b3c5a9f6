"""Hourly prices as amounts on a bill. The currency is that of the prices."""

from typing import Final

HOURS_A_MONTH: Final = 730
"""8,760 hours of a year divided by twelve, a month as clouds bill it."""
