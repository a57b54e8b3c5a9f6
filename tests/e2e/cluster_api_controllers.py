"""Stand-ins for the controllers of Cluster API and the kubelets of new machines on a real API server.

A MachineDeployment has one MachineSet, which makes Machines; a MachinePool makes its Machines itself. Of too many
Machines those with the annotation `delete-machine` go first, then the first by name. A Machine that is deleted stays
until its Node is gone. Source: kubernetes-sigs/cluster-api, controllers of machineset, machinepool and machine.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.builders.cluster_api import BASE
from tests.e2e.control_plane.control_plane import ControlPlane
from trimtab.actuator.cloud.clusterapi.objects import CAPACITY, MAX_SIZE, MIN_SIZE
from trimtab.actuator.kube.api import Call, KubeApi
from trimtab.actuator.kube.cluster import ConflictError, NotFoundError
from trimtab.common.kubernetes.api import MERGE_PATCH
from trimtab.common.kubernetes.kinds.cluster_api import DELETE_MACHINE

Json = dict[str, Any]
GROUP_OF = {"machinesets": "cluster.x-k8s.io/set-name", "machinepools": "cluster.x-k8s.io/pool-name"}
DEPLOYMENT = "cluster.x-k8s.io/deployment-name"
FINALIZER = "machine.cluster.x-k8s.io"
CLUSTER = "workload"


def install(plane: ControlPlane) -> None:
    """Add the kinds of Cluster API to a control plane."""
    plane.kubectl("create", "-f", str(Path(__file__).parent / "cluster-api.yaml"))
    plane.kubectl("wait", "--for=condition=Established", "--timeout=120s", "crd", "--all")


def scalable(kind: str, name: str, replicas: int, sizes: tuple[int, int] | None, **capacity: str) -> Json:
    """A MachineDeployment or MachinePool; sizes : its least and most, None = it is not a node group."""
    annotations = {MIN_SIZE: str(sizes[0]), MAX_SIZE: str(sizes[1])} if sizes else {}
    annotations |= {CAPACITY + key: value for key, value in capacity.items()}
    meta = {"name": name, "namespace": "default", "annotations": annotations}
    return completed({"kind": kind, "metadata": meta, "spec": {"replicas": replicas}})


def completed(item: Json) -> Json:
    """A MachineDeployment or MachinePool with the fields that its kind requires."""
    labels = {"group": item["metadata"]["name"]}
    rest = {"clusterName": CLUSTER, "template": {"metadata": {"labels": labels}, "spec": {"clusterName": CLUSTER}}}
    if item["kind"] == "MachineDeployment":
        rest["selector"] = {"matchLabels": labels}
    return {**item, "apiVersion": "cluster.x-k8s.io/v1beta1", "spec": {**rest, **item["spec"]}}


class Controllers:
    """The controllers; they act when called, or continuously in `acting`."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api
        self._count = 0
        self._lock = threading.RLock()

    def create(self) -> None:
        """Create the Machines that are missing."""
        with self._lock:
            self._size_sets()
            for plural in GROUP_OF:
                for owner in self.listed(plural):
                    for _ in range(_replicas(owner) - len(self._staying(plural, owner))):
                        self._make(plural, owner)

    def settle(self) -> None:
        """Run all controllers until nothing is due."""
        with self._lock:
            self.create()
            for plural in GROUP_OF:
                for owner in self.listed(plural):
                    staying = sorted(self._staying(plural, owner), key=lambda one: (not _is_marked(one), _name(one)))
                    for machine in staying[: max(0, len(staying) - _replicas(owner))]:
                        self._delete(f"{BASE}/machines/{_name(machine)}")
            for machine in self.listed("machines"):
                if "deletionTimestamp" in machine["metadata"]:
                    self._end(machine)
                elif not machine["spec"].get("providerID"):
                    self._start(machine)
            for pool in self.listed("machinepools"):
                ids = [one["spec"]["providerID"] for one in self._staying("machinepools", pool)]
                if ids != pool["spec"].get("providerIDList", []):
                    self._patch(f"{BASE}/machinepools/{_name(pool)}", {"spec": {"providerIDList": ids}})

    @contextmanager
    def acting(self) -> Iterator[None]:
        """Act continuously, as controllers do. Raise their error at the end."""
        stop, errors = threading.Event(), list[Exception]()

        def act() -> None:
            while not stop.wait(0.1):
                try:
                    self.settle()
                except (ConflictError, NotFoundError):
                    continue  # another client was faster: the next read shows it
                except Exception as error:
                    errors.append(error)
                    return

        thread = threading.Thread(target=act)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
        if errors:
            raise errors[0]

    def clear(self) -> None:
        """Remove all objects, and the nodes of all Machines."""
        with self._lock:
            for plural in ("machinedeployments", "machinesets", "machinepools"):
                for item in self.listed(plural):
                    self._delete(f"{BASE}/{plural}/{_name(item)}")
            for machine in self.listed("machines"):
                self._delete(f"{BASE}/machines/{_name(machine)}")
                self._end(machine)

    def put(self, plural: str, item: Json) -> None:
        """Create an object."""
        self._api.call(Call("POST", f"{BASE}/{plural}", body=item, repeat=False))

    def listed(self, plural: str) -> list[Json]:
        """Objects of a kind, by name."""
        items: list[Json] = self._api.json(Call("GET", f"{BASE}/{plural}"))["items"]
        return sorted(items, key=_name)

    def _size_sets(self) -> None:
        """Give each MachineDeployment its MachineSet, and that the size it has to have."""
        sets = {_name(one): one for one in self.listed("machinesets")}
        for deployment in self.listed("machinedeployments"):
            name = f"{_name(deployment)}-set"
            if name not in sets:
                owner = {"uid": deployment["metadata"]["uid"], "kind": "MachineDeployment", "name": _name(deployment)}
                meta = {
                    "name": name,
                    "labels": {DEPLOYMENT: _name(deployment)},
                    "ownerReferences": [{"apiVersion": "cluster.x-k8s.io/v1beta1", "controller": True, **owner}],
                }
                self.put("machinesets", {**deployment, "kind": "MachineSet", "metadata": meta, "status": {}})
            elif _replicas(sets[name]) != _replicas(deployment):
                self._patch(f"{BASE}/machinesets/{name}", {"spec": {"replicas": _replicas(deployment)}})

    def _staying(self, plural: str, owner: Json) -> list[Json]:
        """Machines of a MachineSet or MachinePool that are not being deleted."""
        label = GROUP_OF[plural]
        return [
            one
            for one in self.listed("machines")
            if one["metadata"]["labels"].get(label) == _name(owner) and "deletionTimestamp" not in one["metadata"]
        ]

    def _make(self, plural: str, owner: Json) -> None:
        of_deployment = owner["metadata"].get("labels", {}).get(DEPLOYMENT)
        labels = {GROUP_OF[plural]: _name(owner)} | ({DEPLOYMENT: of_deployment} if of_deployment else {})
        name = f"{of_deployment or _name(owner)}-{self._count}"
        self._count += 1
        meta = {"name": name, "labels": labels, "finalizers": [FINALIZER]}
        spec = {"clusterName": CLUSTER, "bootstrap": {}, "infrastructureRef": {"kind": "TestMachine", "name": name}}
        item = {"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine", "metadata": meta, "spec": spec}
        self.put("machines", item)

    def _start(self, machine: Json) -> None:
        """Make a machine run, and its kubelet register."""
        name, labels = _name(machine), machine["metadata"]["labels"]
        group = labels.get(DEPLOYMENT) or labels[GROUP_OF["machinepools"]]
        amounts = {"cpu": "4", "memory": "16Gi", "pods": "110"}
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"kwok": "on", "pool": group, "kubernetes.io/hostname": name}},
            "spec": {"providerID": f"test:///{name}"},
            "status": {"capacity": amounts, "allocatable": amounts},
        }
        self._api.call(Call("POST", "/api/v1/nodes", body=node, repeat=False))
        self._patch(f"{BASE}/machines/{name}", {"spec": {"providerID": f"test:///{name}"}})
        status = {"phase": "Running", "nodeRef": {"kind": "Node", "name": name}}
        self._patch(f"{BASE}/machines/{name}/status", {"status": status})

    def _end(self, machine: Json) -> None:
        """Terminate a machine together with its Node."""
        self._delete(f"/api/v1/nodes/{_name(machine)}")
        with suppress(NotFoundError):
            self._patch(f"{BASE}/machines/{_name(machine)}", {"metadata": {"finalizers": None}})

    def _delete(self, path: str) -> None:
        """Delete an object that others may delete too."""
        with suppress(NotFoundError):
            self._api.call(Call("DELETE", path))

    def _patch(self, path: str, patch: Json) -> None:
        self._api.call(Call("PATCH", path, body=patch, content_type=MERGE_PATCH))


def _name(item: Json) -> str:
    return str(item["metadata"]["name"])


def _replicas(item: Json) -> int:
    return int(item["spec"]["replicas"])


def _is_marked(machine: Json) -> bool:
    return DELETE_MACHINE in machine["metadata"].get("annotations", {})
