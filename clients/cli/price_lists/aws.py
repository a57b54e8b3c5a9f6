"""Prices of AWS: what `aws pricing get-products --service-code AmazonEC2` and `aws ec2 describe-spot-price-history`
write. On demand: Linux on shared machines without further software or a capacity reservation. Spot: the latest price of
a type in a zone.

Sources: the AWS Price List Query API (PriceList is a list of JSON documents as text), the EC2 API.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from trimtab.clients.cli.price_lists.rows import Json, ListedPrice, items_of
from trimtab.clients.cli.prices import SPOT

_WANTED: Final = {"operatingSystem": "Linux", "tenancy": "Shared", "preInstalledSw": "NA", "capacitystatus": "Used"}
_SPOT_SYSTEM: Final = "Linux/UNIX"


def aws_prices(documents: Iterable[Any]) -> Iterator[ListedPrice]:
    """Yield the prices in some documents; what is not understood is left out."""
    spot: dict[tuple[str, str], Json] = {}
    for document in documents:
        for item in items_of(document, "PriceList"):
            product = json.loads(item) if isinstance(item, str) else item
            if isinstance(product, dict):
                yield from on_demand_prices(product)
        for one in items_of(document, "SpotPriceHistory"):
            if isinstance(one, dict) and str(one.get("ProductDescription", "")).startswith(_SPOT_SYSTEM):
                key = str(one.get("InstanceType")), str(one.get("AvailabilityZone"))
                if key not in spot or str(spot[key].get("Timestamp")) < str(one.get("Timestamp")):
                    spot[key] = one
    for (kind, zone), one in spot.items():
        yield ListedPrice(kind, zone[:-1], float(one["SpotPrice"]), "USD", zone, SPOT)


def on_demand_prices(product: Json) -> Iterator[ListedPrice]:
    """Yield the prices on demand of a product; none of one that is not Linux on a shared machine."""
    attributes: Mapping[str, str] = product.get("product", {}).get("attributes", {})
    if "instanceType" not in attributes or any(attributes.get(key, want) != want for key, want in _WANTED.items()):
        return
    region = attributes.get("regionCode") or attributes.get("location") or ""
    for term in product.get("terms", {}).get("OnDemand", {}).values():
        for dimension in term.get("priceDimensions", {}).values():
            if dimension.get("unit") == "Hrs":
                for currency, amount in dimension.get("pricePerUnit", {}).items():
                    yield ListedPrice(attributes["instanceType"], region, float(amount), currency)
