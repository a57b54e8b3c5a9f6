"""Prices of instance types: from a file, from AWS, or from both.

Decides that a group costs what its most expensive instance type does in the most expensive zone, as a price never
promises less than is paid, and that the file wins. The file is YAML or JSON, per hour, in any one currency:
`m5.large: 0.115`, or `m5.large: {onDemand: 0.115, spot: 0.041}`; or answers of AWS as its command line prints them,
`PriceList` of `aws pricing get-products` and `SpotPriceHistory` of `aws ec2 describe-spot-price-history`, both in one
object if there are both.

`PriceList` asks AWS for the same: on demand from its price list every twelve hours, spot from the history of spot
prices every ten minutes, after a call that failed not before ten minutes. What cannot be read is logged once and keeps
its last price. Thread-safe. Seconds.
"""

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import structlog

from trimtab.actuator.cloud.aws.api import Reader
from trimtab.actuator.cloud.provider import CloudError
from trimtab.common.documents.bounded_input import UnreadableTextError, read_text
from trimtab.common.documents.loading import DocumentError, load_document
from trimtab.prices import MOST_PER_HOUR, is_price

# What a price of a product must be of, as far as the product says so. Source: AWS, Price List of AmazonEC2.
LINUX: Final = {"operatingSystem": "Linux", "tenancy": "Shared", "preInstalledSw": "NA", "capacitystatus": "Used"}
SPOT_PRODUCT: Final = "Linux/UNIX"

log = structlog.get_logger("aws")
LIST_AGE_S: Final = 12 * 3600.0
SPOT_AGE_S: Final = 600.0
RETRY_S: Final = 600.0


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


class PriceList:
    """Prices of instance types in a region."""

    def __init__(self, reader: Reader, region: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._reader = reader
        self._region = region
        self._clock = clock
        self._lock = threading.Lock()
        self._on_demand: dict[str, float] = {}
        self._spot: dict[str, float] = {}
        # When on-demand prices, and spot prices of a type, are to be read again.
        self._list_due_s = float("-inf")
        self._spot_due_s: dict[str, float] = {}
        self._warned: set[str] = set()

    def of(self, types: Sequence[str], spot: bool) -> Mapping[str, Price]:
        """Return what is known of instance types; spot : of their spot prices."""
        with self._lock:
            now_s = self._clock()
            due = [name for name in types if self._spot_due_s.get(name, now_s) <= now_s]
            if spot and due:
                is_read = self._read("spot prices", lambda: self._spot.update(self._spot_prices(due)))
                self._spot_due_s |= dict.fromkeys(due, now_s + (SPOT_AGE_S if is_read else RETRY_S))
            if not spot and self._list_due_s <= now_s:
                is_read = self._read("on-demand prices", lambda: self._on_demand.update(self._products()))
                self._list_due_s = now_s + (LIST_AGE_S if is_read else RETRY_S)
            wanted = set(types)
            on_demand = {name: price for name, price in self._on_demand.items() if name in wanted}
            return merged(on_demand, {name: price for name, price in self._spot.items() if name in wanted})

    def _read(self, what: str, read: Callable[[], None]) -> bool:
        try:
            read()
        except (CloudError, ValueError, KeyError, TypeError, AttributeError) as error:
            if what not in self._warned:
                log.warning("prices_not_read", what=what, detail=str(error))
            self._warned.add(what)
            return False
        self._warned.discard(what)
        return True

    def _products(self) -> dict[str, float]:
        """Read the whole list of a region: a dozen pages."""
        wanted = LINUX | {"regionCode": self._region}
        filters = [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in sorted(wanted.items())]
        items = self._reader.pages(
            "pricing", "get_products", "PriceList", ServiceCode="AmazonEC2", Filters=filters, FormatVersion="aws_v1"
        )
        return read_price_list(items, self._region)

    def _spot_prices(self, types: Sequence[str]) -> dict[str, float]:
        entries = self._reader.pages(
            "ec2",
            "describe_spot_price_history",
            "SpotPriceHistory",
            InstanceTypes=list(types),
            ProductDescriptions=[SPOT_PRODUCT],
            # From now on: of each type and zone the price that holds.
            StartTime=datetime.now(UTC),
        )
        return read_spot_history(entries)
