"""Claims and volumes of the simulated cluster: StatefulSets get claims, claims get volumes, volumes bind pods to zones.

A claim of a class with the mode Immediate has a volume at once, in a zone that follows from its name; one with
WaitForFirstConsumer when its pod is bound, in the zone of the node. Claims and volumes stay when their pod goes, so
that its successor returns to the zone. A node takes no more volumes of a driver than its CSINode allows. A claim that
does not exist, or names a volume that does not, binds nothing: it was not recorded. Not simulated: capacity, resizing;
attaching takes no time.
Source: kube-scheduler, plugins volumebinding and nodevolumelimits; component-helpers ChooseZoneForVolume.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Protocol

from trimtab.clients.simulation.cluster.node_info import NodeInfo
from trimtab.clients.simulation.cluster.objects import labels_of, made_uid
from trimtab.clients.simulation.cluster.pods import SimulatedPod
from trimtab.common.kubernetes.object_files import Object
from trimtab.common.kubernetes.selectors import selects_node
from trimtab.common.kubernetes.signals import well_known

ZONE: Final = well_known.ZONE.key
BIND_COMPLETED: Final = well_known.BIND_COMPLETED.key
IMMEDIATE: Final = "Immediate"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


class StoredObjects(Protocol):
    """The objects by "Kind/namespace/name", and how one is written."""

    others: dict[str, Object]

    def put(self, item: Object) -> None:
        """Add or replace an object."""


class VolumeNeeds(NamedTuple):
    """What the volumes of a pod need of its node. selectors : specs with a node affinity, all of which must allow it.

    attached : volumes to be attached, by their driver; is_bound : False = no node will do, as a claim has no volume yet
    """

    selectors: tuple[Mapping[str, Any], ...]
    attached: Mapping[str, frozenset[str]]
    is_bound: bool = True


class PodVolumes:
    """The volumes of a cluster's pods."""

    def __init__(self, objects: StoredObjects) -> None:
        self._objects = objects

    def needs(self, pod: SimulatedPod) -> VolumeNeeds | None:
        """Return what a pod's volumes need, None = nothing."""
        claims = self._claims(pod)
        if not claims:
            return None
        selectors, attached, is_bound = [], dict[str, set[str]](), True
        for claim in claims:
            volume, of_class = self._volume(claim), self._class(claim)
            if volume is None and _volume_name(claim):
                continue
            affinity = ((volume.get("spec") or {}).get("nodeAffinity") or {}).get("required") if volume else None
            if volume is None:
                is_bound &= of_class.get("volumeBindingMode", IMMEDIATE) != IMMEDIATE
                affinity = _allowed(of_class)
            if affinity:
                selectors.append({"affinity": {"nodeAffinity": {_REQUIRED: affinity}}})
            driver, handle = _driver(volume, of_class, claim)
            attached.setdefault(driver, set()).add(handle)
        return VolumeNeeds(tuple(selectors), {name: frozenset(one) for name, one in attached.items()}, is_bound)

    def allow(self, needs: VolumeNeeds, info: NodeInfo) -> bool:
        """Return whether a node can have a pod's volumes."""
        if not needs.is_bound:
            return False
        if not all(selects_node(selector, info.name, labels_of(info.node)) for selector in needs.selectors):
            return False
        limits = self._limits(info.name)
        if not any(driver in limits for driver in needs.attached):
            return True
        there: dict[str, set[str]] = {}
        for pod in info.pods.values():
            on_node = self.needs(pod) if pod.claims and not pod.terminal else None
            for driver, handles in (on_node.attached if on_node else {}).items():
                there.setdefault(driver, set()).update(handles)
        return all(
            len(there.get(driver, set()) | handles) <= limits[driver]
            for driver, handles in needs.attached.items()
            if driver in limits
        )

    def add_claims(self, owner: Object, item: Object) -> None:
        """Add to a new pod of a StatefulSet the volumes of its claims; create the claims that do not exist yet."""
        templates = (owner.get("spec") or {}).get("volumeClaimTemplates") or ()
        if not templates:
            return
        namespace, volumes = item["metadata"]["namespace"], list(item["spec"].get("volumes") or ())
        for template in templates:
            volume = template["metadata"]["name"]
            name = f"{volume}-{item['metadata']['name']}"
            volumes.append({"name": volume, "persistentVolumeClaim": {"claimName": name}})
            if f"PersistentVolumeClaim/{namespace}/{name}" not in self._objects.others:
                claim = _claim(namespace, name, template)
                self._objects.put(claim)
                of_class = self._class(claim)
                if of_class.get("volumeBindingMode", IMMEDIATE) == IMMEDIATE and of_class:
                    self._provide(claim, of_class, _zone_by_name(name, _zones(of_class)))
        item["spec"]["volumes"] = volumes

    def bind(self, pod: SimulatedPod, info: NodeInfo) -> None:
        """Provide the volumes for which the pod's claims have waited, in the zone of its node."""
        for claim in self._claims(pod):
            if not _volume_name(claim) and self._class(claim):
                self._provide(claim, self._class(claim), labels_of(info.node).get(ZONE, ""))

    def _provide(self, claim: Object, of_class: Mapping[str, Any], zone: str) -> None:
        """Create the volume of a claim."""
        about, wanted = claim["metadata"], claim.get("spec") or {}
        namespace = about.get("namespace") or "default"
        name = _made_name(claim)
        driver = str(of_class.get("provisioner") or "")
        spec: Object = {
            "accessModes": wanted.get("accessModes") or ["ReadWriteOnce"],
            "capacity": (wanted.get("resources") or {}).get("requests") or {},
            "storageClassName": wanted.get("storageClassName") or "",
            "claimRef": {"namespace": namespace, "name": about["name"], "uid": about.get("uid") or ""},
            "csi": {"driver": driver, "volumeHandle": name},
        }
        if zone:
            term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
        metadata = {"name": name, "uid": made_uid(name, 0)}
        volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec}
        self._objects.put({**volume, "status": {"phase": "Bound"}})
        bound = {**about, "annotations": {**(about.get("annotations") or {}), BIND_COMPLETED: "yes"}}
        of_claim = {**wanted, "volumeName": name}
        self._objects.put({**claim, "metadata": bound, "spec": of_claim, "status": {"phase": "Bound"}})

    def _claims(self, pod: SimulatedPod) -> list[Object]:
        found = (self._objects.others.get(f"PersistentVolumeClaim/{pod.key[0]}/{name}") for name in pod.claims)
        return [claim for claim in found if claim is not None]

    def _volume(self, claim: Object) -> Object | None:
        return self._objects.others.get(f"PersistentVolume//{_volume_name(claim)}")

    def _class(self, claim: Object) -> Object:
        name = (claim.get("spec") or {}).get("storageClassName") or ""
        return self._objects.others.get(f"StorageClass//{name}") or {}

    def _limits(self, node: str) -> dict[str, int]:
        """Return the attach limits of a node by driver."""
        drivers = ((self._objects.others.get(f"CSINode//{node}") or {}).get("spec") or {}).get("drivers") or ()
        counts = ((driver.get("name") or "", (driver.get("allocatable") or {}).get("count")) for driver in drivers)
        return {name: int(count) for name, count in counts if count is not None}


