"""Price files: the hourly price of a node by instance type, assigned to node groups by the labels of their nodes. CSV
with the columns `type`, `price` and optionally `zone` and `lifecycle`, named in the first line; or YAML, a list of
mappings with these keys:

    type,zone,lifecycle,price
    m5.large,,,0.096
    m5.large,eu-west-1a,spot,0.031

An empty `zone` is every zone without a separate line; `lifecycle` is `on-demand` (also if empty) or `spot`, whose price
differs, so a line applies to one of them only. A price from the file replaces the group's own. Decides only which line
applies to a group. Errors name file and line.
"""

import csv
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from trimtab.clients.cli.amounts import counted
from trimtab.clients.cli.failures import UsageError
from trimtab.clients.cli.label_groups import INSTANCE_TYPE, ZONE, label_value
from trimtab.clients.cli.output import note
from trimtab.clients.cluster_view import ClusterView
from trimtab.clients.documents.bounded_input import UnreadableTextError, read_text
from trimtab.clients.documents.loading import DocumentError, compose_document, line_of
from trimtab.prices import is_price
from trimtab.v1 import snapshot_pb2 as pb

COLUMNS: Final = ("type", "price", "zone", "lifecycle")
ON_DEMAND, SPOT = "on-demand", "spot"
MOST_NOTED: Final = 5
_SPOT_LABELS: Final = {
    ("karpenter.sh/capacity-type", "spot"),
    ("eks.amazonaws.com/capacityType", "SPOT"),
    ("cloud.google.com/gke-spot", "true"),
    ("cloud.google.com/gke-preemptible", "true"),
    ("kubernetes.azure.com/scalesetpriority", "spot"),
}
"""Labels by which Karpenter, EKS, GKE and AKS mark nodes that may be interrupted."""


class PricedMachine(NamedTuple):
    """The properties that a price depends on. zone "" = any."""

    type: str
    zone: str
    lifecycle: str

    def __str__(self) -> str:
        return " ".join(part for part in (self.type, self.zone, self.lifecycle) if part)


Prices = Mapping[PricedMachine, float]


def read_prices(path: Path) -> Prices:
    """Read a price file, YAML by its name (".yaml", ".yml", ".json"), else CSV. Errors: UsageError."""
    try:
        text = read_text(path, "; CSV or YAML is expected", "utf-8-sig")
    except UnreadableTextError as error:
        raise UsageError(f"{path}: {error}") from None
    is_yaml = path.suffix in (".yaml", ".yml", ".json")
    prices: dict[PricedMachine, float] = {}
    lines: dict[PricedMachine, int] = {}
    for line, row in _yaml_rows(path, text) if is_yaml else _csv_rows(path, text):
        try:
            machine, price = _read(row)
            if machine in prices:
                raise ValueError(f"{machine} already has a price, in line {lines[machine]}")
        except ValueError as error:
            raise UsageError(f"{path}: line {line}: {error}") from None
        prices[machine], lines[machine] = price, line
    if not prices:
        raise UsageError(f"{path}: line 1: there is no price; give lines with {', '.join(COLUMNS)}")
    return prices


def apply_prices(snapshot: pb.ClusterSnapshot, prices: Prices) -> None:
    """Set the prices of node groups, in place, and write a note about those without a price. O(nodes)."""
    view = ClusterView(snapshot)
    members: dict[str, set[PricedMachine]] = {}
    for node in snapshot.nodes:
        members.setdefault(node.node_group, set()).add(machine_of(view.labels(node.label_set)))
    without: dict[str, set[PricedMachine]] = {}
    for group in snapshot.node_groups:
        template = view.labels(group.template.label_set) if group.HasField("template") else None
        machines = machines_of(template, members.get(group.id, set()))
        price = one_price(machines, prices)
        if price is None:
            without[group.id] = machines
        else:
            group.price_per_hour = price
    note_without(without)


def machines_of(template: Mapping[str, str] | None, members: set[PricedMachine]) -> set[PricedMachine]:
    """Return the machines of a group: from the labels of its template, else from its nodes."""
    own = machine_of(template) if template is not None else None
    return {own} if own is not None and own.type else members


def one_price(machines: Iterable[PricedMachine], prices: Prices) -> float | None:
    """Return the common price of machines; None = there is none, or it is not the same for all."""
    found = {price_of(machine, prices) for machine in machines}
    return found.pop() if len(found) == 1 else None


def note_without(groups: Mapping[str, set[PricedMachine]]) -> None:
    """Write a note about node groups that get no price, with their machines."""
    if not groups:
        return
    undetermined = [
        f"{name} ({' or '.join(sorted(map(str, machines))) or 'nothing is known of its nodes'})"
        for name, machines in groups.items()
    ]
    more = f" and {len(undetermined) - MOST_NOTED} more" if len(undetermined) > MOST_NOTED else ""
    note(
        f"the price file does not determine the price for {counted(len(undetermined), 'node group')}: "
        f"{', '.join(undetermined[:MOST_NOTED])}{more}"
    )


def price_of(machine: PricedMachine, prices: Prices) -> float | None:
    """Return the price of a machine: for its zone, else for every zone; None = there is none."""
    return prices.get(machine, prices.get(machine._replace(zone="")))


def machine_of(labels: Mapping[str, str]) -> PricedMachine:
    """Return the machine according to a node's labels; type "" = they do not contain it."""
    lifecycle = SPOT if any(labels.get(key) == value for key, value in _SPOT_LABELS) else ON_DEMAND
    return PricedMachine(label_value(labels, INSTANCE_TYPE), label_value(labels, ZONE), lifecycle)


def _read(row: Mapping[str, str]) -> tuple[PricedMachine, float]:
    """Read one line. Raises ValueError."""
    if not row.get("type"):
        raise ValueError("type is missing; give the instance type, such as m5.large")
    lifecycle = row.get("lifecycle") or ON_DEMAND
    if lifecycle not in (ON_DEMAND, SPOT):
        raise ValueError(f"lifecycle {lifecycle!r} is neither {ON_DEMAND} nor {SPOT}")
    text = row.get("price") or ""
    try:
        price = float(text)
    except ValueError:
        price = math.nan
    if not is_price(price):
        raise ValueError(f"price {text!r} is not a price per hour, such as 0.096")
    return PricedMachine(row["type"], row.get("zone") or "", lifecycle), price


def _csv_rows(path: Path, text: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield lines with their numbers."""
    reader = csv.DictReader(text.splitlines(), restkey="", strict=True)
    try:
        _check_columns(path, list(reader.fieldnames or ()))
        for row in reader:
            if "" in row or None in row.values():
                extent = "more" if "" in row else "fewer"
                raise UsageError(f"{path}: line {reader.line_num}: it has {extent} values than the first line columns")
            yield reader.line_num, {key: value.strip() for key, value in row.items()}
    except csv.Error as error:
        raise UsageError(f"{path}: line {reader.line_num}: this is not CSV: {error}") from None


def _check_columns(path: Path, columns: list[str]) -> None:
    unknown = [name for name in columns if name not in COLUMNS]
    missing = [name for name in COLUMNS[:2] if name not in columns]
    twice = [name for name in columns if columns.count(name) > 1]
    if unknown or missing or twice:
        problem = f"{unknown[0]!r} is unknown" if unknown else f"{(missing or twice)[0]!r} is missing or given twice"
        raise UsageError(f"{path}: line 1: column {problem}; there are {', '.join(COLUMNS)}")


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
