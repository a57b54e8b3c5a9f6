"""Files of offerings (`--offers`): a line for each instance type, zone and capacity type. CSV with the columns
`instance_type`, `cpu`, `memory_gib` and optionally `pods`, `gpus`, `arch`, `zone`, `capacity_type`, `price`,
`currency`, `allocatable_cpu`, `allocatable_memory_gib` and `labels` (KEY=VALUE, separated by ";"), named in the first
line; or JSON or YAML, a list of mappings with these keys; or what `aws pricing get-products --service-code AmazonEC2`
writes, also several pages one after the other:

    instance_type,cpu,memory_gib,pods,zone,capacity_type,price
    m5.large,2,8,29,eu-west-1a,on-demand,0.107
    m5.large,2,8,29,eu-west-1a,spot,0.041

A column whose name has a "/" is a label. An empty `zone` is every zone of the cluster; `capacity_type` is on-demand,
also if empty, spot or reserved. Without allocatable amounts, those are what Karpenter's AWS provider leaves of a
machine. A line that cannot be used is left out with a note that names file, line and column; so are prices in another
currency than that of most lines. Errors name the file.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from trimtab.clients.cli.amounts import counted
from trimtab.clients.cli.failures import UsageError
from trimtab.clients.cli.output import note
from trimtab.clients.cli.price_files import csv_rows
from trimtab.clients.cli.prices import PricedMachine, Prices
from trimtab.common.documents.bounded_input import UnreadableTextError, read_text
from trimtab.common.documents.loading import DocumentError, load_document
from trimtab.common.objects.karpenter.offers import (
    ARCH,
    CAPACITY_TYPES,
    ON_DEMAND,
    MachineOffer,
    OfferKey,
    labels_of,
    usual_allocatable,
)
from trimtab.prices import is_price

COLUMNS: Final = (
    "instance_type", "cpu", "memory_gib", "pods", "gpus", "arch", "zone", "capacity_type", "price", "currency",
    "allocatable_cpu", "allocatable_memory_gib", "labels",
)  # fmt: skip
USUAL_PODS: Final = 110
_MOST_NOTED: Final = 3
_MIB: Final = 1024
_AWS_ARCHS: Final = {"64-bit": "amd64", "32-bit or 64-bit": "amd64", "arm64": "arm64"}


class OfferFile(NamedTuple):
    """The offerings of a file. currency : of their prices, "" = not told."""

    offers: list[MachineOffer]
    currency: str
    name: str

    def prices(self, prices: Prices | None = None) -> Prices:
        """Return the prices of the offerings, those given first."""
        known = prices if prices is not None else Prices()
        listed = {PricedMachine(*offer.key): offer.price for offer in self.offers if offer.price is not None}
        return Prices({**listed, **known.machines}, known.groups, known.labels, known.rates, self.currency, self.name)


def given_offers(path: Path | None) -> list[MachineOffer] | None:
    """Return the offerings of `--offers`, None if it is not given. Errors: as of `read_offers`."""
    return read_offers(path).offers if path is not None else None


def read_offers(path: Path) -> OfferFile:
    """Read a file of offerings. Errors: UsageError, also if no line can be used."""
    try:
        text = read_text(path, "; CSV, JSON or YAML is expected", "utf-8-sig")
    except UnreadableTextError as error:
        raise UsageError(f"{path}: {error}") from None
    found: dict[OfferKey, MachineOffer] = {}
    currencies: dict[OfferKey, str] = {}
    problems: list[str] = []
    for place, row in _rows(path, text):
        try:
            offer = _offer(row)
            if offer.key in found:
                raise ValueError(f"{offer.key} is given twice; the first line counts")
        except ValueError as error:
            problems.append(f"{path}: {place}: {error}")
            continue
        found[offer.key] = offer
        currencies[offer.key] = str(row.get("currency") or "").upper()
    for problem in problems[:_MOST_NOTED]:
        note(f"{problem}; the line is left out")
    if len(problems) > _MOST_NOTED:
        note(f"{path}: {counted(len(problems) - _MOST_NOTED, 'more line')} left out")
    if not found:
        raise UsageError(f"{path}: there is no offering; give lines with {', '.join(COLUMNS)}")
    return _in_one_currency(path, found, currencies)


def _in_one_currency(path: Path, found: dict[OfferKey, MachineOffer], currencies: Mapping[OfferKey, str]) -> OfferFile:
    """Return the offerings with prices in the currency of most of them; note the others, and those without a price."""
    counts = Counter(currencies[key] for key, one in found.items() if one.price is not None and currencies[key])
    currency = min(counts, key=lambda name: (-counts[name], name)) if counts else ""
    others = [key for key, one in found.items() if one.price is not None and currencies[key] not in ("", currency)]
    if others:
        names = ", ".join(sorted({currencies[key] for key in others}))
        note(
            f"{path}: {counted(len(others), 'offering')} with a price in {names} left out, such as {others[0]}: the "
            f"others are in {currency}"
        )
    left = set(others)
    offers = [found[key] for key in sorted(found) if key not in left]
    without = [one.key for one in offers if one.price is None]
    if without and len(without) < len(offers):
        note(f"{path}: {counted(len(without), 'offering')} without a price, such as {without[0]}")
    return OfferFile(offers, currency, path.name)


def _rows(path: Path, text: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the lines of a file with their places."""
    if path.suffix not in (".json", ".yaml", ".yml") and not text.lstrip().startswith(("{", "[")):
        for number, line in csv_rows(path, text, _column_problem, may_be_short=True):
            yield f"line {number}", line
        return
    from trimtab.clients.cli.price_lists.rows import json_document, note_missing_pages

    try:
        document = json_document(text) if text.lstrip()[:1] in ("{", "[") else load_document(text)
    except (ValueError, DocumentError) as error:
        raise UsageError(f"{path}: this is neither JSON nor YAML: {error}") from None
    parts = document if isinstance(document, list) else [document]
    if any(isinstance(part, dict) and ("PriceList" in part or "products" in part) for part in parts):
        note_missing_pages(parts, {"PriceList": "NextToken"})
        yield from _aws_rows(document)
        return
    if not isinstance(document, list):
        raise UsageError(f"{path}: a list of mappings is expected, with {', '.join(COLUMNS)}")
    for number, row in enumerate(document):
        if not isinstance(row, dict):
            raise UsageError(f"{path}: entry {number}: a mapping is expected, with {', '.join(COLUMNS)}")
        problem = _column_problem([str(name) for name in row])
        if problem:
            raise UsageError(f"{path}: entry {number}: {problem}")
        yield f"entry {number}", row


