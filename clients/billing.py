"""What a price of an hour is on a bill. The currency is that of the prices."""

from typing import Final

HOURS_A_MONTH: Final = 730
"""8,760 hours a year by twelve, as clouds bill a month."""
