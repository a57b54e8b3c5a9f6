"""Offerings of machines: an instance type in a zone, on demand or spot. They are of a file, objects, or
those that the nodes and NodeClaims of a cluster have now.

Decides what the labels and the name of an instance type say about it. Never reads files. Units: quantities as in
Kubernetes objects, prices per hour.
Sources: Karpenter, pkg/apis/v1/labels.go; its AWS provider, pkg/apis/v1/labels.go and pkg/providers/instancetype (what
is reserved on a node); the naming rules of AWS, Google Cloud and Azure.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from trimtab.common.kubernetes.kinds.karpenter import NodeClaim, OfferObject, OfferSpec
from trimtab.common.kubernetes.kinds.metadata import ObjectMeta, Quantities
from trimtab.common.kubernetes.kinds.nodes import Node, NodeStatus
from trimtab.common.kubernetes.object_errors import FieldError, ObjectError, below
from trimtab.common.kubernetes.quantities import counted_amount
from trimtab.common.kubernetes.signals import clouds, karpenter, well_known
from trimtab.common.kubernetes.signals.table import SPOT_LABELS
from trimtab.prices import is_price

POOL: Final = karpenter.NODE_POOL.key
CAPACITY_TYPE: Final = karpenter.CAPACITY_TYPE.key
INSTANCE_TYPE: Final = well_known.INSTANCE_TYPE.key
ZONE: Final = well_known.ZONE.key
ARCH, SYSTEM = well_known.ARCH.key, well_known.OS.key
ON_DEMAND, SPOT, RESERVED = "on-demand", "spot", "reserved"
CAPACITY_TYPES: Final = (ON_DEMAND, SPOT, RESERVED)
_CONTROL_PLANE: Final = {well_known.CONTROL_PLANE.key, well_known.MASTER.key}
_OF_MACHINES: Final = (
    well_known.TOPOLOGY_PREFIX.key,
    clouds.AWS_TOPOLOGY.key,
    well_known.OLD_TOPOLOGY_PREFIX.key,
    karpenter.AWS_INSTANCE.key,
    karpenter.AZURE_SKU.key,
    karpenter.GCP_INSTANCE.key,
)
"""What the keys of labels begin with that say what a machine is and where it runs."""
_OLD_NAMES: Final = {
    well_known.OLD_INSTANCE_TYPE.key: INSTANCE_TYPE,
    well_known.OLD_ZONE.key: ZONE,
    well_known.OLD_ARCH.key: ARCH,
    well_known.OLD_OS.key: SYSTEM,
}
_PROVIDERS: Final = (
    karpenter.AWS_PREFIX.key,
    karpenter.AZURE_PREFIX.key,
    karpenter.GCP_PREFIX.key,
    clouds.AWS_TOPOLOGY.key,
    well_known.TOPOLOGY_PREFIX.key,
    well_known.NODE_PREFIX.key,
    well_known.OWN_PREFIX.key,
    clouds.EKS_PREFIX.key,
)
_AWS_TYPE: Final = re.compile(r"(?P<category>[a-z]+)(?P<generation>\d+)[a-z0-9-]*\.[a-z0-9-]+\Z")
_AZURE_TYPE: Final = re.compile(r"Standard_(?P<letters>[A-Z]+)\d+(?P<rest>[-A-Za-z0-9_]*)\Z")


class OfferKey(NamedTuple):
    """What an offering is. zone : "" = not told."""

    instance_type: str
    zone: str
    capacity_type: str

    def __str__(self) -> str:
        return "/".join(part for part in self if part)


class MachineOffer(NamedTuple):
    """An offering. capacity, allocatable : of one node; labels : of its nodes, without those of a pool; price : None =
    not told.
    """

    key: OfferKey
    capacity: Quantities
    allocatable: Quantities
    labels: Mapping[str, str]
    price: float | None = None


def given_offers(objects: Iterable[OfferObject]) -> list[MachineOffer]:
    """Return the offerings that MachineOffer objects describe, sorted by name. Errors: ObjectError."""
    found: dict[OfferKey, MachineOffer] = {}
    for one in sorted(objects, key=lambda one: (one.metadata or ObjectMeta()).name or ""):
        name = (one.metadata or ObjectMeta()).name or ""
        try:
            offer = _given_offer(one.spec or OfferSpec())
            if offer.key in found:
                raise FieldError("spec", f"{offer.key} is offered twice", "leave one of the two out")
        except FieldError as error:
            raise ObjectError("", "MachineOffer", name, error) from None
        found[offer.key] = offer
    return list(found.values())


def _given_offer(spec: OfferSpec) -> MachineOffer:
    if not spec.instance_type:
        raise FieldError("spec.instanceType", "it is missing", "name the type of the machine")
    if not spec.capacity:
        raise FieldError("spec.capacity", "it is missing", "give cpu, memory and pods of a node")
    key = OfferKey(spec.instance_type, spec.zone or "", spec.capacity_type or ON_DEMAND)
    if key.capacity_type not in CAPACITY_TYPES:
        remedy = f"use one of {', '.join(CAPACITY_TYPES)}"
        raise FieldError("spec.capacityType", f"{key.capacity_type!r} is unknown", remedy)
    if spec.price is not None and not is_price(spec.price):
        raise FieldError(
            "spec.price", f"{spec.price} is out of range", "give the price of a node for an hour, such as 0.096"
        )
    with below("spec.capacity"):
        cpu_milli = counted_amount("cpu", spec.capacity.get("cpu", 0))
    labels = labels_of(key, spec.labels, cpu_milli)
    return MachineOffer(key, spec.capacity, spec.allocatable or spec.capacity, labels, spec.price)


def key_of(labels: Mapping[str, str]) -> OfferKey:
    """Return the offering that a node's labels name; "" = they do not say."""
    return OfferKey(
        _value(labels, INSTANCE_TYPE), _value(labels, ZONE), labels.get(CAPACITY_TYPE, "") or _usual_type(labels)
    )


