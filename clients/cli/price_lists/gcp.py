"""Prices of Google Cloud: the SKUs of Compute Engine, which are per core and GiB of a machine family, with the machine
types that `gcloud compute machine-types list --format json` writes. The SKUs are pages of the Cloud Billing Catalog API
(`https://cloudbilling.googleapis.com/v1/services/6F81-5844-456A/skus`). A family without SKUs of that form, such as F1,
has no price; nor has a type with accelerators or local disks of its own, which cost more than its cores and memory.
Sole tenancy, custom machines and commitments are other SKUs.

Source: the documentation of the Cloud Billing Catalog API; of the Compute API (machineTypes).
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from trimtab.clients.cli.amounts import counted, some
from trimtab.clients.cli.failures import UsageError
from trimtab.clients.cli.output import note
from trimtab.clients.cli.price_lists.rows import Json, ListedPrice, items_of
from trimtab.clients.cli.prices import ON_DEMAND, SPOT

_SKU: Final = re.compile(
    r"^(?:Spot Preemptible |Preemptible )?(?P<family>[A-Z]\d+[A-Z]?)"
    r"(?: (?:Predefined|AMD|Arm|Memory-optimized))* Instance (?P<part>Core|Ram) running in "
)
_COMPUTE_OPTIMIZED: Final = re.compile(
    r"^(?:Spot Preemptible |Preemptible )?Compute optimized (?:Instance )?(?P<part>Core|Ram) running in "
)
_SHARED_CORES: Final = {"e2-micro": 0.25, "e2-small": 0.5, "e2-medium": 1.0}
"""Cores that a type is billed for, if they are not those that its machines have."""
_MORE_PARTS: Final = ("accelerators", "bundledLocalSsds")
_LIFECYCLES: Final = {"OnDemand": ON_DEMAND, "Preemptible": SPOT}


class _Rate(NamedTuple):
    amount: float
    currency: str


class _RateKey(NamedTuple):
    family: str
    part: str
    region: str
    lifecycle: str


def gcp_prices(documents: Iterable[Any]) -> Iterator[ListedPrice]:
    """Yield the prices in some documents. Errors: UsageError if there are no SKUs, or no machine types."""
    every = list(documents)
    rates = dict(_rates(every))
    types = [item for document in every for item in items_of(document, "items") if _is_type(item)]
    if not rates:
        raise UsageError("there are no SKUs of cores and memory: give pages of the Cloud Billing Catalog API")
    if not types:
        raise UsageError("there are no machine types: give `gcloud compute machine-types list --format json`, too")
    whole = [one for one in types if not any(one.get(part) for part in _MORE_PARTS)]
    if len(whole) < len(types):
        names = sorted({str(one["name"]) for one in types if any(one.get(part) for part in _MORE_PARTS)})
        note(f"{counted(len(names), 'machine type')} with accelerators or local disks left out ({some(names, 2)})")
    for one in whole:
        zone = str(one.get("zone", "")).rpartition("/")[2]
        region, family = zone.rpartition("-")[0], str(one["name"]).split("-")[0].upper()
        for lifecycle in (ON_DEMAND, SPOT):
            core = rates.get(_RateKey(family, "Core", region, lifecycle))
            ram = rates.get(_RateKey(family, "Ram", region, lifecycle))
            if core is not None and ram is not None:
                cores = _SHARED_CORES.get(str(one["name"]), int(one["guestCpus"]))
                price = cores * core.amount + int(one["memoryMb"]) / 1024 * ram.amount
                yield ListedPrice(str(one["name"]), region, round(price, 6), core.currency, "", lifecycle)


def _is_type(item: Any) -> bool:
    return isinstance(item, dict) and "guestCpus" in item and "memoryMb" in item and "name" in item


def _rates(documents: Iterable[Any]) -> Iterator[tuple[_RateKey, _Rate]]:
    for document in documents:
        for sku in items_of(document, "skus"):
            if isinstance(sku, dict):
                yield from _rates_of(sku)


def _rates_of(sku: Json) -> Iterator[tuple[_RateKey, _Rate]]:
    """Yield the rate of a SKU for each region."""
    text = str(sku.get("description", ""))
    lifecycle = _LIFECYCLES.get(sku.get("category", {}).get("usageType", ""))
    named, optimized = _SKU.match(text), _COMPUTE_OPTIMIZED.match(text)
    rate = _rate(sku)
    if lifecycle is None or rate is None or "Custom" in text or not (named or optimized):
        return
    family = named["family"] if named else "C2"
    part = named["part"] if named else optimized["part"] if optimized else ""
    for region in sku.get("serviceRegions", ()):
        yield _RateKey(family, part, region, lifecycle), rate


def _rate(sku: Json) -> _Rate | None:
    """Return the price of the first tier that costs something."""
    for pricing in sku.get("pricingInfo", ()):
        for tier in pricing.get("pricingExpression", {}).get("tieredRates", ()):
            unit = tier.get("unitPrice", {})
            amount = int(unit.get("units") or 0) + int(unit.get("nanos") or 0) / 1e9
            if amount > 0:
                return _Rate(amount, str(unit.get("currencyCode", "")))
    return None
