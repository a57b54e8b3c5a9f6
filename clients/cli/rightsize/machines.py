"""Machines that a right-sized cluster may have: offerings with the labels and taints that its pods ask for.

Decides which offerings a level allows, and which sets of labels and taints (profiles) nodes have now that some pod
reads: new nodes keep them.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from trimtab.clients.cli.options import Level
from trimtab.clients.cluster_view import ClusterView
from trimtab.common.kubernetes.kinds.metadata import ObjectMeta, Quantities
from trimtab.common.kubernetes.kinds.nodes import NodeGroup, NodeGroupSpec, NodeSpec, NodeStatus, Taint, TemplateNode
from trimtab.common.kubernetes.quantities import counted_amount
from trimtab.common.kubernetes.signals import cluster_autoscaler, karpenter, ours, well_known
from trimtab.common.objects.dominated_groups import labels_read
from trimtab.common.objects.karpenter.offers import (
    ARCH,
    INSTANCE_TYPE,
    ZONE,
    MachineOffer,
    OfferKey,
    family_of,
    is_of_machines,
    key_of,
)
from trimtab.v1 import plan_pb2
from trimtab.v1 import snapshot_pb2 as pb

POOL_LABEL: Final = ours.RIGHTSIZED_POOL.key
HOST_NAME: Final = well_known.HOSTNAME.key
MOST_PROFILES: Final = 12
_TRANSIENT: Final = (
    well_known.NODE_PREFIX.key,
    well_known.CLOUD_PREFIX.key,
    cluster_autoscaler.TO_BE_DELETED.key,
    cluster_autoscaler.DELETION_CANDIDATE.key,
    karpenter.PREFIX.key,
)
_EFFECTS: Final = {
    pb.TaintEffect.NO_SCHEDULE: "NoSchedule",
    pb.TaintEffect.PREFER_NO_SCHEDULE: "PreferNoSchedule",
    pb.TaintEffect.NO_EXECUTE: "NoExecute",
}
_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9]+")


class Profile(NamedTuple):
    """Labels and taints of nodes that some pod reads. labels : sorted pairs; taints : sorted (key, value, effect)."""

    name: str
    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[tuple[str, str, str], ...] = ()


class MachineChoice(NamedTuple):
    """An offering as a new node of a profile."""

    offer: MachineOffer
    profile: Profile

    @property
    def pool(self) -> str:
        """The pool that it is of: nodes of one profile, instance type and capacity type, in any zone."""
        parts = (self.profile.name, self.offer.key.instance_type, self.offer.key.capacity_type)
        return _NOT_IN_NAMES.sub("-", "-".join(part for part in parts if part).lower()).strip("-")

    @property
    def group(self) -> str:
        """The name of its node group: its pool in its zone."""
        return f"{self.pool}-{self.offer.key.zone}" if self.offer.key.zone else self.pool

    @property
    def price(self) -> float:
        """Its price for an hour; offerings without a price take no part."""
        return self.offer.price or 0.0

    def amount(self, resource: str) -> int:
        """Return what a node offers to pods, in the units of snapshots."""
        return counted_amount(resource, self.offer.allocatable.get(resource, 0))

    def node_group(self, largest: int, allocatable: Quantities | None = None, target: int = 0) -> NodeGroup:
        """Return its node group. allocatable : in place of its own."""
        taints = [Taint(key, value or None, effect) for key, value, effect in self.profile.taints]
        labels = {**self.offer.labels, **dict(self.profile.labels), POOL_LABEL: self.pool}
        return NodeGroup(
            ObjectMeta(name=self.group),
            NodeGroupSpec(
                min_size=0,
                max_size=largest,
                target_size=target,
                price=self.offer.price,
                template=TemplateNode(
                    ObjectMeta(labels=labels),
                    NodeSpec(taints=taints),
                    NodeStatus(capacity=self.offer.capacity, allocatable=allocatable or self.offer.allocatable),
                ),
            ),
        )


def profiles_of(snapshot: pb.ClusterSnapshot, workers: Iterable[str]) -> list[Profile]:
    """Return the profiles of the worker nodes, the most common first; an empty one if there are none."""
    view = ClusterView(snapshot)
    read = labels_read(snapshot, plan_pb2.PlanSettings())
    own = {key for key in read if not is_of_machines(key) and key != HOST_NAME}
    counts: Counter[tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str, str], ...]]] = Counter()
    for name in workers:
        node = view.nodes[name]
        labels = tuple(sorted((key, value) for key, value in view.labels(node.label_set).items() if key in own))
        counts[labels, _lasting_taints(view, node)] += 1
    ordered = sorted(counts, key=lambda count: (-counts[count], count)) or [((), ())]
    taken: set[str] = set()
    return [_named(labels, taints, taken) for labels, taints in ordered]


def allowed(offers: Iterable[MachineOffer], level: Level, present: Iterable[MachineOffer]) -> list[MachineOffer]:
    """Return the offerings of a level. present : those that the cluster has now."""
    types = {one.key.instance_type for one in present}
    if level is Level.SAME_TYPES:
        return [one for one in offers if one.key.instance_type in types]
    if level is Level.SAME_FAMILY:
        families = {family_of(one) for one in types}
        return [one for one in offers if family_of(one.key.instance_type) in families]
    return list(offers)


def present_machines(snapshot: pb.ClusterSnapshot, workers: Sequence[str]) -> list[MachineOffer]:
    """Return the offerings of the worker nodes, by their labels."""
    view = ClusterView(snapshot)
    found: dict[OfferKey, MachineOffer] = {}
    for name in workers:
        labels = view.labels(view.nodes[name].label_set)
        key = key_of(labels)
        shown = {name: value for name, value in labels.items() if name in (ARCH, ZONE, INSTANCE_TYPE)}
        found.setdefault(key, MachineOffer(key, {}, {}, shown))
    return [found[key] for key in sorted(found)]


def architectures(present: Iterable[MachineOffer]) -> set[str]:
    """Return the architectures of offerings that say theirs."""
    return {arch for one in present if (arch := one.labels.get(ARCH))}


def _lasting_taints(view: ClusterView, node: pb.Node) -> tuple[tuple[str, str, str], ...]:
    taints = [(view.text(one.key), view.text(one.value), _EFFECTS.get(one.effect, "NoSchedule")) for one in node.taints]
    return tuple(sorted(taint for taint in taints if not taint[0].startswith(_TRANSIENT)))


def _named(labels: tuple[tuple[str, str], ...], taints: tuple[tuple[str, str, str], ...], taken: set[str]) -> Profile:
    """Return a profile with a name of its own, by the values of its taints and labels."""
    words = dict.fromkeys(word for key, value, *_ in (*taints, *labels) for word in (value or key.rpartition("/")[2],))
    name = _NOT_IN_NAMES.sub("-", "-".join(words).lower()).strip("-")[:30].strip("-")
    unique, number = name, 1
    while unique in taken:
        number += 1
        unique = f"{name or 'profile'}-{number}"
    taken.add(unique)
    return Profile(unique, labels, taints)


def label_text(labels: Mapping[str, str]) -> str:
    """Return labels as Cluster API's annotations have them."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
