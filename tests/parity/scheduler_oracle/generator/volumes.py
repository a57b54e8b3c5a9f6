"""Claims, volumes, storage classes and attach limits, in every state that a Filter plugin tells apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .source import HOST, ZONE, Source

EBS = "ebs.csi.aws.com"
EBS_ZONE = "topology.ebs.csi.aws.com/zone"
OTHER = "csi.example.com"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"


def _topology(*zones: str) -> list[dict[str, Any]]:
    return [{"matchLabelExpressions": [{"key": ZONE, "values": list(zones)}]}]


def storage_classes() -> list[dict[str, Any]]:
    """The classes that claims of every generated cluster may name."""
    wait, now = "WaitForFirstConsumer", "Immediate"
    table: list[tuple[str, str, str, list[dict[str, Any]]]] = [
        ("wait", EBS, wait, []),
        ("wait-ab", EBS, wait, _topology("zone-a", "zone-b")),
        ("wait-other", OTHER, wait, _topology("zone-c") + _topology("zone-a")),
        ("in-tree", "kubernetes.io/aws-ebs", wait, []),
        ("now", EBS, now, []),
        ("local", "kubernetes.io/no-provisioner", wait, []),
    ]
    return [
        {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode}
        | ({"allowedTopologies": topologies} if topologies else {})
        for name, provisioner, mode, topologies in table
    ]


def csi_nodes(s: Source, nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Attach limits: tight ones, none, a driver without a count, a node without CSINode.

    Most nodes get the driver's own zone label, which volumes of migrated in-tree plugins are matched by.
    """
    result = []
    for node in nodes:
        labels = node["metadata"]["labels"]
        if s.chance(0.7) and ZONE in labels:
            labels[EBS_ZONE] = labels[ZONE]
        if s.chance(0.15):
            continue
        name = node["metadata"]["name"]
        drivers: list[dict[str, Any]] = []
        if s.chance(0.85):
            drivers.append({"name": EBS, "nodeID": name, "topologyKeys": [ZONE]})
            if s.chance(0.8):
                drivers[-1]["allocatable"] = {"count": s.pick([0, 1, 2, 3, 25])}
        if s.chance(0.5):
            drivers.append(
                {"name": OTHER, "nodeID": name, "topologyKeys": [], "allocatable": {"count": s.number(1, 3)}}
            )
        metadata = {"name": name}
        if s.chance(0.8):
            metadata["annotations"] = {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/aws-ebs"}
        result.append({"metadata": metadata, "spec": {"drivers": drivers}})
    return result


class Volumes:
    """Makes the volumes of pods and collects the objects that stand behind them."""

    def __init__(self, s: Source, node_names: list[str], all_run: bool) -> None:
        self.s, self.node_names, self.all_run = s, node_names, all_run
        self.claims: list[dict[str, Any]] = []
        self.volumes: list[dict[str, Any]] = []
        self.shared: dict[str, list[str]] = {}

    def add(self, pod: dict[str, Any]) -> None:
        """Gives the pod one or two volumes; rarely a broken one.

        The ephemeral volume of a pod that runs, or will in any case (`all_run`), has its claim: without it no pod runs.
        """
        s = self.s
        kinds: list[tuple[int, Callable[[str, str], dict[str, Any]]]] = [
            (5, self._bound_by_affinity),
            (3, self._bound_by_label),
            (3, self._shared),
            (4, self._waiting),
            (2, self._in_tree_bound),
            (2, self._single_pod),
            (2, self._local),
            (1, self._immediate),
            (1, self._missing),
            (1, self._lost),
            (1, self._deleted),
            (2, self._inline),
        ]
        weighted = [kind for weight, kind in kinds for _ in range(weight)]
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        volumes = [self._ephemeral(pod)] if s.chance(0.1) else []
        for i in range(s.pick([1, 1, 2])):
            volumes.append({"name": f"v{i}"} | s.pick(weighted)(namespace, f"{name}-{i}"))
        pod["spec"]["volumes"] = volumes

    def _claim(self, namespace: str, name: str, **spec: Any) -> dict[str, Any]:
        claim: dict[str, Any] = {
            "metadata": {"namespace": namespace, "name": name},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}} | spec,
            "status": {"phase": "Bound" if "volumeName" in spec else "Pending"},
        }
        if "volumeName" in spec:
            claim["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
        self.claims.append(claim)
        return {"persistentVolumeClaim": {"claimName": name}}

    def _volume(self, namespace: str, claim: str, spec: dict[str, Any], labels: dict[str, str] | None = None) -> str:
        name = f"pv-{namespace}-{claim}"
        volume: dict[str, Any] = {
            "metadata": {"name": name},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "capacity": {"storage": "1Gi"},
                "claimRef": {"namespace": namespace, "name": claim},
            }
            | spec,
            "status": {"phase": "Bound"},
        }
        if labels:
            volume["metadata"]["labels"] = labels
        self.volumes.append(volume)
        return name

    def _csi(self, handle: str) -> dict[str, Any]:
        return {"csi": {"driver": self.s.pick([EBS, EBS, OTHER]), "volumeHandle": handle}}

    @staticmethod
    def _affinity(key: str, *values: str) -> dict[str, Any]:
        term = {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}
        return {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}

    def _zone(self) -> str:
        return f"zone-{self.s.pick('aaabbbccd')}"

    def _bound_by_affinity(self, namespace: str, claim: str) -> dict[str, Any]:
        spec = self._csi(claim) | self._affinity(ZONE, self._zone(), self._zone())
        return self._claim(namespace, claim, volumeName=self._volume(namespace, claim, spec))

    def _bound_by_label(self, namespace: str, claim: str) -> dict[str, Any]:
        key = self.s.pick([ZONE, ZONE, BETA_ZONE])
        zones = self._zone() if self.s.chance(0.6) else f"{self._zone()}__{self._zone()}"
        return self._claim(namespace, claim, volumeName=self._volume(namespace, claim, self._csi(claim), {key: zones}))

    def _in_tree_bound(self, namespace: str, claim: str) -> dict[str, Any]:
        source = {"awsElasticBlockStore": {"volumeID": f"vol-{claim}"}}
        spec = source | self._affinity(ZONE, self._zone(), self._zone())
        return self._claim(namespace, claim, volumeName=self._volume(namespace, claim, spec))

    def _shared(self, namespace: str, claim: str) -> dict[str, Any]:
        """One claim mounted by several pods counts once on a node."""
        known = self.shared.setdefault(namespace, [])
        if known and self.s.chance(0.7):
            return {"persistentVolumeClaim": {"claimName": self.s.pick(known)}}
        known.append(claim)
        volume = self._volume(namespace, claim, self._csi(claim) | {"accessModes": ["ReadWriteMany"]})
        return self._claim(namespace, claim, volumeName=volume, accessModes=["ReadWriteMany"])

    def _waiting(self, namespace: str, claim: str) -> dict[str, Any]:
        name = self.s.pick(["wait", "wait", "wait-ab", "wait-other", "in-tree"])
        return self._claim(namespace, claim, storageClassName=name)

    def _single_pod(self, namespace: str, claim: str) -> dict[str, Any]:
        known = self.shared.setdefault(f"{namespace} single", [])
        if known and self.s.chance(0.5):
            return {"persistentVolumeClaim": {"claimName": self.s.pick(known)}}
        known.append(claim)
        modes = ["ReadWriteOncePod"]
        volume = self._volume(namespace, claim, self._csi(claim) | {"accessModes": modes})
        return self._claim(namespace, claim, volumeName=volume, accessModes=modes)

    def _local(self, namespace: str, claim: str) -> dict[str, Any]:
        """A local volume, bound, or waiting with nothing that could be bound."""
        if self.s.chance(0.2):
            return self._claim(namespace, claim, storageClassName="local")
        spec = {"local": {"path": "/mnt"}, "storageClassName": "local"}
        spec |= self._affinity(HOST, self.s.pick(self.node_names))
        volume = self._volume(namespace, claim, spec)
        return self._claim(namespace, claim, volumeName=volume, storageClassName="local")

    def _immediate(self, namespace: str, claim: str) -> dict[str, Any]:
        return self._claim(namespace, claim, storageClassName=self.s.pick(["now", "now", "gone"]))

    def _missing(self, namespace: str, claim: str) -> dict[str, Any]:
        if self.s.chance(0.5):
            return {"persistentVolumeClaim": {"claimName": claim}}
        return self._claim(namespace, claim, volumeName="pv-that-is-gone")

    def _lost(self, namespace: str, claim: str) -> dict[str, Any]:
        result = self._claim(namespace, claim, volumeName="pv-lost")
        self.claims[-1]["status"]["phase"] = "Lost"
        return result

    def _deleted(self, namespace: str, claim: str) -> dict[str, Any]:
        result = self._bound_by_affinity(namespace, claim)
        self.claims[-1]["metadata"] |= {
            "deletionTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": ["kubernetes.io/pvc-protection"],
        }
        return result

    def _inline(self, namespace: str, claim: str) -> dict[str, Any]:
        del namespace
        if self.s.chance(0.5):
            return {"awsElasticBlockStore": {"volumeID": f"vol-{self.s.number(0, 5)}"}}
        if self.s.chance(0.5):
            return {"gcePersistentDisk": {"pdName": f"disk-{self.s.number(0, 3)}", "readOnly": self.s.chance(0.5)}}
        return {"emptyDir": {}} if self.s.chance(0.5) else {"csi": {"driver": OTHER}}

    def _ephemeral(self, pod: dict[str, Any]) -> dict[str, Any]:
        """A generic ephemeral volume; its claim belongs to the pod, or wrongly to none."""
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        runs = self.all_run or "nodeName" in pod["spec"]
        if self.s.chance(0.8) or runs:
            self._claim(namespace, f"{name}-scratch", storageClassName=self.s.pick(["wait", "wait-ab"]))
            if self.s.chance(0.8) or runs:
                owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": f"{namespace}/{name}"}
                self.claims[-1]["metadata"]["ownerReferences"] = [owner | {"controller": True}]
        template = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
        return {"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}
