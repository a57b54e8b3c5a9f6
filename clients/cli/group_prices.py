"""Prices from a file for node groups that are objects: of a live cluster, a simulation, the demo. The price
of a machine is found by `trimtab.clients.cli.prices`. A group is identified by the labels of its template, else by
those of its nodes; the file's price replaces its own.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from trimtab.clients.cli.prices import PricedMachine, Prices, machine_of, machines_of, note_without, one_price
from trimtab.common.kubernetes.kinds.nodes import Node, NodeGroup
from trimtab.common.objects.node_groups import Membership
from trimtab.common.watched.cloud_groups import cloud_groups, group_of_instance
from trimtab.v1 import actuator_pb2

Json = dict[str, Any]


def machines_by_group(
    groups: Sequence[NodeGroup],
    nodes: Iterable[Node],
    prices: Prices,
    of_instance: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, set[PricedMachine]]:
    """Return the machines of each group's nodes. of_instance : provider id to group, according to the cloud."""
    membership = Membership(groups, of_instance)
    members: dict[str, set[PricedMachine]] = {}
    for node in nodes:
        for group in membership.groups_of((node.metadata and node.metadata.name) or "", node):
            members.setdefault(_name(group), set()).add(machine_of(_labels(node), prices))
    return {
        _name(group): machines_of(
            _labels(group.spec.template) if group.spec and group.spec.template else None,
            members.get(_name(group), set()),
            prices,
        )
        for group in groups
    }


def object_prices(objects: Iterable[Json], prices: Prices) -> dict[str, float]:
    """Return the price of a node and hour by node group of a cluster's objects; write a note about the others."""
    every = list(objects)
    groups = [msgspec.convert(item, NodeGroup) for item in every if item["kind"] == "NodeGroup"]
    nodes = [msgspec.convert(item, Node) for item in every if item["kind"] == "Node"]
    return prices_of(machines_by_group(groups, nodes, prices), prices)


class LivePrices:
    """The prices of a file for the node groups of a live cluster, for `RoundSettings.complete_groups`. The nodes of a
    group without a template are checked until its price is known; the price is then kept.
    """

    def __init__(self, prices: Prices, nodes: Callable[[], Sequence[Node]]) -> None:
        """`nodes` returns all nodes as they are now."""
        self._prices, self._nodes = prices, nodes
        self._by_nodes: dict[str, float] = {}

    def __call__(
        self, groups: tuple[NodeGroup, ...], status: actuator_pb2.ActuatorStatus | None
    ) -> tuple[NodeGroup, ...]:
        """Write prices into the status, in place; return the declared groups with theirs."""
        every = cloud_groups(groups, status)
        found = {}
        for group in every:
            template = group.spec.template if group.spec else None
            own = {machine_of(_labels(template), self._prices)} if template else set()
            price = one_price(_name(group), own, self._prices)
            if price is not None:
                found[_name(group)] = price
        if any(_name(group) not in found and _name(group) not in self._by_nodes for group in every):
            machines = machines_by_group(every, self._nodes(), self._prices, group_of_instance(status))
            self._by_nodes |= _known(machines, self._prices)
        found = {**self._by_nodes, **found}
        for one in status.node_groups if status is not None else ():
            if one.id in found:
                one.price_per_hour = found[one.id]
        return tuple(_with_price(group, found.get(_name(group))) for group in groups)


def prices_of(machines: Mapping[str, set[PricedMachine]], prices: Prices) -> dict[str, float]:
    """Return the prices that are known, and write a note about the others."""
    found = _known(machines, prices)
    note_without({name: of_group for name, of_group in machines.items() if name not in found})
    return found


def _known(machines: Mapping[str, set[PricedMachine]], prices: Prices) -> dict[str, float]:
    found = {name: one_price(name, of_group, prices) for name, of_group in machines.items()}
    return {name: price for name, price in found.items() if price is not None}


def _with_price(group: NodeGroup, price: float | None) -> NodeGroup:
    if price is None or group.spec is None:
        return group
    return msgspec.structs.replace(group, spec=msgspec.structs.replace(group.spec, price=price))


def _name(group: NodeGroup) -> str:
    return (group.metadata and group.metadata.name) or ""


def _labels(node: Node) -> Mapping[str, str]:
    return (node.metadata and node.metadata.labels) or {}
