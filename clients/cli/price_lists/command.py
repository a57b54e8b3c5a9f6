"""`trimtab admin import-prices CLOUD FILE…`: a price file on stdout, from files that the cloud's own tools write."""

import csv
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from trimtab.clients.cli.amounts import counted
from trimtab.clients.cli.command_options import PricedCloud
from trimtab.clients.cli.failures import UsageError
from trimtab.clients.cli.output import note
from trimtab.clients.cli.price_lists.aws import aws_prices
from trimtab.clients.cli.price_lists.azure import azure_prices
from trimtab.clients.cli.price_lists.gcp import gcp_prices
from trimtab.clients.cli.price_lists.rows import HEADER, ListedPrice, note_missing_pages, of_region, read_json

_IMPORTERS: Final[Mapping[PricedCloud, Callable[[Iterable[Any]], Iterator[ListedPrice]]]] = {
    PricedCloud.AWS: aws_prices,
    PricedCloud.GCP: gcp_prices,
    PricedCloud.AZURE: azure_prices,
}


_NEXT_PAGE: Final[Mapping[PricedCloud, Mapping[str, str]]] = {
    PricedCloud.AWS: {"PriceList": "NextToken", "SpotPriceHistory": "NextToken"},
    PricedCloud.GCP: {"skus": "nextPageToken", "items": "nextPageToken"},
    PricedCloud.AZURE: {"Items": "NextPageLink"},
}
"""By key of a page's items, that of the next page's reference."""


def import_prices(cloud: PricedCloud, files: Sequence[Path], region: str = "") -> None:
    """Print the prices of a cloud's list as a price file. Errors: UsageError."""
    documents = [read_json(path) for path in files]
    note_missing_pages(documents, _NEXT_PAGE[cloud])
    try:
        found = list(_IMPORTERS[cloud](documents))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        names = ", ".join(str(path) for path in files)
        raise UsageError(f"{names}: this is no price list of {cloud.value} ({error}); see docs/prices.md") from None
    rows = of_region(found, region)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(HEADER)
    for row in rows:
        writer.writerow((row.type, row.zone, row.lifecycle, f"{row.price:g}", row.currency))
    note(f"{counted(len(rows), 'price')} of {counted(len({row.type for row in rows}), 'instance type')}")
