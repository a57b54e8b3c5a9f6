"""`--prices cpu=0.03,memory=0.004`: what a core and a GiB of memory cost for an hour, for nodes whose price is not
known otherwise. A node's price by rates is the sum over what it offers to pods (allocatable). The default rates
apply only if nothing at all is known of prices, only to what is shown, and every output that uses them says so.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from trimtab.clients.cli.failures import UsageError
from trimtab.clients.cli.output import note
from trimtab.prices import is_price

_GIB = 1 << 30
_UNITS: Final = {"cpu": 1000, "memory": _GIB, "ephemeral-storage": _GIB}
"""What a rate is for: 1,000 milli-cores, a GiB; of any other resource, one."""
_NAMES: Final = {"cpu": "a core", "memory": "a GiB of memory", "ephemeral-storage": "a GiB of ephemeral storage"}


@dataclass(frozen=True)
class Rates:
    """Prices per hour by resource: of a core, of a GiB, of one of any other resource."""

    per_hour: Mapping[str, float]

    def price(self, allocatable: Mapping[str, int]) -> float:
        """Return the price of a node by what it offers, rounded to millionths."""
        parts = (
            rate * allocatable.get(resource, 0) / _UNITS.get(resource, 1) for resource, rate in self.per_hour.items()
        )
        return round(sum(parts), 6)

    def __str__(self) -> str:
        """Return the rates in words: "0.03 a core and 0.004 a GiB of memory an hour"."""
        return f"{' and '.join(self._parts())} an hour"

    def _parts(self) -> Iterator[str]:
        for resource, rate in self.per_hour.items():
            yield f"{rate:g} {_NAMES.get(resource, f'one {resource}')}"


def read_rates(text: str) -> Rates:
    """Read prices of resources. A rate that is no price is named and left out. Errors: UsageError, also if none
    is left.
    """
    rates: dict[str, float] = {}
    for part in text.split(","):
        resource, equals, number = (one.strip() for one in part.partition("="))
        if not equals or not resource:
            raise UsageError(f"--prices {text}: {part.strip()!r} is not RESOURCE=PRICE, such as cpu=0.03,memory=0.004")
        if resource in rates:
            raise UsageError(f"--prices {text}: {resource} is given twice")
        try:
            rates[resource] = float(number)
        except ValueError:
            raise UsageError(f"--prices {text}: {number!r} is no number; write cpu=0.03,memory=0.004") from None
    for resource, rate in list(rates.items()):
        if not is_price(rate):
            note(f"--prices: {resource}={rate:g} is not a price per hour; it is left out")
            del rates[resource]
    if not rates:
        raise UsageError(f"--prices {text}: no rate is left; write cpu=0.03,memory=0.004")
    return Rates(rates)
