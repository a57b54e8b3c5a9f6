"""Claims that pods mount, reduced to what the scheduler needs: one `Volume` row each.

Binding is resolved once for all nodes, in the order in which kube-scheduler's plugins would stop:
missing or lost or terminating claim, claim of another pod, volume missing, unbound with immediate binding, waiting.
A waiting unbound claim may also take an available volume of its class, whose node affinity is then one more
alternative. Not modelled: two claims that compete for one available volume; storage capacity tracking.

Source: kube-scheduler 1.34 plugins volumebinding (GetPodVolumeClaims, FindMatchingVolume), volumezone,
volumerestrictions, nodevolumelimits; csi-translation-lib.
"""

from collections.abc import Mapping
from typing import NamedTuple

from msgspec.structs import replace

from trimtab.common.kubernetes.kinds.metadata import ObjectMeta
from trimtab.common.kubernetes.kinds.storage import (
    ClaimSpec,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeSpec,
)
from trimtab.common.kubernetes.object_errors import below
from trimtab.common.kubernetes.quantities import quantity
from trimtab.common.kubernetes.selectors import (
    IN,
    NODE_NAME_FIELD,
    Requirements,
    Terms,
    label_selector,
    matches,
    node_selector_terms,
    topology_terms,
)
from trimtab.common.kubernetes.signals import well_known
from trimtab.common.objects import migration
from trimtab.common.objects.csi_drivers import NO_DRIVERS, driver_requirement
from trimtab.common.objects.dictionary import Dictionary
from trimtab.common.objects.migration import NO_MIGRATION, Migration
from trimtab.common.objects.mounts import Claim, Disk, ebs_handle, gce_handle
from trimtab.v1 import snapshot_pb2 as pb

BIND_COMPLETED = well_known.BIND_COMPLETED.key
SELECTED_NODE = well_known.SELECTED_NODE.key
CLASS_ANNOTATION = well_known.OLD_STORAGE_CLASS.key
NO_PROVISIONER = "kubernetes.io/no-provisioner"
UNCOUNTED_PLUGINS = frozenset(
    {"kubernetes.io/azure-file", "kubernetes.io/portworx-volume", "kubernetes.io/vsphere-volume"}
)
"""Migrated in-tree plugins that the scheduler does not count."""
ZONE_LABELS = (migration.OLD_ZONE, migration.OLD_REGION, migration.ZONE, migration.REGION)


class Storage(NamedTuple):
    """The claims, volumes and classes of a cluster: by (namespace, name), by name, by name; its nodes' drivers; and the
    drivers without which no pod is scheduled. `migration` : which in-tree drivers count as CSI drivers on which nodes;
    `required_drivers` : names.
    """

    claims: Mapping[tuple[str, str], PersistentVolumeClaim]
    volumes: Mapping[str, PersistentVolume]
    classes: Mapping[str, StorageClass]
    migration: Migration = NO_MIGRATION
    required_drivers: frozenset[str] = NO_DRIVERS


class Mounter(NamedTuple):
    """The pod that mounts. `namespace`, `uid` : its own; `is_placed` : it is on a node."""

    namespace: str
    uid: str
    is_placed: bool = False


