"""The nodes and node groups of a recording, round by round: how many there are, what they offer and cost.

Decides that nodes of a cluster without node groups are grouped by labels, and that prices of a file replace recorded
ones, as for a single cluster. Amounts: cpu in milli-cores, memory in bytes.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from trimtab.clients.cli.label_groups import ZONE, label_group, label_value
from trimtab.clients.cli.prices import PricedMachine, Prices, machine_of, machines_of, one_price, price_of
from trimtab.clients.cluster_view import ClusterView
from trimtab.common.kubernetes.names import HARD_TAINT_KEY
from trimtab.v1 import snapshot_pb2 as pb


class _NodeHistory(NamedTuple):
    """A present node. group : id, "" = none; by_labels : the group that its labels make; zone : "" = not known; cpu :
    allocatable milli-cores; memory : allocatable bytes; machine : what its price depends on; price : its own, None =
    that of its group; is_going : it is being deleted.
    """

    group: str
    by_labels: str
    zone: str
    cpu: int
    memory: int
    machine: PricedMachine
    price: float | None
    is_going: bool


class _RecordedGroup(NamedTuple):
    """A node group. price : of a node for an hour, None = not known; template : labels of a new node, None = it has no
    template.
    """

    price: float | None
    template: Mapping[str, str] | None


class Capacity(NamedTuple):
    """Nodes of a round. counts : by "group/zone"; price_per_hour : of the nodes whose price is known. cpu :
    milli-cores; memory : bytes.
    """

    counts: Mapping[str, int]
    cpu: int
    memory: int
    price_per_hour: float


class RecordedNodes:
    """The present nodes. prices : of a file; labels : of groups, if the cluster has none, () = no groups.

    group_of : group of each present node; price_of : price of a node by group; added, removed : numbers so far, since
    the first message; members : names of the present nodes.
    """

    def __init__(self, prices: Prices | None = None, labels: Sequence[str] | None = None) -> None:
        self.group_of: dict[str, str] = {}
        self.price_of: dict[str, float] = {}
        self.added = self.removed = 0
        self._prices, self._labels = prices, labels
        self._nodes: dict[str, _NodeHistory] = {}
        self._groups: dict[str, _RecordedGroup] = {}
        self._capacity: Capacity | None = None
        self._has_begun = False

    @property
    def members(self) -> Mapping[str, object]:
        """Return the present nodes by name."""
        return self._nodes

    @property
    def has_groups(self) -> bool:
        """Return whether the cluster has node groups of its own."""
        return bool(self._groups)

    @property
    def going(self) -> set[str]:
        """Return the nodes that are tainted for their deletion."""
        return {name for name, node in self._nodes.items() if node.is_going}

    def replace(self, whole: pb.ClusterSnapshot) -> None:
        """Put a whole cluster in place of the present one."""
        self.remove(self._nodes.keys() - {node.name for node in whole.nodes}, list(self._groups))
        self.add(whole)

    def remove(self, nodes: Sequence[str] | set[str], groups: Sequence[str]) -> None:
        """Take nodes and groups out. Raises KeyError for absent ones."""
        for name in nodes:
            del self._nodes[name]
        for name in groups:
            del self._groups[name]
        self.removed += len(nodes)
        self._capacity = None if nodes or groups else self._capacity

    def add(self, changed: pb.ClusterSnapshot) -> None:
        """Put the nodes and groups of a message in, or in place of those with the same names."""
        view = ClusterView(changed)
        for group in changed.node_groups:
            template = view.labels(group.template.label_set) if group.HasField("template") else None
            price = group.price_per_hour if group.HasField("price_per_hour") else None
            self._groups[group.id] = _RecordedGroup(price, template)
        before = len(self._nodes)
        for node in changed.nodes:
            labels, amounts = view.labels(node.label_set), view.allocatable(node.name)
            self._nodes[node.name] = _NodeHistory(
                node.node_group,
                label_group(labels, self._labels) if self._labels is None or self._labels else "",
                label_value(labels, ZONE),
                amounts.get("cpu", 0),
                amounts.get("memory", 0),
                machine_of(labels, self._prices),
                node.price_per_hour if node.HasField("price_per_hour") else None,
                any(view.text(taint.key) == HARD_TAINT_KEY for taint in node.taints),
            )
        if self._has_begun:
            self.added += len(self._nodes) - before
        self._has_begun = True
        if changed.nodes or changed.node_groups:
            self._capacity = None

    def capacity(self) -> Capacity:
        """Return the sums of the present nodes. O(nodes) after a change, else O(1)."""
        if self._capacity is None:
            self._capacity = self._summed()
        return self._capacity

    def _summed(self) -> Capacity:
        has_groups = self.has_groups
        self.group_of.clear()
        self.group_of.update((name, one.group if has_groups else one.by_labels) for name, one in self._nodes.items())
        self.price_of.clear()
        self.price_of.update(self._priced())
        counts = Counter(f"{group}/{self._nodes[name].zone}" for name, group in self.group_of.items())
        price = sum(self._price(name, group) for name, group in self.group_of.items())
        cpu, memory = (sum(getattr(one, name) for one in self._nodes.values()) for name in ("cpu", "memory"))
        return Capacity(dict(sorted(counts.items())), cpu, memory, round(price, 6))

    def _price(self, name: str, group: str) -> float:
        """Return the price of a node, as `trimtab.clients.cli.prices` decides it; 0 = unknown."""
        if self._prices is not None and group in self._prices.groups:
            return self._prices.groups[group]
        of_file = price_of(self._nodes[name].machine, self._prices) if self._prices is not None else None
        own = self._nodes[name].price if of_file is None else of_file
        return self.price_of.get(group, 0.0) if own is None else own

    def _priced(self) -> dict[str, float]:
        """Return the known prices: of the file, else the recorded ones."""
        machines: dict[str, set[PricedMachine]] = defaultdict(set)
        for name, group in self.group_of.items():
            machines[group].add(self._nodes[name].machine)
        found = {}
        for name in self._groups.keys() | (machines.keys() if not self._groups else set()):
            own = self._groups.get(name, _RecordedGroup(None, None))
            of_file = None
            if self._prices is not None:
                own_machines = machines_of(own.template, machines.get(name, set()), self._prices)
                of_file = one_price(name, own_machines, self._prices)
            price = own.price if of_file is None else of_file
            if price is not None:
                found[name] = price
        return found
