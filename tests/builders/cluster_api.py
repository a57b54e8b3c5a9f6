"""A management cluster on a small API server, with stand-ins for the controllers of Cluster API."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.builders.json_api import JsonApiServer
from trimtab.actuator.cloud.clusterapi.cloud import ClusterApiCloud
from trimtab.actuator.cloud.clusterapi.objects import CAPACITY, DELETED, MAX_SIZE, MIN_SIZE, OPTIONS, PRICE
from trimtab.actuator.cloud.provider import (
    Activity,
    CloudError,
    CloudNodeTemplate,
    GroupOptions,
    Instance,
    InstanceState,
    NodeGroupView,
)
from trimtab.common.kubernetes.kinds.cluster_api import DELETE_MACHINE

Json = dict[str, Any]
BASE = "/apis/cluster.x-k8s.io/v1beta1/namespaces/default"
KIND = "MachineDeployment/default/"


def machine_deployment(name: str, low: int, high: int, replicas: int, **annotations: str) -> Json:
    """Return a MachineDeployment that is a node group. `annotations` : of its capacity, by suffix."""
    return {
        "apiVersion": "cluster.x-k8s.io/v1beta1",
        "kind": "MachineDeployment",
        "metadata": {
            "name": name,
            "namespace": "default",
            "annotations": {
                MIN_SIZE: str(low),
                MAX_SIZE: str(high),
                **{CAPACITY + key.replace("_", "-"): value for key, value in annotations.items()},
            },
        },
        "spec": {"replicas": replicas},
    }


class Controllers:
    """Creates Machines for MachineDeployments, starts them, and removes marked ones when there are too many."""

    def __init__(self, server: JsonApiServer) -> None:
        self._server = server
        self._count = 0

    def create(self) -> None:
        """Create the Machines that are missing."""
        with self._server.lock:
            for group in self._of("machinedeployments"):
                for _ in range(group["spec"]["replicas"] - len(self.machines(group))):
                    name = group["metadata"]["name"]
                    self._put(f"{name}-{self._count}", name)
                    self._count += 1

    def settle(self) -> None:
        """Run all controllers until nothing is due."""
        with self._server.lock:
            for group in self._of("machinedeployments"):
                machines = self.machines(group)
                surplus = len(machines) - group["spec"]["replicas"]
                for machine in sorted(machines, key=lambda one: not _is_marked(one))[: max(0, surplus)]:
                    del self._server.objects[f"{BASE}/machines/{machine['metadata']['name']}"]
            self.create()
            for machine in self._of("machines"):
                machine["status"] = {"phase": "Running"}
                machine["spec"]["providerID"] = f"test:///{machine['metadata']['name']}"

    def machines(self, group: Json) -> list[Json]:
        name = group["metadata"]["name"]
        return [
            one for one in self._of("machines") if one["metadata"]["labels"]["cluster.x-k8s.io/deployment-name"] == name
        ]

    def _of(self, plural: str) -> list[Json]:
        return [item for path, item in sorted(self._server.objects.items()) if path.startswith(f"{BASE}/{plural}/")]

    def _put(self, name: str, group: str) -> None:
        labels = {"cluster.x-k8s.io/deployment-name": group}
        metadata = {"name": name, "namespace": "default", "labels": labels}
        self._server.put(f"{BASE}/machines", {"metadata": metadata, "spec": {}, "status": {"phase": "Provisioning"}})


def _is_marked(machine: Json) -> bool:
    return DELETE_MACHINE in machine["metadata"].get("annotations", {})


class ShortNames:
    """The cloud with MachineDeployments of the namespace "default" under their bare names; controllers are quick."""

    def __init__(self, cloud: ClusterApiCloud, controllers: Controllers) -> None:
        self._cloud, self._controllers = cloud, controllers
        self.name, self.gpu_label = cloud.name, cloud.gpu_label

    def refresh(self) -> None:
        self._controllers.create()
        self._cloud.refresh()

    def node_groups(self) -> Sequence[NodeGroupView]:
        return [view._replace(id=view.id.removeprefix(KIND)) for view in self._cloud.node_groups()]

    def groups_of(self, instances: Sequence[str]) -> Mapping[str, str]:
        return {one: group.removeprefix(KIND) for one, group in self._cloud.groups_of(instances).items()}

    def instances(self, groups: Sequence[str]) -> Mapping[str, Sequence[Instance]]:
        found = self._cloud.instances([KIND + group for group in groups])
        return {group.removeprefix(KIND): members for group, members in found.items()}

    def instance_states(self, group: str, instances: Sequence[str]) -> Mapping[str, InstanceState]:
        return self._cloud.instance_states(KIND + group, instances)

    def remember(self, group: str, instances: Sequence[str]) -> None:
        self._cloud.remember(KIND + group, instances)

    def forget(self, group: str, instances: Sequence[str]) -> None:
        self._cloud.forget(KIND + group, instances)

    def delete_instances(self, group: str, instances: Sequence[str]) -> Mapping[str, CloudError]:
        return self._cloud.delete_instances(KIND + group, instances)

    def set_size(self, group: str, expected: int, wanted: int, token: str) -> None:
        self._cloud.set_size(KIND + group, expected, wanted, token)

    def was_set(self, group: str, wanted: int, token: str) -> bool:
        return self._cloud.was_set(KIND + group, wanted, token)

    def decrease_target(self, group: str, expected: int, wanted: int) -> None:
        self._cloud.decrease_target(KIND + group, expected, wanted)

    def template(self, group: str) -> CloudNodeTemplate | None:
        return self._cloud.template(KIND + group)

    def price_per_hour(self, group: str) -> float | None:
        return self._cloud.price_per_hour(KIND + group)

    def options(self, group: str) -> GroupOptions:
        return self._cloud.options(KIND + group)

    def activities(self, group: str) -> Sequence[Activity]:
        return self._cloud.activities(KIND + group)


def fill(server: JsonApiServer) -> Controllers:
    """Create the two groups of the contract tests on the server, with all their Machines running."""
    large = machine_deployment("g", 1, 6, 3, cpu="8", memory="32Gi", labels="pool=a", taints="team=web:NoSchedule")
    large["metadata"]["annotations"] |= {PRICE: "0.4", OPTIONS + "scaledownunneededtime": "7m"}
    for item in (large, machine_deployment("h", 0, 2, 0, cpu="4", memory="16Gi")):
        server.put(f"{BASE}/machinedeployments", item)
    controllers = Controllers(server)
    controllers.settle()
    return controllers


__all__ = ["BASE", "DELETED", "KIND", "Controllers", "ShortNames", "fill", "machine_deployment"]
