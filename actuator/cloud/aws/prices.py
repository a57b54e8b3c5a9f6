"""Prices of instance types: from a file, from AWS, or from both.

Decides that a group costs what its most expensive instance type does in the most expensive zone, as a price never
promises less than is paid, and that the file wins. The file is YAML or JSON, per hour, in any one currency:
`m5.large: 0.115`, or `m5.large: {onDemand: 0.115, spot: 0.041}`; or answers of AWS as its command line prints them,
`PriceList` of `aws pricing get-products` and `SpotPriceHistory` of `aws ec2 describe-spot-price-history`, both in one
object if there are both.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from trimtab.common.documents.bounded_input import UnreadableTextError, read_text
from trimtab.common.documents.loading import DocumentError, load_document
from trimtab.prices import MOST_PER_HOUR, is_price

# What a price of a product must be of, as far as the product says so. Source: AWS, Price List of AmazonEC2.
LINUX: Final = {"operatingSystem": "Linux", "tenancy": "Shared", "preInstalledSw": "NA", "capacitystatus": "Used"}
SPOT_PRODUCT: Final = "Linux/UNIX"


class Price(NamedTuple):
    """Prices of an hour, on demand and as a spot instance; None = not known. `on_demand`, `spot` : any currency."""

    on_demand: float | None
    spot: float | None


def load_prices(path: Path, region: str = "") -> dict[str, Price]:
    """Read a file of prices; of answers of AWS those of a region, "" = of any. Raises `ValueError`, `OSError`."""
    try:
        content = load_document(read_text(path, "; YAML or JSON is expected"))
    except (DocumentError, UnreadableTextError) as error:
        raise ValueError(f"{path}: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path}: expected instance types and their prices")
    if not content.keys() & {"PriceList", "SpotPriceHistory"}:
        return {str(name): _price(f"{path}: {name}", value) for name, value in content.items()}
    try:
        on_demand = read_price_list(content.get("PriceList") or (), region)
        prices = merged(on_demand, read_spot_history(content.get("SpotPriceHistory") or ()))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"{path}: expected an answer of AWS, which cannot be read: {error!r}") from error
    if not prices:
        raise ValueError(f"{path}: it has no price of an instance with Linux{region and f' in region {region}'}")
    return prices


def read_price_list(items: Iterable[str | Mapping[str, Any]], region: str = "") -> dict[str, float]:
    """Return on-demand prices by instance type, of the items of `GetProducts`: each an object, or its text.

    Those of other regions, systems and tenancies are left out. Raises `ValueError`, `KeyError`, `TypeError`.
    """
    wanted = LINUX | ({"regionCode": region} if region else {})
    prices: dict[str, float] = {}
    for item in items:
        product: Mapping[str, Any] = json.loads(item) if isinstance(item, str) else item
        attributes: Mapping[str, Any] = product["product"]["attributes"]
        name = attributes.get("instanceType")
        if not name or any(attributes.get(key, value) != value for key, value in wanted.items()):
            continue
        for term in (product["terms"].get("OnDemand") or {}).values():
            for dimension in term["priceDimensions"].values():
                if dimension.get("unit", "Hrs") == "Hrs":
                    for text in list(dimension["pricePerUnit"].values())[:1]:
                        prices[name] = max(prices.get(name, 0.0), _number(name, float(text)))
    return prices


def read_spot_history(entries: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Return spot prices by instance type, of the entries of `DescribeSpotPriceHistory`: of each zone the latest, of
    zones the highest. Raises `ValueError`, `KeyError`, `TypeError`.
    """
    latest: dict[tuple[str, str], tuple[str, float]] = {}
    for entry in entries:
        if entry.get("ProductDescription", SPOT_PRODUCT) not in (SPOT_PRODUCT, f"{SPOT_PRODUCT} (Amazon VPC)"):
            continue
        name, zone = str(entry["InstanceType"]), str(entry.get("AvailabilityZone") or "")
        price = str(entry.get("Timestamp") or ""), _number(name, float(entry["SpotPrice"]))
        latest[name, zone] = max(price, latest.get((name, zone), price))
    prices: dict[str, float] = {}
    for (name, _), (_, number) in latest.items():
        prices[name] = max(number, prices.get(name, 0.0))
    return prices


def merged(on_demand: Mapping[str, float], spot: Mapping[str, float]) -> dict[str, Price]:
    """Return both prices of each instance type."""
    return {name: Price(on_demand.get(name), spot.get(name)) for name in sorted(on_demand.keys() | spot.keys())}


def with_own(prices: Mapping[str, Price], own: Mapping[str, Price]) -> dict[str, Price]:
    """Return prices, those of `own` in place of others."""
    known_prices = dict(prices)
    for name, price in own.items():
        other = known_prices.get(name, price)
        known_prices[name] = Price(
            other.on_demand if price.on_demand is None else price.on_demand,
            other.spot if price.spot is None else price.spot,
        )
    return known_prices


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
            raise ValueError(f"{place}: {unknown[0]!r} is neither onDemand nor spot")
        return Price(*(_number(f"{place}.{key}", value[key]) if key in value else None for key in ("onDemand", "spot")))
    return Price(_number(place, value), None)


def _number(place: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not is_price(value):
        raise ValueError(f"{place}: a price must be a number from 0 to {MOST_PER_HOUR:.0e}, not {value!r}")
    return float(value)