def claim_row(claim: Claim, pod: Mounter, storage: Storage, dictionary: Dictionary) -> pb.Volume:
    """Return the row of a claim as a pod mounts it. Errors: FieldError with the path below the faulty object."""
    key = f"{pod.namespace}/{claim.name}"
    found = storage.claims.get((pod.namespace, claim.name))
    if found is None:
        waiting = "; it is made for the pod by a controller" if claim.ephemeral else ""
        return _missing(key, f"claim {key} does not exist{waiting}")
    meta, spec = found.metadata or ObjectMeta(), found.spec or ClaimSpec()
    if claim.ephemeral and _controller_uid(meta) != pod.uid:
        return _missing(f"{key} (of another owner)", f"claim {key} exists, but is not of this pod")
    storage_class = storage.classes.get(_class_of(found))
    if claim.ephemeral and pod.is_placed and storage_class is not None and _waits(storage_class):
        # A pod in its place has a claim of its own, for which a volume is made anew.
        return _unbound_row(key, _made_anew(found), storage, dictionary)
    row = _bound_row(key, claim, found, storage, dictionary) if spec.volume_name else None
    if row is None:
        row = _unbound_row(key, found, storage, dictionary)
    if (found.status and found.status.phase) == "Lost":
        row.state, row.detail = pb.VolumeState.MISSING, f"claim {key} has lost its volume"
    elif meta.deletion_timestamp is not None:
        row.state, row.detail = pb.VolumeState.MISSING, f"claim {key} is being deleted"
    row.read_write_once_pod = not claim.ephemeral and "ReadWriteOncePod" in (spec.access_modes or ())
    return row


def disk_row(disk: Disk, dictionary: Dictionary, required: frozenset[str] = NO_DRIVERS) -> pb.Volume:
    """Return the row of an inline disk: nothing but an attachment; `required` : as in `Storage`."""
    return pb.Volume(
        id=f"{disk.driver}^{disk.handle}",
        state=pb.VolumeState.UNSPECIFIED,
        driver=dictionary.string(disk.driver),
        handle=dictionary.string(disk.handle),
        required_driver=dictionary.string(driver_requirement(disk.driver, migration.PLUGINS[disk.driver], required)),
    )


def _missing(identity: str, detail: str) -> pb.Volume:
    return pb.Volume(id=identity, state=pb.VolumeState.MISSING, detail=detail)


def _controller_uid(meta: ObjectMeta) -> str | None:
    for reference in meta.owner_references or ():
        if reference.controller:
            return reference.uid
    return None


def _bound_row(
    key: str, mount: Claim, claim: PersistentVolumeClaim, storage: Storage, dictionary: Dictionary
) -> pb.Volume | None:
    """Return the row of a claim that names its volume; None for a claim that is not fully bound."""
    name = (claim.spec.volume_name if claim.spec else None) or ""
    volume = storage.volumes.get(name)
    if volume is None:
        row = _missing(key, f"volume {name} of claim {key} does not exist")
        _count_by_class(row, claim, storage, dictionary)
        return row
    meta, spec = volume.metadata or ObjectMeta(), volume.spec or VolumeSpec()
    disk = attached_disk(meta, spec)
    disk = disk if disk.driver and disk.handle else Disk("", "")
    required = driver_requirement(disk.driver, migration.plugin_of(spec), storage.required_drivers)
    row = pb.Volume(
        id=key,
        driver=dictionary.string(disk.driver),
        handle=dictionary.string(disk.handle),
        required_driver=dictionary.string(required),
    )
    if BIND_COMPLETED not in ((claim.metadata and claim.metadata.annotations) or {}):
        row.state, row.detail = pb.VolumeState.UNBOUND_IMMEDIATE, f"claim {key} is not fully bound to volume {name}"
        return row
    row.state = pb.VolumeState.BOUND
    terms = _bound_terms(volume, storage.migration)
    if terms is not None:
        row.node_affinity.CopyFrom(dictionary.node_selector(terms) or pb.NodeSelector())
    if not mount.ephemeral:
        row.zone_labels.extend(
            pb.LabelPair(key=dictionary.string(label), value=dictionary.string(value))
            for label, value in _zone_labels(meta.labels or {})
        )
    return row


def _unbound_row(key: str, claim: PersistentVolumeClaim, storage: Storage, dictionary: Dictionary) -> pb.Volume:
    """Return the row of a claim that names no volume."""
    name = _class_of(claim)
    storage_class = storage.classes.get(name)
    if name and storage_class is None:
        return _missing(key, f"storage class {name} of claim {key} does not exist")
    row = pb.Volume(id=key)
    _count_by_class(row, claim, storage, dictionary)
    if storage_class is None or not _waits(storage_class):
        row.state, row.detail = pb.VolumeState.UNBOUND_IMMEDIATE, f"claim {key} is not bound yet"
        return row
    row.state = pb.VolumeState.WAIT_FOR_FIRST_CONSUMER
    terms = _waiting_terms(claim, storage_class, storage)
    if terms is not None:
        row.node_affinity.CopyFrom(dictionary.node_selector(terms) or pb.NodeSelector())
        row.detail = "" if terms else f"no volume of class {name} is available for claim {key}, and none can be made"
    return row


