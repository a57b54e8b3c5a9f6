"""Prices of AWS: what `aws pricing get-products --service-code AmazonEC2` and `aws ec2 describe-spot-price-history`
write, and the bulk price list (offers/v1.0/aws/AmazonEC2/current/REGION/index.json). On demand: Linux on shared
machines of a region without further software. Spot: the latest price of a type in a zone. A machine in an unused
capacity reservation costs as much as one on demand; its price counts if the list has no other.

Sources: the AWS Price List Query API (PriceList is a list of JSON documents as text) and Bulk API (products and terms
by SKU), the EC2 API.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from trimtab.clients.cli.price_lists.rows import Json, ListedPrice, items_of
from trimtab.clients.cli.prices import SPOT

_WANTED: Final[Mapping[str, tuple[str, ...]]] = {
    "operatingSystem": ("Linux",),
    "tenancy": ("Shared",),
    "preInstalledSw": ("NA", ""),
    "capacitystatus": ("Used", "UnusedCapacityReservation"),
    "locationType": ("AWS Region",),
    "marketoption": ("OnDemand",),
}
"""Attributes of a product and their values; older lists do not have all of them."""
_SPOT_SYSTEM: Final = "Linux/UNIX"


def aws_prices(documents: Iterable[Any]) -> Iterator[ListedPrice]:
    """Yield the prices in some documents, those of reservations first, because the last one counts; what is not
    understood is left out.
    """
    every = list(documents)
    products = [product for document in every for product in products_of(document)]
    for product in sorted(products, key=lambda one: _attributes(one).get("capacitystatus", "Used") == "Used"):
        yield from on_demand_prices(product)
    yield from _spot(every)


def products_of(document: Any) -> Iterator[Json]:
    """Yield the products of a document, each with its terms."""
    for item in items_of(document, "PriceList"):
        product = json.loads(item) if isinstance(item, str) else item
        if isinstance(product, dict) and isinstance(product.get("products"), dict):
            of_sku = product.get("terms", {}).get("OnDemand", {})
            for sku, one in product["products"].items():
                yield {"product": one, "terms": {"OnDemand": of_sku.get(sku, {})}}
        elif isinstance(product, dict):
            yield product


def _attributes(product: Json) -> Mapping[str, str]:
    found: Mapping[str, str] = product.get("product", {}).get("attributes", {})
    return found


def on_demand_prices(product: Json) -> Iterator[ListedPrice]:
    """Yield the prices on demand of a product; none of one that is not Linux on a shared machine."""
    attributes = _attributes(product)
    if "instanceType" not in attributes or any(
        attributes.get(key, wanted[0]) not in wanted for key, wanted in _WANTED.items()
    ):
        return
    region = attributes.get("regionCode") or attributes.get("location") or ""
    for term in product.get("terms", {}).get("OnDemand", {}).values():
        for dimension in term.get("priceDimensions", {}).values():
            if dimension.get("unit") == "Hrs":
                for currency, amount in dimension.get("pricePerUnit", {}).items():
                    yield ListedPrice(attributes["instanceType"], region, float(amount), currency)


def _spot(documents: Iterable[Any]) -> Iterator[ListedPrice]:
    """Yield the latest price of each type in each zone."""
    latest: dict[tuple[str, str], Json] = {}
    for document in documents:
        for one in items_of(document, "SpotPriceHistory"):
            if isinstance(one, dict) and str(one.get("ProductDescription", "")).startswith(_SPOT_SYSTEM):
                key = str(one.get("InstanceType")), str(one.get("AvailabilityZone"))
                if key not in latest or str(latest[key].get("Timestamp")) < str(one.get("Timestamp")):
                    latest[key] = one
    for (kind, zone), one in latest.items():
        yield ListedPrice(kind, zone[:-1], float(one["SpotPrice"]), "USD", zone, SPOT)
