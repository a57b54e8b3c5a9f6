"""Prices of instance types, from a file.

Decides that a group costs what its dearest instance type does: a price never promises less than is paid. The file is
YAML or JSON: `m5.large: 0.115`, or `m5.large: {onDemand: 0.115, spot: 0.041}`; per hour, in any one currency.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml


class Price(NamedTuple):
    """Price of an hour; None = not known."""

    on_demand: float | None
    spot: float | None


def load_prices(path: Path) -> dict[str, Price]:
    """Read a file of prices. Raises `ValueError`, `OSError`."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path}: instance types and their prices were expected")
    return {str(name): _price(f"{path}: {name}", value) for name, value in content.items()}


def group_price(prices: Mapping[str, Price], types: Sequence[str], spot: bool) -> float | None:
    """Return the price of a node; None = that of a type is not known."""
    found = []
    for name in types:
        price = prices.get(name, Price(None, None))
        found.append(price.spot if spot else price.on_demand)
    known = [price for price in found if price is not None]
    return max(known) if known and len(known) == len(found) else None


def _price(place: str, value: Any) -> Price:
    if isinstance(value, dict):
        unknown = sorted(value.keys() - {"onDemand", "spot"})
        if unknown:
            raise ValueError(f"{place}: {unknown[0]!r} is none of onDemand and spot")
        return Price(*(_number(f"{place}.{key}", value[key]) if key in value else None for key in ("onDemand", "spot")))
    return Price(_number(place, value), None)


def _number(place: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise ValueError(f"{place}: a price is a number of at least 0, not {value!r}")
    return float(value)
