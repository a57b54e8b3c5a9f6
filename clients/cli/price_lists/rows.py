"""What an importer finds: a price of an instance type, and the regions that it is for. Decides which price is taken if
a list has several for one type: that of the requested region, in the currency of most prices, and of several the last
one given. A file may hold several JSON documents one after the other: pages of a command line, items that `jq` wrote.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from trimtab.clients.cli.amounts import counted
from trimtab.clients.cli.failures import UsageError
from trimtab.clients.cli.output import note
from trimtab.clients.cli.prices import ON_DEMAND
from trimtab.common.documents.bounded_input import UnreadableTextError, read_text
from trimtab.prices import is_price

Json = dict[str, Any]
_SPACE: Final = re.compile(r"\s*")
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
    """Read a file of a cloud's command line: its document, or a list of its documents. Errors: UsageError."""
    try:
        text = read_text(path, "; JSON is expected", "utf-8-sig")
    except UnreadableTextError as error:
        raise UsageError(f"{path}: {error}") from None
    try:
        return json_document(text)
    except ValueError as error:
        raise UsageError(f"{path}: this is not JSON: {error}; write it with --output json or --format json") from None


def json_document(text: str) -> Any:
    """Return the JSON document of a text, or a list of its documents. Raises ValueError."""
    found = list(_documents(text))
    return (
        found[0] if len(found) == 1 else [part for one in found for part in (one if isinstance(one, list) else [one])]
    )


def _documents(text: str) -> Iterator[Any]:
    """Yield the JSON documents in a text with white space between them; at least one is expected. Raises ValueError."""
    decoder, at = json.JSONDecoder(), 0
    while at == 0 or at < len(text):
        document, end = decoder.raw_decode(text, _after_space(text, at))
        yield document
        at = _after_space(text, end)


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found is not None else at


def note_missing_pages(documents: Iterable[Any], keys: Mapping[str, str]) -> None:
    """Write a note if a list has a following page and none of the given pages is its last. keys : by key of the items
    of a page, that of the reference to the next page.
    """
    pages = [part for one in documents for part in (one if isinstance(one, list) else [one]) if isinstance(part, dict)]
    for items, following in keys.items():
        of_list = [page for page in pages if isinstance(page.get(items), list)]
        if of_list and all(page.get(following) for page in of_list):
            note(f"the list goes on after the given pages ({following} is set in each); give the others, too")


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
    every = _in_one_currency([one for one in found if is_price(one.price) and one.price > 0])
    regions = sorted({one.region for one in every if one.region})
    if region and region not in regions:
        raise UsageError(f"--region {region}: the lists have {', '.join(regions) or 'no region'}")
    if not region and len(regions) > 1:
        raise UsageError(f"the lists have {len(regions)} regions ({', '.join(regions[:5])}, …); choose one: --region")
    chosen = {(one.type, one.zone, one.lifecycle): one for one in every if not region or one.region in ("", region)}
    if not chosen:
        raise UsageError("the lists have no hourly price of a Linux machine; see docs/prices.md for what to export")
    return [chosen[key] for key in sorted(chosen)]


def _in_one_currency(found: list[ListedPrice]) -> list[ListedPrice]:
    """Return the prices in the currency of most of them; write a note about the others."""
    counts = Counter(one.currency for one in found)
    if len(counts) < 2:
        return found
    currency = min(counts, key=lambda name: (-counts[name], name))
    others = [one for one in found if one.currency != currency]
    names = ", ".join(sorted({one.currency or "no currency" for one in others}))
    note(
        f"{counted(len(others), 'price')} in {names} left out, such as that of {others[0].type}: the others are in "
        f"{currency or 'none'}"
    )
    return [one for one in found if one.currency == currency]
