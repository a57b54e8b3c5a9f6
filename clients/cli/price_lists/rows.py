"""What an importer finds: a price of an instance type, and the regions that it is for. Decides which price is taken if
a list has several for one type: that of the requested region, and of several in it the last one given.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from trimtab.clients.cli.failures import UsageError
from trimtab.clients.cli.prices import ON_DEMAND
from trimtab.clients.documents.bounded_input import UnreadableTextError, read_text
from trimtab.prices import is_price

Json = dict[str, Any]
HEADER: Final = ("type", "zone", "lifecycle", "price", "currency")


class ListedPrice(NamedTuple):
    """The price of a node for an hour. region : "" = not told; zone : "" = of the whole region."""

    type: str
    region: str
    price: float
    currency: str
    zone: str = ""
    lifecycle: str = ON_DEMAND


def read_json(path: Path) -> Any:
    """Read a file of a cloud's command line. Errors: UsageError."""
    try:
        return json.loads(read_text(path, "; JSON is expected", "utf-8-sig"))
    except UnreadableTextError as error:
        raise UsageError(f"{path}: {error}") from None
    except ValueError as error:
        raise UsageError(f"{path}: this is not JSON: {error}; write it with --output json or --format json") from None


def items_of(document: Any, key: str) -> Iterator[Any]:
    """Yield the items of a list, of a page that has them under a key, or of several such pages."""
    for part in document if isinstance(document, list) else [document]:
        if isinstance(part, dict) and isinstance(part.get(key), list):
            yield from part[key]
        else:
            yield part


def of_region(found: Iterable[ListedPrice], region: str) -> list[ListedPrice]:
    """Return one price for each type, zone and lifecycle, sorted. region : "" = the only one in the list.

    Errors: UsageError if there is no price, or if there are several regions and none is chosen.
    """
    every = [one for one in found if is_price(one.price) and one.price > 0]
    regions = sorted({one.region for one in every if one.region})
    if region and region not in regions:
        raise UsageError(f"--region {region}: the lists have {', '.join(regions) or 'no region'}")
    if not region and len(regions) > 1:
        raise UsageError(f"the lists have {len(regions)} regions ({', '.join(regions[:5])}, …); choose one: --region")
    chosen = {(one.type, one.zone, one.lifecycle): one for one in every if not region or one.region in ("", region)}
    if not chosen:
        raise UsageError("the lists have no hourly price of a Linux machine; see docs/plan.md for what to export")
    return [chosen[key] for key in sorted(chosen)]