def _volume_name(claim: Object) -> str:
    return (claim.get("spec") or {}).get("volumeName") or ""


def csi_node(name: str, limits: Mapping[str, int]) -> Object:
    """Return the CSINode of a node with attach limits by driver."""
    drivers = [
        {"name": driver, "nodeID": name, "topologyKeys": [ZONE], "allocatable": {"count": count}}
        for driver, count in sorted(limits.items())
    ]
    metadata = {"name": name, "uid": made_uid(f"csinode/{name}", 0)}
    return {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": metadata, "spec": {"drivers": drivers}}


def _claim(namespace: str, name: str, template: Object) -> Object:
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": made_uid(f"claim/{namespace}/{name}", 0),
        "labels": dict((template.get("metadata") or {}).get("labels") or {}),
    }
    spec = dict(template.get("spec") or {})
    kind = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
    return {**kind, "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}


def _allowed(of_class: Mapping[str, Any]) -> Object | None:
    """Return the topologies of a class as a node selector, None = all nodes."""
    terms = [
        {
            "matchExpressions": [
                {"key": one["key"], "operator": "In", "values": one["values"]}
                for one in term.get("matchLabelExpressions") or ()
            ]
        }
        for term in of_class.get("allowedTopologies") or ()
    ]
    return {"nodeSelectorTerms": terms} if terms else None


def _zones(of_class: Mapping[str, Any]) -> list[str]:
    expressions = (
        one for term in of_class.get("allowedTopologies") or () for one in term.get("matchLabelExpressions") or ()
    )
    return sorted({value for one in expressions if one["key"] == ZONE for value in one["values"]})


def _zone_by_name(claim: str, zones: list[str]) -> str:
    """Return the zone of a volume that no pod decides: claims of a StatefulSet's successive pods take turns."""
    if not zones:
        return ""
    base, _, number = claim.rpartition("-")
    if not number.isdecimal():
        base, number = claim, "0"
    hashed = 2_166_136_261
    for byte in base.partition("-")[2].encode():
        hashed = hashed * 16_777_619 % (1 << 32) ^ byte
    return zones[(hashed + int(number)) % len(zones)]


def _driver(volume: Object | None, of_class: Mapping[str, Any], claim: Object) -> tuple[str, str]:
    """Return the driver that attaches a volume, and the volume's id there."""
    csi = ((volume or {}).get("spec") or {}).get("csi") or {}
    return str(csi.get("driver") or of_class.get("provisioner") or ""), str(
        csi.get("volumeHandle") or _made_name(claim)
    )


def _made_name(claim: Object) -> str:
    """Return the name and handle of the volume that is made for a claim."""
    about = claim["metadata"]
    return f"pv-{about.get('namespace') or 'default'}-{about['name']}"
