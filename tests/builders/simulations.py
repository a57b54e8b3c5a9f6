"""A small scenario, and a simulated cluster on virtual time."""

from pathlib import Path
from typing import Any

from tests.builders.actuator import DELAYS, START_S
from tests.builders.kubernetes import (
    Json,
)
from trimtab.clients.simulation.cloud.provider import MemoryCloud
from trimtab.clients.simulation.cluster.cluster import SimulatedCluster
from trimtab.clients.simulation.cluster.controllers import Delays
from trimtab.clients.simulation.scenario import Scenario
from trimtab.clients.simulation.virtual_time import VirtualTime


def small(**more: Any) -> Scenario:
    """A scenario of a few nodes in which much happens."""
    groups = [
        {"name": name, "zone": name, "maxSize": 8, "size": 1, "cpu": "4", "memory": "16Gi", "price": price, **of_group}
        for name, price, of_group in (("a", 0.2, {"startFailureRate": 0.2}), ("b", 0.3, {"startSpread": "40s"}))
    ]
    workloads = [
        {"name": "agent", "kind": "DaemonSet", "pod": {"cpu": "100m"}},
        {
            "name": "web",
            "bursts": {"base": 3, "size": 9, "every": "50m", "length": "15m", "first": "5m"},
            "pod": {"cpu": "900m", "start": "20s"},
            "budget": {"maxUnavailable": 1},
        },
        {"name": "db", "kind": "StatefulSet", "replicas": 2, "pod": {"cpu": "500m"}},
    ]
    batches = [{"name": "etl", "perHour": 8, "pods": 2, "lifetime": "4m", "pod": {"cpu": "1"}}]
    given = {"seed": 5, "duration": "100m", "nodeGroups": groups, "workloads": workloads, "batches": batches, **more}
    return Scenario.model_validate(given)


class Simulation:
    """A cluster on virtual time."""

    def __init__(self, *objects: Json, path: Path | None = None, delays: Delays = DELAYS) -> None:
        self.time = VirtualTime(START_S)
        self.cluster = SimulatedCluster(objects, path, delays, self.time.clock, self.time.sleep)
        self.cloud = MemoryCloud(self.cluster)

    def evict(self, name: str, namespace: str = "default") -> None:
        pods = self.cluster.state.pods
        self.cluster.evict(pods[namespace, name].view(), None)

    def pods(self) -> dict[str, tuple[str, str]]:
        """Return node and phase of each pod that is not terminating."""
        return {
            o["metadata"]["name"]: (o["spec"].get("nodeName", ""), o["status"]["phase"])
            for o in self.objects("Pod").values()
            if "deletionTimestamp" not in o["metadata"]
        }

    def objects(self, kind: str) -> dict[str, Json]:
        return {o["metadata"]["name"]: o for o in self.cluster.objects() if o["kind"] == kind}

    def groups(self) -> dict[str, tuple[int, int]]:
        return {group.id: (group.target_size, group.instance_count) for group in self.cloud.node_groups()}
