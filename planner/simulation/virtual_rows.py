"""Pods and nodes that the snapshot lacks: evicted pods, placeholders, nodes that a node group would add.

Contract: values only. Virtual pods are numbered after the snapshot's pods, virtual nodes after its nodes, in the order
given. A virtual pod is initially on no node, is not terminating, not gated and mounts no volume. A virtual node is
closed until it is opened, unless it is given as open.
"""

from hashlib import blake2b
from typing import Final, NamedTuple

import msgspec

from trimtab.planner.model.values import (
    NO_TRAITS,
    NodeTraits,
    PodRequirements,
    RecentEviction,
    TaintSpec,
    is_device_resource,
)
from trimtab.planner.predicates.topologies import HOSTNAME
from trimtab.planner.snapshot.columns import NO_NODE, Int64, NodeColumns, Snapshot

Labels = tuple[tuple[str, str], ...]
"""(key, value) pairs, sorted by key."""


class VirtualPod(NamedTuple):
    """A pod that the snapshot lacks. `pinned` : a node's number or NO_NODE; `created_s` : Unix seconds."""

    namespace: str
    spec: PodRequirements
    labels: Labels = ()
    created_s: int = 0
    pinned: int = NO_NODE


class Kinds(NamedTuple):
    """Pods that are not rows but have classes: pods like them can be added without building again.

    key : equal keys imply equal pods, in the same order.
    """

    pods: tuple[VirtualPod, ...] = ()
    key: str = ""

    def and_of(self, other: "Kinds") -> "Kinds":
        """Return these kinds with others appended."""
        if not (self.pods and other.pods):
            return self if self.pods else other
        return Kinds(self.pods + other.pods, f"{self.key} {other.key}")


NO_KINDS: Final = Kinds()


def kinds_of(pods: tuple[VirtualPod, ...]) -> Kinds:
    """Return pods as kinds. O(bytes of their specs)."""
    return Kinds(pods, blake2b(msgspec.msgpack.encode(pods), digest_size=16).hexdigest()) if pods else NO_KINDS


class NodeTemplate(NamedTuple):
    """The properties of a node that scheduling uses. `allocatable` : amounts by resource name, cpu in milli-cores,
    others in base units."""

    labels: Labels = ()
    allocatable: tuple[tuple[str, int], ...] = ()
    taints: tuple[TaintSpec, ...] = ()
    unschedulable: bool = False
    traits: NodeTraits = NO_TRAITS


class GroupTemplate(NamedTuple):
    """A new node of a node group.

    daemonset_pods : the pods of DaemonSets that run on it from the start, pinned to no node; they are not part of the
    template's amounts; capacity : amounts by resource name, as `allocatable`; node : the snapshot's node on which it is
    modelled, NO_NODE = the group's template; note : what people should know of that choice.
    """

    template: NodeTemplate
    daemonset_pods: tuple[VirtualPod, ...] = ()
    capacity: tuple[tuple[str, int], ...] = ()
    node: int = NO_NODE
    note: str = ""


class VirtualNodes(NamedTuple):
    """Nodes of one template. `names` are unique among all nodes. residents : pods that each of the nodes has while it
    is open, such as DaemonSet pods. They are not rows of pods: they come and go with the node; is_open : the nodes are
    open from the start; is_spare : the nodes have only their names, and each except the first, which stays closed, can
    be opened as a node of another template (`trimtab.planner.simulation.kernels.open_from_template`).
    """

    template: NodeTemplate
    names: tuple[str, ...]
    residents: tuple[VirtualPod, ...] = ()
    is_open: bool = False
    is_spare: bool = False

    def labels_of(self, names: tuple[str, ...]) -> list[Labels]:
        """Return the labels of nodes with these names, their own hostname among them, which the kubelet sets."""
        labels = dict(self.template.labels)
        labels.pop(HOSTNAME, None)
        before = tuple(sorted(pair for pair in labels.items() if pair[0] < HOSTNAME))
        after = tuple(sorted(pair for pair in labels.items() if pair[0] > HOSTNAME))
        return [(*before, (HOSTNAME, name), *after) for name in names]


class VirtualRows(NamedTuple):
    """All virtual rows of a simulation. kinds : see `Kinds`."""

    pods: tuple[VirtualPod, ...] = ()
    nodes: tuple[VirtualNodes, ...] = ()
    kinds: Kinds = NO_KINDS

    def and_more(self, pods: tuple[VirtualPod, ...], nodes: tuple[VirtualNodes, ...]) -> "VirtualRows":
        """Return these rows with more appended."""
        return VirtualRows(self.pods + pods, self.nodes + nodes, self.kinds)

    @property
    def node_count(self) -> int:
        """Number of virtual nodes."""
        return sum(len(nodes.names) for nodes in self.nodes)

    @property
    def residents(self) -> tuple[VirtualPod, ...]:
        """Residents of one node of each template, in the order of the templates."""
        return tuple(pod for nodes in self.nodes for pod in nodes.residents)

    @property
    def without_row(self) -> tuple[VirtualPod, ...]:
        """Pods that have classes but are not rows: residents, then kinds."""
        return self.residents + self.kinds.pods


NOTHING_VIRTUAL: Final = VirtualRows()


def evicted_pods(snapshot: Snapshot, evictions: tuple[RecentEviction, ...]) -> tuple[VirtualPod, ...]:
    """Return recent evictions as virtual pods, in the same order."""
    return tuple(VirtualPod(e.namespace, snapshot.specs[e.spec], snapshot.labels_of(e.label_set)) for e in evictions)


def amounts_of(snapshot: Snapshot, row: Int64) -> tuple[tuple[str, int], ...]:
    """Return amounts by the names of their resources, without zeros. row : int64[R]."""
    return tuple([pair for pair in zip(snapshot.resources, row.tolist(), strict=True) if pair[1]])


def _allocatable(snapshot: Snapshot, nodes: NodeColumns, row: int) -> Int64:
    """Return what a new node like one would offer: all of its devices, also those that others use there : int64[R]."""
    row_of: Int64 = nodes.allocatable[row]
    of_devices = [at for at, name in enumerate(snapshot.resources) if is_device_resource(name)]
    if not of_devices:
        return row_of
    new = row_of.copy()
    new[of_devices] = nodes.capacity[row, of_devices]
    return new


def template_of(snapshot: Snapshot, nodes: NodeColumns, row: int) -> NodeTemplate:
    """Return a row of the snapshot's nodes, or of its node groups' templates, as a template."""
    return NodeTemplate(
        snapshot.labels_of(int(nodes.label_set[row])),
        amounts_of(snapshot, _allocatable(snapshot, nodes, row)),
        nodes.taint_sets[nodes.taint_set[row]],
        bool(nodes.unschedulable[row]),
        nodes.traits[row],
    )
