"""Price files: the hourly price of a node by instance type, node group or label. CSV with the columns `price` and one
of `type`, `group` and `label` in each line, and optionally `zone`, `lifecycle` and `currency`, named in the first line;
or YAML, a list of mappings with these keys:

    type,zone,lifecycle,group,label,price
    m5.large,,,,,0.096
    m5.large,eu-west-1a,spot,,,0.031
    ,,,workers-a,,0.40
    ,,,,node-role.kubernetes.io/control-plane=,0.192

An empty `zone` is every zone without a separate line; `lifecycle` is `on-demand` (also if empty) or `spot`, whose price
differs, so a line applies to one of them only. `label` is KEY=VALUE. Lines in another currency than that of most lines
are left out with a note. Errors name file and line.
"""

import csv
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from trimtab.clients.cli.amounts import counted
from trimtab.clients.cli.failures import UsageError
from trimtab.clients.cli.output import note
from trimtab.clients.cli.prices import ON_DEMAND, SPOT, PricedMachine, Prices, Rates, read_rates
from trimtab.common.documents.bounded_input import UnreadableTextError, read_text
from trimtab.common.documents.loading import DocumentError, compose_document, line_of
from trimtab.prices import is_price

SUBJECTS: Final = ("type", "group", "label")
COLUMNS: Final = ("type", "price", "zone", "lifecycle", "group", "label", "currency")


class _PriceLine(NamedTuple):
    """A line of a file: one of machine, group and label has a content."""

    machine: PricedMachine | None
    group: str
    label: str
    price: float
    currency: str

    @property
    def subject(self) -> tuple[PricedMachine | None, str, str]:
        """What the price is of."""
        return self[:3]

    def __str__(self) -> str:
        return str(self.machine or (f"group {self.group}" if self.group else f"label {self.label}"))


def given_prices(texts: Iterable[str | Path] | None) -> Prices | None:
    """Return the prices of `--prices`: of a file, of resources, or of both; None = not given. Errors: UsageError."""
    files = [Path(one) for one in texts or () if "=" not in str(one) or Path(one).exists()]
    rates = [str(one) for one in texts or () if Path(one) not in files]
    for what in (files, rates):
        if len(what) > 1:
            raise UsageError(f"--prices {what[1]}: give one file, and prices of resources once: cpu=0.03,memory=0.004")
    of_resources = read_rates(rates[0]) if rates else None
    if files:
        return read_prices(files[0], of_resources)
    return Prices(rates=of_resources) if of_resources is not None else None


def read_prices(path: Path, rates: Rates | None = None) -> Prices:
    """Read a price file, YAML by its name (".yaml", ".yml", ".json"), else CSV. rates : for nodes that it does not
    know. Errors: UsageError.
    """
    try:
        text = read_text(path, "; CSV or YAML is expected", "utf-8-sig")
    except UnreadableTextError as error:
        raise UsageError(f"{path}: {error}") from None
    is_yaml = path.suffix in (".yaml", ".yml", ".json")
    found: list[_PriceLine] = []
    numbers: dict[Any, int] = {}
    for number, row in _yaml_rows(path, text) if is_yaml else csv_rows(path, text, _column_problem):
        try:
            line = _read(row)
            if line.subject in numbers:
                raise ValueError(f"{line} already has a price, in line {numbers[line.subject]}")
        except ValueError as error:
            raise UsageError(f"{path}: line {number}: {error}") from None
        numbers[line.subject] = number
        found.append(line)
    if not found:
        raise UsageError(f"{path}: line 1: there is no price; give lines with {', '.join(COLUMNS)}")
    kept, currency = _in_one_currency(path, found)
    return Prices(
        {line.machine: line.price for line in kept if line.machine is not None},
        {line.group: line.price for line in kept if line.group},
        {line.label: line.price for line in kept if line.label},
        rates,
        currency,
        path.name,
    )


def _in_one_currency(path: Path, lines: list[_PriceLine]) -> tuple[list[_PriceLine], str]:
    """Return the lines in the currency of most lines, and that currency; write a note about the others. A line without
    a currency is in every one.
    """
    counts = Counter(line.currency for line in lines if line.currency)
    if not counts:
        return lines, ""
    currency = min(counts, key=lambda name: (-counts[name], name))
    others = [line for line in lines if line.currency not in ("", currency)]
    if others:
        names = ", ".join(sorted({line.currency for line in others}))
        note(
            f"{path}: {counted(len(others), 'price')} in {names} left out, such as that of {others[0]}: the others "
            f"are in {currency}"
        )
    return [line for line in lines if line.currency in ("", currency)], currency


