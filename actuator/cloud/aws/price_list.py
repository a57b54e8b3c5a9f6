"""Prices as AWS gives them now: on demand from its price list, spot from the history of spot prices.

Decides when AWS is asked: for the list of a region every twelve hours, for spot prices every ten minutes, after a call
that failed not before ten minutes. What cannot be read is logged once and keeps its last price. Thread-safe. Seconds.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

import structlog

from trimtab.actuator.cloud.aws.api import Reader
from trimtab.actuator.cloud.aws.prices import LINUX, SPOT_PRODUCT, Price, merged, read_price_list, read_spot_history
from trimtab.actuator.cloud.provider import CloudError

log = structlog.get_logger("aws")

LIST_AGE_S: Final = 12 * 3600.0
SPOT_AGE_S: Final = 600.0
RETRY_S: Final = 600.0


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