def is_of_machines(key: str) -> bool:
    """Return whether a label is one that the provider of machines gives to nodes: a requirement on it, and not its
    presence in a pool, decides its value.
    """
    return key.startswith(_PROVIDERS) or key in (CAPACITY_TYPE, *_OLD_NAMES)


def family_of(instance_type: str) -> str:
    """Return the family of an instance type by its name: "m5" of m5.large, "n2-standard" of n2-standard-4,
    "Standard_D_s_v5" of Standard_D4s_v5; the type itself if its name tells no more.
    """
    azure = _AZURE_TYPE.match(instance_type)
    if azure is not None:
        return f"Standard_{azure['letters']}_{azure['rest'].strip('_')}"
    if "." in instance_type:
        return instance_type.partition(".")[0]
    before, dash, size = instance_type.rpartition("-")
    return before if dash and size.isdecimal() else instance_type


def present_offers(nodes: Iterable[Node], claims: Iterable[NodeClaim]) -> list[MachineOffer]:
    """Return the offerings of a cluster's nodes and NodeClaims, without nodes of the control plane, sorted."""
    found: dict[OfferKey, MachineOffer] = {}
    for node in sorted(nodes, key=lambda node: _meta(node).name or ""):
        labels, status = _meta(node).labels or {}, node.status or NodeStatus()
        allocatable = status.allocatable or status.capacity
        if allocatable and not _CONTROL_PLANE & labels.keys():
            _add(found, labels, status.capacity or allocatable, allocatable)
    for claim in sorted(claims, key=lambda claim: _meta(claim).name or ""):
        if claim.status is not None and claim.status.capacity:
            labels = _meta(claim).labels or {}
            _add(found, labels, claim.status.capacity, claim.status.allocatable or claim.status.capacity)
    return [found[key] for key in sorted(found)]


