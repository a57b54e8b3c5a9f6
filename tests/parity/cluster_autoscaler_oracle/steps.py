"""Clusters as they stand in the rounds of small simulations with the policy `upstream`; one seed, one simulation.

Each simulated cluster has a phase with many pods, in which it grows, and a quiet one, in which it shrinks. A document
is the cluster that the planner is asked about, as Kubernetes prints it, together with the whole policy. A round is left
out if nodes, hard taints, target sizes and the pods without a node are those of the last document, except every few
minutes.
"""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from typing import Any, NamedTuple

from google.protobuf import json_format

from trimtab.clients.cli.simulate.command import built_in
from trimtab.clients.in_process_planner import InProcessLink
from trimtab.clients.simulation.cluster.state import ClusterState
from trimtab.clients.simulation.scenario import Scenario
from trimtab.clients.simulation.simulation import ClusterSimulation, SimulationRunOptions
from trimtab.v1 import plan_pb2

POLICY = "upstream"
SCENARIOS = 3
EVERY_S = 480
"""Most time from one document to the next, seconds."""
Json = dict[str, Any]


class Step(NamedTuple):
    """One round. document : the question to the real autoscaler; answer : what the planner said in the simulation."""

    document: Json
    answer: plan_pb2.PlanResponse


def scenario(seed: int) -> Scenario:
    """A small cluster, from empty to busy to quiet within an hour."""
    r = random.Random(seed)
    prices = [round(r.uniform(0.15, 0.25), 3) for _ in range(2)]
    groups: list[Json] = [
        {"name": "small-a", "zone": "a", "cpu": "4", "memory": "16Gi", "minSize": 1, "maxSize": 14, "price": prices[0]},
        {"name": "small-b", "zone": "b", "cpu": "4", "memory": "16Gi", "minSize": 1, "maxSize": 14, "price": prices[0]},
        {"name": "wide-a", "zone": "a", "cpu": "8", "memory": "32Gi", "maxSize": 6, "price": 2 * prices[1]},
    ]
    groups[r.randrange(2)]["size"] = r.randint(2, 4)
    spread = {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}
    web: Json = {"cpu": r.choice(["450m", "700m", "900m"]), "memory": "1Gi", "start": "20s"}
    if seed % 2:
        web["spec"] = {"topologySpreadConstraints": [{**spread, "labelSelector": {"matchLabels": {"app": "web"}}}]}
    only_wide = {"nodeSelector": {"trimtab.dev/node-group": "wide-a"}}
    workloads: list[Json] = [
        {"name": "agent", "kind": "DaemonSet", "namespace": "infra", "pod": {"cpu": "100m", "memory": "200Mi"}},
        {
            "name": "web",
            "replicas": r.randint(9, 14),
            "steps": [{"at": "6m", "replicas": r.randint(60, 100)}, {"at": "20m", "replicas": r.randint(9, 14)}],
            "pod": web,
            "budget": {"maxUnavailable": r.randint(1, 3)},
        },
        {"name": "database", "kind": "StatefulSet", "replicas": 2, "pod": {"cpu": "1500m", "memory": "6Gi"}},
        {"name": "report", "bursts": {"size": r.randint(3, 6), "every": "1h", "length": "12m", "first": "8m"}},
    ]
    workloads[2]["budget"] = {"minAvailable": 2 if seed % 2 else 1}
    workloads[3]["pod"] = {"cpu": "2", "memory": "4Gi", **({"spec": only_wide} if seed % 3 == 0 else {})}
    batches = [{"name": "job", "perHour": 10, "pods": 2, "lifetime": "5m", "pod": {"cpu": "600m", "memory": "1Gi"}}]
    given: Json = {"name": f"steps-{seed}", "seed": seed, "duration": "55m", "timing": {"interval": "20s"}}
    return Scenario.model_validate({**given, "nodeGroups": groups, "workloads": workloads, "batches": batches})


class Watching(InProcessLink):
    """The planner, which keeps the cluster of each round."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.state: ClusterState | None = None
        self.steps: list[Step] = []
        self._before: Json = {}
        self._next_s = 0

    def send(self, request: plan_pb2.PlanRequest, payload: bytes) -> plan_pb2.PlanResponse:
        """Answer `Plan`."""
        assert self.state is not None, "set once the simulation exists"
        items, settings = _items(self.state), json_format.MessageToDict(request.settings)
        now = datetime.fromtimestamp(request.now.seconds, UTC).isoformat().replace("+00:00", "Z")
        answer = super().send(request, payload)
        shown = _shown(items)
        if shown != self._before or request.now.seconds >= self._next_s:
            self._before, self._next_s = shown, request.now.seconds + EVERY_S
            name = f"{self.name}-{len(self.steps)}"
            self.steps.append(Step({"name": name, "now": now, "settings": settings, "items": items}, answer))
        return answer


def simulated(seed: int) -> list[Step]:
    """The rounds of a simulation that differ from the ones before."""
    planner = Watching(f"steps-{seed}")
    simulation = ClusterSimulation(
        scenario(seed), settings=built_in(POLICY), options=SimulationRunOptions(link=planner)
    )
    planner.state = simulation.cluster.state
    simulation.run()
    return planner.steps


def _items(state: ClusterState) -> list[Json]:
    """The objects of the cluster, as they are now."""
    found = [state.nodes[name].node for name in sorted(state.nodes)]
    found += [state.pods[key].item for key in sorted(state.pods)]
    found += [state.groups[name] for name in sorted(state.groups)]
    found += [state.budgets.items[key] for key in sorted(state.budgets.items)]
    found += [state.others[key] for key in sorted(state.others)]
    return list(json.loads(json.dumps(found)))


def _shown(items: list[Json]) -> Json:
    """What of a cluster a loop acts on: nodes with their hard taints, pods without a node, target sizes."""
    shown: Json = {}
    for item in items:
        metadata, spec = item["metadata"], item.get("spec", {})
        key = f"{item['kind']}/{metadata.get('namespace', '')}/{metadata['name']}"
        if item["kind"] == "Node":
            shown[key] = [taint["key"] for taint in spec.get("taints", ()) if taint["effect"] == "NoSchedule"]
        elif item["kind"] == "NodeGroup":
            shown[key] = spec["targetSize"]
        elif item["kind"] == "Pod" and "nodeName" not in spec:
            shown[key] = "pending"
    return shown