def _column_problem(names: list[str]) -> str:
    unknown = [name for name in names if name not in COLUMNS and "/" not in name]
    missing = [name for name in ("instance_type", "cpu", "memory_gib") if name not in names]
    if not unknown and not missing:
        return ""
    problem = f"{unknown[0]!r} is unknown" if unknown else f"{missing[0]!r} is missing"
    return f"column {problem}; there are {', '.join(COLUMNS)}"


def _offer(row: Mapping[str, Any]) -> MachineOffer:
    """Read one line. Raises ValueError that names the column."""
    instance_type = str(row.get("instance_type") or "").strip()
    if not instance_type:
        raise ValueError("instance_type is missing")
    capacity_type = str(row.get("capacity_type") or ON_DEMAND).strip()
    if capacity_type not in CAPACITY_TYPES:
        raise ValueError(f"capacity_type {capacity_type!r} is none of {', '.join(CAPACITY_TYPES)}")
    key = OfferKey(instance_type, str(row.get("zone") or "").strip(), capacity_type)
    cpu_milli = round(_number(row, "cpu", None) * 1000)
    memory_mib = round(_number(row, "memory_gib", None) * _MIB)
    pods = round(_number(row, "pods", USUAL_PODS))
    usual_cpu, usual_memory = usual_allocatable(cpu_milli, memory_mib, pods)
    free_cpu = round(_number(row, "allocatable_cpu", usual_cpu / 1000) * 1000)
    free_memory = round(_number(row, "allocatable_memory_gib", usual_memory / _MIB) * _MIB)
    gpus = round(_number(row, "gpus", 0))
    more = {"pods": str(pods)} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    price = _number(row, "price", math.nan)
    if not math.isnan(price) and not is_price(price):
        raise ValueError(f"price {row['price']!r} is not a price per hour, such as 0.096")
    return MachineOffer(
        key,
        {"cpu": f"{cpu_milli}m", "memory": f"{memory_mib}Mi", **more},
        {"cpu": f"{free_cpu}m", "memory": f"{free_memory}Mi", **more},
        labels_of(key, _labels(row), cpu_milli, memory_mib),
        None if math.isnan(price) else price,
    )


def _number(row: Mapping[str, Any], column: str, default: float | None) -> float:
    value = row.get(column)
    if value is None or value == "":
        if default is None:
            raise ValueError(f"{column} is missing")
        return default
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number) or number < 0 or number > 1e12:
        raise ValueError(f"{column} {value!r} is not a number of at least 0")
    return number


def _labels(row: Mapping[str, Any]) -> dict[str, str]:
    found = {str(key): str(value) for key, value in row.items() if "/" in str(key) and value not in (None, "")}
    given = row.get("labels") or {}
    pairs = given.items() if isinstance(given, Mapping) else (part.partition("=")[::2] for part in _parts(given))
    for key, value in pairs:
        if not key or ("=" not in str(given) and not isinstance(given, Mapping)):
            raise ValueError(f"labels {given!r} are not KEY=VALUE, separated by ;")
        found[str(key).strip()] = str(value).strip()
    arch = str(row.get("arch") or "").strip()
    return found | ({ARCH: arch} if arch else {})


def _parts(text: Any) -> list[str]:
    return [part.strip() for part in re.split(r"[;\n]", str(text)) if part.strip()]


def _aws_rows(document: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the offerings of a price list of AWS: Linux on shared machines, on demand."""
    from trimtab.clients.cli.price_lists.aws import on_demand_prices, products_of

    for number, product in enumerate(products_of(document)):
        attributes = product.get("product", {}).get("attributes", {})
        memory = str(attributes.get("memory", "")).removesuffix(" GiB").replace(",", "")
        is_usual = attributes.get("capacitystatus", "Used") == "Used"
        for price in on_demand_prices(product) if is_usual else ():
            yield (
                f"product {number}",
                {
                    "instance_type": price.type,
                    "cpu": attributes.get("vcpu"),
                    "memory_gib": memory,
                    "gpus": attributes.get("gpu") or 0,
                    "arch": _AWS_ARCHS.get(str(attributes.get("processorArchitecture", "")), ""),
                    "price": price.price,
                    "currency": price.currency,
                },
            )
