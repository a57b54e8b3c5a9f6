"""`--headroom`: room that stays free on each new node, as a share or an amount of a resource."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from trimtab.clients.cli.failures import UsageError
from trimtab.common.kubernetes.kinds.metadata import Quantities
from trimtab.common.kubernetes.object_errors import FieldError
from trimtab.common.kubernetes.quantities import NANO, quantity

_BOTH: Final = ("cpu", "memory")
_WRITE: Final = "write 10%, or cpu=10%,memory=2Gi"


class Headroom(NamedTuple):
    """shares : by resource, 0 to below 1; amounts : by resource, in nano-units."""

    shares: Mapping[str, float] = MappingProxyType({})
    amounts: Mapping[str, int] = MappingProxyType({})

    def left(self, allocatable: Quantities) -> Quantities:
        """Return what a node offers to pods without the room that stays free."""
        found = dict(allocatable)
        for resource in allocatable.keys() & (self.shares.keys() | self.amounts.keys()):
            nano = quantity(allocatable[resource])
            free = nano * self.shares.get(resource, 0.0) + self.amounts.get(resource, 0)
            found[resource] = f"{max(nano - round(free), 0) * 1000 // NANO}m"
        return found

    def __str__(self) -> str:
        """Return it in words, "" if nothing stays free."""
        parts = [f"{share:.0%} of {resource}" for resource, share in self.shares.items()]
        parts += [f"{amount / NANO:g} of {resource}" for resource, amount in self.amounts.items()]
        return " and ".join(parts)


def read_headroom(text: str | None) -> Headroom:
    """Read `--headroom`. Errors: UsageError."""
    shares: dict[str, float] = {}
    amounts: dict[str, int] = {}
    for part in (text or "").split(",") if text else ():
        resource, equals, value = (one.strip() for one in part.partition("="))
        if not equals:
            resource, value = "", resource
        if equals and not resource:
            raise UsageError(f"--headroom {text}: {part.strip()!r} names no resource; {_WRITE}")
        if value.endswith("%"):
            share = _share(text, value)
            shares.update(dict.fromkeys([resource] if resource else _BOTH, share))
        elif not resource:
            raise UsageError(f"--headroom {text}: {value!r} is no share; {_WRITE}")
        else:
            amounts[resource] = _amount(text, value)
    return Headroom(shares, amounts)


def _share(text: str | None, value: str) -> float:
    try:
        share = float(value.removesuffix("%")) / 100
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise UsageError(f"--headroom {text}: {value!r} is not a share from 0% to below 100%; {_WRITE}")
    return share


def _amount(text: str | None, value: str) -> int:
    try:
        nano = quantity(value)
    except FieldError as error:
        raise UsageError(f"--headroom {text}: {error.problem}; {_WRITE}") from None
    if nano < 0:
        raise UsageError(f"--headroom {text}: {value} is negative; {_WRITE}")
    return nano
