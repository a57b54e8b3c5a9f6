"""The nodes and node groups of a recording, round by round: how many there are, what they offer and cost.

Decides that nodes of a cluster without node groups are grouped by labels, and that prices of a file replace recorded
ones, as for a single cluster. Amounts: cpu in milli-cores, memory in bytes.

Pods are columns: where they are and what they request. Those that have not ended count; those without node wait.
"""

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.clients.cli.label_groups import ZONE, label_group, label_value
from trimtab.clients.cli.prices import PricedMachine, Prices, machine_of, machines_of, one_price, price_of
from trimtab.clients.cluster_view import ClusterView
from trimtab.common.deltas.renumbering import texts_of
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
        self.group_of.update((name, node.group if has_groups else node.by_labels) for name, node in self._nodes.items())
        self.price_of.clear()
        self.price_of.update(self._priced())
        counts = Counter(f"{group}/{self._nodes[name].zone}" for name, group in self.group_of.items())
        price = sum(self._price(name, group) for name, group in self.group_of.items())
        cpu, memory = (sum(getattr(node, name) for node in self._nodes.values()) for name in ("cpu", "memory"))
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


_ENDED = (pb.PodPhase.SUCCEEDED, pb.PodPhase.FAILED)
_NOWHERE = -1
"""Place of an ended pod, and of a row that is not used."""
_WAITS = 0


class Usage(NamedTuple):
    """Pods of a round. cpu, memory : requested on nodes that exist; pods : all, ended ones too; pending : of them."""

    cpu: int
    memory: int
    pods: int
    pending: int


class Pods:
    """The present pods. Memory: proportional to the most pods that existed at a time. Raises ValueError, IndexError,
    KeyError for messages that break the contract.
    """

    def __init__(self) -> None:
        self._row_of: dict[tuple[str, bytes], int] = {}
        self._free: list[int] = []
        self._size = 0
        self._place: NDArray[np.int64] = np.zeros(0, np.int64)
        self._requests: NDArray[np.int64] = np.zeros((0, 2), np.int64)
        # Number of each node's name, from 1.
        self._numbers: dict[str, int] = {"": _WAITS}
        self._names = [""]

    def add(self, changed: pb.ClusterSnapshot) -> None:
        """Put the pods of a message in, or in place of those with the same names."""
        table = changed.pods
        if not table.count:
            return
        names = texts_of(table, "name", np.arange(table.count))
        namespaces = np.frombuffer(table.namespace, "<i4").tolist()
        keys = ((changed.strings[namespace], name) for namespace, name in zip(namespaces, names, strict=True))
        rows = np.array([self._row(key) for key in keys], np.int64)
        self._grow()
        ended = np.isin(np.frombuffer(table.phase, np.uint8), _ENDED)
        self._place[rows] = np.where(ended, _NOWHERE, self._places(changed))
        self._requests[rows] = _requests(changed)[np.frombuffer(table.spec, "<i4")]

    def remove(self, keys: Iterable[str]) -> None:
        """Take pods out, by "namespace/name"."""
        for key in keys:
            namespace, _, name = key.partition("/")
            row = self._row_of.pop((namespace, name.encode()))
            self._place[row] = _NOWHERE
            self._free.append(row)

    def node_of(self, namespace: str, name: str) -> str:
        """Return the node of a pod; "" = there is no such pod, or it is on none."""
        row = self._row_of.get((namespace, name.encode()))
        place = _NOWHERE if row is None else int(self._place[row])
        return self._names[place] if place > _WAITS else ""

    def usage(self, nodes: Container[str]) -> Usage:
        """Return what pods request on existing nodes, and how many wait. O(pods), vectorized."""
        exists = np.array([name in nodes for name in self._names], np.bool_)
        place = self._place[: self._size]
        counted = exists[np.maximum(place, _WAITS)]
        cpu, memory = self._requests[: self._size][counted].sum(axis=0).tolist()
        return Usage(cpu, memory, len(self._row_of), int((place == _WAITS).sum()))

    def _row(self, key: tuple[str, bytes]) -> int:
        row = self._row_of.get(key)
        if row is None:
            row = self._free.pop() if self._free else self._size
            self._size = max(self._size, row + 1)
            self._row_of[key] = row
        return row

    def _grow(self) -> None:
        missing = self._size - len(self._place)
        if missing > 0:
            more = max(missing, len(self._place))
            self._place = np.concatenate((self._place, np.full(more, _NOWHERE, np.int64)))
            self._requests = np.concatenate((self._requests, np.zeros((more, 2), np.int64)))

    def _places(self, changed: pb.ClusterSnapshot) -> NDArray[Any]:
        """Return the number of each pod's node."""
        distinct, inverse = np.unique(np.frombuffer(changed.pods.node, "<i4"), return_inverse=True)
        numbers = []
        for index in distinct.tolist():
            name = changed.strings[index] if index else ""
            number = self._numbers.setdefault(name, len(self._numbers))
            if number == len(self._names):
                self._names.append(name)
            numbers.append(number)
        return np.array(numbers, np.int64)[inverse]


def _requests(changed: pb.ClusterSnapshot) -> NDArray[np.int64]:
    """Return cpu and memory of each spec : int64[S, 2]."""
    column = {name: at for at, name in enumerate(("cpu", "memory"))}
    found = np.zeros((len(changed.pod_specs), 2), np.int64)
    for row, spec in enumerate(changed.pod_specs):
        for request in spec.requests:
            at = column.get(changed.resources[request.resource])
            if at is not None:
                found[row, at] = request.amount
    return found