def completed(
    offers: Iterable[MachineOffer], present: Sequence[MachineOffer], zones: Iterable[str] = ()
) -> list[MachineOffer]:
    """Return offerings of a file with what nodes of the same instance type show and the file does not say: labels of
    the type; one of no zone is in every zone of the cluster. zones : those besides the zones of `present`.
    """
    known: dict[str, dict[str, str]] = {}
    for one in present:
        of_type = {key: value for key, value in one.labels.items() if not _depends_on_place(key)}
        known.setdefault(one.key.instance_type, of_type)
    everywhere = sorted({one.key.zone for one in present if one.key.zone} | set(zones)) or [""]
    found = {}
    for one in offers:
        for zone in [one.key.zone] if one.key.zone else everywhere:
            key = one.key._replace(zone=zone)
            labels = labels_of(
                key, {**known.get(key.instance_type, {}), **one.labels, **({ZONE: zone} if zone else {})}
            )
            if key not in found or one.key.zone:
                found[key] = one._replace(key=key, labels=labels)
    return list(found.values())


def labels_of(
    key: OfferKey, more: Mapping[str, str] | None = None, cpu_milli: int = 0, memory_mib: int = 0
) -> dict[str, str]:
    """Return the labels of an offering's nodes: those of its key, of what the name of its type says, and more,
    under their old names too. Of amounts, 0 = not known.
    """
    found = {INSTANCE_TYPE: key.instance_type, ZONE: key.zone, CAPACITY_TYPE: key.capacity_type, SYSTEM: "linux"}
    aws = _AWS_TYPE.match(key.instance_type)
    if aws is not None:
        family, _, size = key.instance_type.partition(".")
        found |= {
            karpenter.AWS_FAMILY.key: family,
            karpenter.AWS_SIZE.key: size,
            karpenter.AWS_CATEGORY.key: aws["category"],
            karpenter.AWS_GENERATION.key: aws["generation"],
            karpenter.AWS_CPU.key: f"{cpu_milli // 1000}" if cpu_milli else "",
            karpenter.AWS_MEMORY.key: f"{memory_mib}" if memory_mib else "",
        }
    found |= dict(more or {})
    found |= {old: found[new] for old, new in _OLD_NAMES.items() if new in found}
    return {name: value for name, value in found.items() if value}


def usual_allocatable(cpu_milli: int, memory_mib: int, pods: int) -> tuple[int, int]:
    """Return cpu (milli-cores) and memory (MiB) for pods, as Karpenter's AWS provider computes them: without what the
    kubelet reserves, 7.5 % of memory for the hypervisor, and the eviction threshold.
    """
    bounds, shares = (0, 1000, 2000, 4000, 1 << 40), (600, 100, 50, 25)
    parts = zip(bounds, bounds[1:], shares, strict=False)
    cpu = sum(max(min(cpu_milli, high) - low, 0) * share for low, high, share in parts) // 10_000
    memory = memory_mib - -(-memory_mib * 75 // 1000) - (255 + 11 * pods) - 100
    return max(cpu_milli - cpu, 0), max(memory, 0)


def _depends_on_place(key: str) -> bool:
    return key in (ZONE, CAPACITY_TYPE) or key.startswith(("topology.", "failure-domain."))


def _add(
    found: dict[OfferKey, MachineOffer], labels: Mapping[str, str], capacity: Quantities, allocatable: Quantities
) -> None:
    """Add the offering of a node, unless one of its kind is known."""
    key = key_of(labels)
    if key.instance_type and key not in found:
        of_machine = dict(_machine_labels(labels))
        with suppress(FieldError):
            cpu_milli = counted_amount("cpu", capacity.get("cpu", 0))
            found[key] = MachineOffer(key, capacity, allocatable, labels_of(key, of_machine, cpu_milli))


def _machine_labels(labels: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, value in labels.items():
        if name.startswith(_OF_MACHINES) or name in (ARCH, SYSTEM) or name in _OLD_NAMES:
            yield name, value


def _value(labels: Mapping[str, str], key: str) -> str:
    old = next((name for name, new in _OLD_NAMES.items() if new == key), "")
    return labels.get(key) or labels.get(old, "")


def _usual_type(labels: Mapping[str, str]) -> str:
    """Return the capacity type by other labels than Karpenter's."""
    is_spot = any(labels.get(key) == value for key, value in SPOT_LABELS.items())
    return SPOT if is_spot else ON_DEMAND


def _meta(obj: Node | NodeClaim) -> ObjectMeta:
    return obj.metadata or ObjectMeta()
