"""Prices of Azure: pages of the Azure Retail Prices API (`az rest --url
"https://prices.azure.com/api/retail/prices?$filter=serviceName eq 'Virtual Machines'"`). Pay as you go, Linux; spot
where the name of the SKU says so.

Source: the documentation of the Azure Retail Prices API.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from trimtab.clients.cli.price_lists.rows import Json, ListedPrice, items_of
from trimtab.clients.cli.prices import ON_DEMAND, SPOT

_OTHER_PRODUCTS: Final = ("Windows", "CloudServices", "Cloud Services", "Dedicated Host")


def azure_prices(documents: Iterable[Any]) -> Iterator[ListedPrice]:
    """Yield the prices in some documents, those of primary meters and of the latest date last, because the last one
    counts.
    """
    items = [item for document in documents for item in items_of(document, "Items") if isinstance(item, dict)]
    for item in sorted(items, key=_precedence):
        if _is_machine(item):
            is_spot = "Spot" in str(item.get("skuName", ""))
            price = float(item.get("retailPrice") or 0.0)
            region, currency = str(item.get("armRegionName", "")), str(item.get("currencyCode", ""))
            lifecycle = SPOT if is_spot else ON_DEMAND
            yield ListedPrice(str(item["armSkuName"]), region, price, currency, lifecycle=lifecycle)


def _precedence(item: Json) -> tuple[bool, str]:
    return bool(item.get("isPrimaryMeterRegion", True)), str(item.get("effectiveStartDate") or "")


def _is_machine(item: Json) -> bool:
    product = str(item.get("productName", ""))
    return (
        bool(item.get("armSkuName"))
        and item.get("serviceName", "Virtual Machines") == "Virtual Machines"
        and item.get("type", "Consumption") == "Consumption"
        and item.get("unitOfMeasure") == "1 Hour"
        and "Low Priority" not in str(item.get("skuName", ""))
        and not any(other in product for other in _OTHER_PRODUCTS)
    )