def _waits(storage_class: StorageClass) -> bool:
    return storage_class.volume_binding_mode == "WaitForFirstConsumer"


def _made_anew(claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
    """Return a claim as it is made for the pod in another one's place."""
    meta = replace(claim.metadata or ObjectMeta(), uid="new", deletion_timestamp=None)
    others = {key: value for key, value in (meta.annotations or {}).items() if key != SELECTED_NODE}
    spec = replace(claim.spec or ClaimSpec(), volume_name=None)
    return PersistentVolumeClaim(replace(meta, annotations=others), spec)


def _class_of(claim: PersistentVolumeClaim) -> str:
    annotated = ((claim.metadata and claim.metadata.annotations) or {}).get(CLASS_ANNOTATION)
    return annotated if annotated is not None else (claim.spec and claim.spec.storage_class_name) or ""


def _count_by_class(row: pb.Volume, claim: PersistentVolumeClaim, storage: Storage, dictionary: Dictionary) -> None:
    """Count a claim without a volume against the driver that its class would provision with."""
    storage_class = storage.classes.get(_class_of(claim))
    provisioner = (storage_class.provisioner if storage_class else None) or ""
    if provisioner not in UNCOUNTED_PLUGINS:
        driver = migration.DRIVERS.get(provisioner, provisioner)
        row.driver = dictionary.string(driver)
        row.required_driver = dictionary.string(driver_requirement(driver, provisioner, storage.required_drivers))


def attached_disk(meta: ObjectMeta, spec: VolumeSpec) -> Disk:
    """Return the driver and handle of a volume that count against attach limits; empty strings for none."""
    if spec.csi is not None:
        return Disk(spec.csi.driver or "", spec.csi.volume_handle or "")
    if spec.aws_elastic_block_store is not None:
        return Disk("ebs.csi.aws.com", ebs_handle(spec.aws_elastic_block_store.volume_id or ""))
    if spec.gce_persistent_disk is not None:
        labels = meta.labels or {}
        zone = labels.get(well_known.ZONE.key) or labels.get(well_known.OLD_ZONE.key) or ""
        return Disk("pd.csi.storage.gke.io", gce_handle(spec.gce_persistent_disk.pd_name or "", zone))
    if spec.azure_disk is not None:
        return Disk("disk.csi.azure.com", spec.azure_disk.disk_uri or "")
    if spec.cinder is not None:
        return Disk("cinder.csi.openstack.org", spec.cinder.volume_id or "")
    return Disk("", "")


def _bound_terms(volume: PersistentVolume, nodes: Migration) -> Terms | None:
    """Return the node affinity of a bound volume, on each node in the form of the driver that mounts it there."""
    spec, own = volume.spec or VolumeSpec(), _node_affinity(volume)
    plugin = migration.plugin_of(spec)
    if not plugin:
        return _reachable(own)
    labels = (volume.metadata and volume.metadata.labels) or {}
    translated = migration.translated_terms(plugin, own, spec, labels)
    return nodes.terms(plugin, _reachable(own), _reachable(translated))


def _node_affinity(volume: PersistentVolume) -> Terms | None:
    affinity = volume.spec.node_affinity if volume.spec else None
    required = affinity.required if affinity else None
    if required is None:
        return None
    with below(f"PersistentVolume {volume.metadata and volume.metadata.name}.spec.nodeAffinity.required"):
        return node_selector_terms(required)


def _reachable(terms: Terms | None) -> Terms | None:
    """Return terms as the scheduler checks those of volumes: only against labels; requirements on fields hold."""
    if terms is None or any(fields and not labels for labels, fields in terms):
        return None
    return tuple((labels, ()) for labels, _ in terms if labels)


def _zone_labels(labels: dict[str, str]) -> list[tuple[str, str]]:
    """Return zone and region labels, their "__"-separated values trimmed; a set with an empty member is ignored."""
    out = []
    for label in ZONE_LABELS:
        zones = [zone.strip() for zone in labels[label].split("__")] if label in labels else [""]
        if all(zones):
            out.append((label, "__".join(sorted(set(zones)))))
    return out


def _waiting_terms(claim: PersistentVolumeClaim, storage_class: StorageClass, storage: Storage) -> Terms | None:
    """Return where a waiting claim can be bound: the selected node, or available volumes, or provisioning."""
    annotations = (claim.metadata and claim.metadata.annotations) or {}
    provisioner = storage_class.provisioner or ""
    with below(f"StorageClass {_class_of(claim)}.allowedTopologies"):
        new = topology_terms(storage_class.allowed_topologies)
    if not provisioner or provisioner == NO_PROVISIONER:
        new = ()
    selected = annotations.get(SELECTED_NODE)
    if selected is not None:
        here: Requirements = ((NODE_NAME_FIELD, IN, (selected,)),)
        return (((), here),) if new is None else tuple((labels, here) for labels, _ in new if labels)
    terms: list[tuple[Requirements, Requirements]] = []
    for _, volume in sorted(storage.volumes.items()):
        if _available(volume, claim):
            place = _reachable(_node_affinity(volume))
            if place is None:
                return None
            terms.extend(place)
    return None if new is None else (*terms, *new)


def _available(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return whether the scheduler could bind the claim to this volume, if the node can reach it."""
    spec, want = volume.spec or VolumeSpec(), claim.spec or ClaimSpec()
    meta = volume.metadata or ObjectMeta()
    kept_for = spec.claim_ref
    mine = kept_for is not None and _is_kept_for(volume, claim)
    if kept_for is not None and not mine:
        return False
    if meta.deletion_timestamp is not None or _size(volume) < _wanted_size(claim):
        return False
    if (spec.volume_mode or "Filesystem") != (want.volume_mode or "Filesystem"):
        return False
    if (spec.volume_attributes_class_name or "") != (want.volume_attributes_class_name or ""):
        return False
    return mine or _chosen_freely(volume, claim)


def _chosen_freely(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    spec, want = volume.spec or VolumeSpec(), claim.spec or ClaimSpec()
    meta = volume.metadata or ObjectMeta()
    if (volume.status and volume.status.phase) != "Available":
        return False
    if want.selector is not None:
        with below(f"PersistentVolumeClaim {claim.metadata and claim.metadata.name}.spec.selector"):
            if not matches(label_selector(want.selector), meta.labels or {}):
                return False
    of_class = (meta.annotations or {}).get(CLASS_ANNOTATION, spec.storage_class_name or "")
    return of_class == _class_of(claim) and set(want.access_modes or ()) <= set(spec.access_modes or ())


def _is_kept_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    reference = volume.spec.claim_ref if volume.spec else None
    meta = claim.metadata or ObjectMeta()
    if reference is None or (reference.namespace, reference.name) != (meta.namespace or "default", meta.name):
        return False
    return not reference.uid or reference.uid == meta.uid


def _size(volume: PersistentVolume) -> int:
    with below(f"PersistentVolume {volume.metadata and volume.metadata.name}.spec.capacity.storage"):
        return quantity(((volume.spec and volume.spec.capacity) or {}).get("storage", "0"))


def _wanted_size(claim: PersistentVolumeClaim) -> int:
    resources = claim.spec.resources if claim.spec else None
    with below(f"PersistentVolumeClaim {claim.metadata and claim.metadata.name}.spec.resources.requests.storage"):
        return quantity(((resources and resources.requests) or {}).get("storage", "0"))