def _read(row: Mapping[str, str]) -> _PriceLine:
    """Read one line. Raises ValueError."""
    named = [name for name in SUBJECTS if row.get(name)]
    if not named:
        raise ValueError("type is missing; give the instance type, such as m5.large, or a group or a label")
    if named[1:]:
        raise ValueError(f"{' and '.join(named)} are given; a price is of one of them")
    lifecycle = row.get("lifecycle") or ON_DEMAND
    if lifecycle not in (ON_DEMAND, SPOT):
        raise ValueError(f"lifecycle {lifecycle!r} is neither {ON_DEMAND} nor {SPOT}")
    if named != ["type"] and (row.get("zone") or row.get("lifecycle")):
        raise ValueError(f"zone and lifecycle belong to a type, not to a {named[0]}")
    label = row.get("label") or ""
    if label and "=" not in label:
        raise ValueError(f"label {label!r} is not KEY=VALUE")
    text = row.get("price") or ""
    try:
        price = float(text)
    except ValueError:
        price = math.nan
    if not is_price(price):
        raise ValueError(f"price {text!r} is not a price per hour, such as 0.096")
    machine = PricedMachine(row["type"], row.get("zone") or "", lifecycle) if row.get("type") else None
    return _PriceLine(machine, row.get("group") or "", label, price, (row.get("currency") or "").upper())


def _column_problem(columns: list[str]) -> str:
    unknown = [name for name in columns if name not in COLUMNS]
    missing = [name for name in ("price",) if name not in columns]
    if not any(name in columns for name in SUBJECTS):
        missing.insert(0, "type")
    if not unknown and not missing:
        return ""
    problem = f"{unknown[0]!r} is unknown" if unknown else f"{missing[0]!r} is missing"
    return f"column {problem}; there are {', '.join(COLUMNS)}"


def _yaml_rows(path: Path, text: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the mappings of a list with the lines in which they begin."""
    try:
        root: Any = compose_document(text)
    except DocumentError as error:
        raise UsageError(f"{path}: {error}") from None
    if not isinstance(root, yaml.SequenceNode):
        raise UsageError(f"{path}: line 1: a list of mappings is expected, with {', '.join(COLUMNS)}")
    for index, item in enumerate(root.value):
        line = line_of(root, [index])
        pairs = item.value if isinstance(item, yaml.MappingNode) else []
        row = {key.value: value.value for key, value in pairs if isinstance(value, yaml.ScalarNode)}
        unknown = [key for key in row if key not in COLUMNS]
        if unknown or len(row) < len(pairs) or not pairs:
            problem = f"{unknown[0]!r} is unknown" if unknown else "each entry is a mapping of names to plain values"
            raise UsageError(f"{path}: line {line}: {problem}; there are {', '.join(COLUMNS)}")
        yield line, row


def csv_rows(
    path: Path, text: str, column_problem: Callable[[list[str]], str], *, may_be_short: bool = False
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield lines with their numbers, values without blanks around them. column_problem : returns what is wrong with
    the names of the columns, "" = nothing; may_be_short : a line may lack its last values, which are then "".

    Errors: UsageError.
    """
    reader = csv.DictReader(text.splitlines(), restkey="", strict=True)
    try:
        columns = list(reader.fieldnames or ())
        problem = column_problem(columns) or _repeated(columns)
        if problem:
            raise UsageError(f"{path}: line 1: {problem}")
        for row in reader:
            is_short = None in row.values() and not may_be_short
            if "" in row or is_short:
                extent = "more" if "" in row else "fewer"
                raise UsageError(f"{path}: line {reader.line_num}: it has {extent} values than the first line columns")
            yield reader.line_num, {key: (value or "").strip() for key, value in row.items()}
    except csv.Error as error:
        raise UsageError(f"{path}: line {reader.reader.line_num}: this is not CSV: {error}") from None


def _repeated(columns: list[str]) -> str:
    found = [name for name in columns if columns.count(name) > 1]
    return f"column {found[0]!r} is given twice" if found else ""
