"""Prices of nodes for an hour: of instance types, node groups and labels from a file (`price_files`), by rates
(`rates`), or those of the cluster. Decides which one applies, for all commands, once, when a snapshot is complete: the
line of a node group wins over that of a label, this over that of an instance type, this over the node's own price, this
over that of its node group, and rates apply where nothing else does. The price of a group's new nodes: the same without
the node's own, where all its machines have the same price. A node without node group, such as one of the control plane,
costs money as well.

Rates (`--prices cpu=0.03,memory=0.004`) are what a core and a GiB of memory cost for an hour, for nodes whose price is
not known otherwise: the sum over what a node offers to pods (allocatable). The default rates apply only if nothing at
all is known of prices, only to what is shown, and every output that uses them says so.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from trimtab.clients.cli.amounts import counted
from trimtab.clients.cli.failures import UsageError
from trimtab.clients.cli.label_groups import INSTANCE_TYPE, ZONE, label_value
from trimtab.clients.cli.output import note
from trimtab.clients.cluster_view import ClusterView
from trimtab.common.kubernetes.signals.table import SPOT_LABELS
from trimtab.prices import is_price
from trimtab.v1 import snapshot_pb2 as pb

_GIB = 1 << 30
_UNITS: Final = {"cpu": 1000, "memory": _GIB, "ephemeral-storage": _GIB}
"""What a rate is for: 1,000 milli-cores, a GiB; of any other resource, one."""
_NAMES: Final = {"cpu": "a core", "memory": "a GiB of memory", "ephemeral-storage": "a GiB of ephemeral storage"}


@dataclass(frozen=True)
class Rates:
    """Prices per hour by resource: of a core, of a GiB, of one of any other resource."""

    per_hour: Mapping[str, float]

    def price(self, allocatable: Mapping[str, int]) -> float:
        """Return the price of a node by what it offers, rounded to millionths."""
        parts = (
            rate * allocatable.get(resource, 0) / _UNITS.get(resource, 1) for resource, rate in self.per_hour.items()
        )
        return round(sum(parts), 6)

    def __str__(self) -> str:
        """Return the rates in words: "0.03 a core and 0.004 a GiB of memory an hour"."""
        return f"{' and '.join(self._parts())} an hour"

    def _parts(self) -> Iterator[str]:
        for resource, rate in self.per_hour.items():
            yield f"{rate:g} {_NAMES.get(resource, f'one {resource}')}"


def read_rates(text: str) -> Rates:
    """Read prices of resources. A rate that is no price is named and left out. Errors: UsageError, also if none
    is left.
    """
    rates: dict[str, float] = {}
    for part in text.split(","):
        resource, equals, number = (one.strip() for one in part.partition("="))
        if not equals or not resource:
            raise UsageError(f"--prices {text}: {part.strip()!r} is not RESOURCE=PRICE, such as cpu=0.03,memory=0.004")
        if resource in rates:
            raise UsageError(f"--prices {text}: {resource} is given twice")
        try:
            rates[resource] = float(number)
        except ValueError:
            raise UsageError(f"--prices {text}: {number!r} is no number; write cpu=0.03,memory=0.004") from None
    for resource, rate in list(rates.items()):
        if not is_price(rate):
            note(f"--prices: {resource}={rate:g} is not a price per hour; it is left out")
            del rates[resource]
    if not rates:
        raise UsageError(f"--prices {text}: no rate is left; write cpu=0.03,memory=0.004")
    return Rates(rates)


ON_DEMAND, SPOT = "on-demand", "spot"
MOST_NOTED: Final = 5


class PricedMachine(NamedTuple):
    """The properties that a price depends on. type : instance type; zone : "" = any; lifecycle : on demand or spot;
    label : the "key=value" that has a price, "" = none."""

    type: str
    zone: str
    lifecycle: str
    label: str = ""

    def __str__(self) -> str:
        return " ".join(part for part in (self.type, self.zone, self.lifecycle) if part)


@dataclass(frozen=True)
class Prices:
    """Prices that are given, per node and hour.

    machines : by instance type; groups : by name of the node group; labels : by "key=value"; rates : for nodes without
    any other price; currency : "" = not told; file : where they are from, "" = rates alone
    """

    machines: Mapping[PricedMachine, float] = field(default_factory=dict)
    groups: Mapping[str, float] = field(default_factory=dict)
    labels: Mapping[str, float] = field(default_factory=dict)
    rates: Rates | None = None
    currency: str = ""
    file: str = ""


class PriceSource(StrEnum):
    """Where the price of a node is from."""

    GROUP_LINE = "group in the file"
    LABEL_LINE = "label in the file"
    TYPE_LINE = "instance type in the file"
    NODE = "the node itself"
    NODE_GROUP = "NodeGroup"
    RATES = "rates"


class NodePrice(NamedTuple):
    """The price of a node for an hour, and where it is from."""

    per_hour: float
    source: PriceSource


def node_prices(view: ClusterView, prices: Prices) -> dict[str, NodePrice]:
    """Return the price of each node that has one. The prices of a cluster that they have been applied to stay the same,
    and so do their sources. O(nodes)."""
    by_rates = group_rates(view, prices.rates) if prices.rates is not None else {}
    of_label_set = _line_prices(view, prices)
    found = {}
    for name, node in view.nodes.items():
        price = _node_price(view, node, prices, of_label_set.get(node.label_set), by_rates)
        if price is not None:
            found[name] = price
    return found


def _node_price(
    view: ClusterView, node: pb.Node, prices: Prices, of_line: NodePrice | None, by_rates: Mapping[str, float]
) -> NodePrice | None:
    if node.node_group and node.node_group in prices.groups:
        return NodePrice(prices.groups[node.node_group], PriceSource.GROUP_LINE)
    if of_line is not None:
        return of_line
    rated = prices.rates.price(view.allocatable(node.name)) if prices.rates is not None else None
    price, is_own = view.price(node.name), node.HasField("price_per_hour")
    if price is None or price == (rated if is_own else by_rates.get(node.node_group)):
        price = rated if price is None else price
        return NodePrice(price, PriceSource.RATES) if price is not None else None
    return NodePrice(price, PriceSource.NODE if is_own else PriceSource.NODE_GROUP)


def _line_prices(view: ClusterView, prices: Prices) -> dict[int, NodePrice]:
    """Return the prices of the label sets of nodes, where the file has one. O(label sets of nodes)."""
    found = {}
    if prices.machines or prices.labels:
        for label_set in {node.label_set for node in view.nodes.values()}:
            machine = machine_of(view.labels(label_set), prices)
            price = price_of(machine, prices)
            if price is not None:
                found[label_set] = NodePrice(price, PriceSource.LABEL_LINE if machine.label else PriceSource.TYPE_LINE)
    return found


def apply_prices(snapshot: pb.ClusterSnapshot, prices: Prices) -> None:
    """Set the prices of node groups and nodes, in place, and write a note about groups without a price. A node gets one
    of its own only if that of its group is another. O(nodes)."""
    view = ClusterView(snapshot)
    members: dict[str, set[PricedMachine]] = {}
    for node in snapshot.nodes:
        members.setdefault(node.node_group, set()).add(machine_of(view.labels(node.label_set), prices))
    by_rates = group_rates(view, prices.rates) if prices.rates is not None else {}
    without: dict[str, set[PricedMachine]] = {}
    for group in snapshot.node_groups:
        template = view.labels(group.template.label_set) if group.HasField("template") else None
        machines = machines_of(template, members.get(group.id, set()), prices)
        price = one_price(group.id, machines, prices)
        if price is None and not group.HasField("price_per_hour"):
            price = by_rates.get(group.id)
        if price is not None:
            group.price_per_hour = price
        elif prices.file:
            without[group.id] = machines
    for name, node_price in node_prices(view, prices).items():
        view.nodes[name].ClearField("price_per_hour")
        if view.price(name) != node_price.per_hour:
            view.nodes[name].price_per_hour = node_price.per_hour
    note_without(without)


def group_rates(view: ClusterView, rates: Rates) -> dict[str, float]:
    """Return the prices of node groups by rates: of the template's resources, else the mean of the group's nodes.
    O(nodes).
    """
    members: dict[str, list[float]] = {}
    for name, node in view.nodes.items():
        members.setdefault(node.node_group, []).append(rates.price(view.allocatable(name)))
    found = {}
    for group in view.snapshot.node_groups:
        if group.HasField("template") and any(group.template.allocatable):
            found[group.id] = rates.price(dict(zip(view.snapshot.resources, group.template.allocatable, strict=False)))
        elif of_nodes := members.get(group.id):
            found[group.id] = round(sum(of_nodes) / len(of_nodes), 6)
    return found


def machines_of(
    template: Mapping[str, str] | None, members: set[PricedMachine], prices: Prices | None = None
) -> set[PricedMachine]:
    """Return the machines of a group: from the labels of its template, else from its nodes."""
    own = machine_of(template, prices) if template is not None else None
    return {own} if own is not None and (own.type or own.label) else members


def one_price(group: str, machines: Iterable[PricedMachine], prices: Prices) -> float | None:
    """Return the price of a group's line, else the common price of its machines; None = there is none, or it is not the
    same for all.
    """
    if group in prices.groups:
        return prices.groups[group]
    found = {price_of(machine, prices) for machine in machines}
    return found.pop() if len(found) == 1 else None


def note_without(groups: Mapping[str, set[PricedMachine]]) -> None:
    """Write a note about node groups that get no price, with their machines."""
    if not groups:
        return
    undetermined = [
        f"{name} ({' or '.join(sorted(set(map(str, machines)))) or 'nothing is known of its nodes'})"
        for name, machines in groups.items()
    ]
    more = f" and {len(undetermined) - MOST_NOTED} more" if len(undetermined) > MOST_NOTED else ""
    note(
        f"the price file does not determine the price for {counted(len(undetermined), 'node group')}: "
        f"{', '.join(undetermined[:MOST_NOTED])}{more}"
    )


def price_of(machine: PricedMachine, prices: Prices) -> float | None:
    """Return the price of a machine: of its label, else of its type in its zone, else in every zone; None = there is
    none.
    """
    if machine.label:
        return prices.labels.get(machine.label)
    plain = machine._replace(zone="")
    return prices.machines.get(machine, prices.machines.get(plain))


def machine_of(labels: Mapping[str, str], prices: Prices | None = None) -> PricedMachine:
    """Return the machine according to a node's labels; type "" = they do not contain it. prices : whose labels count;
    of several, the first by name.
    """
    lifecycle = SPOT if any(labels.get(key) == value for key, value in SPOT_LABELS.items()) else ON_DEMAND
    label = ""
    if prices is not None and prices.labels:
        label = min((one for one in prices.labels if _has(labels, one)), default="")
    return PricedMachine(label_value(labels, INSTANCE_TYPE), label_value(labels, ZONE), lifecycle, label)


def _has(labels: Mapping[str, str], pair: str) -> bool:
    key, _, value = pair.partition("=")
    return labels.get(key) == value
