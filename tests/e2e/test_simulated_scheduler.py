"""The simulated scheduler beside the real one: which pods it preempts, and which node it prefers, on the same clusters.

Each case has nodes of its own, which its pods alone select, so that all cases are in one control plane. Where several
nodes are equally good, the real scheduler takes any of those that the simulated one draws from.
"""

import json
import random
import time
from typing import Any, NamedTuple

import pytest

from tests.e2e.actuator_process import apply, listed
from tests.e2e.control_plane.control_plane import ControlPlane
from trimtab.clients.simulation.cluster.cluster import SimulatedCluster
from trimtab.clients.simulation.cluster.pods import SimulatedPod
from trimtab.clients.simulation.cluster.scheduler import KubeScheduler

pytestmark = pytest.mark.e2e
Json = dict[str, Any]
CASES = 12
WAIT_S = 120.0
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class Case(NamedTuple):
    """Objects of a small cluster, and the pod that comes last."""

    objects: list[Json]
    pod: Json


def node(case: str, number: int, cpu: str, zone: str = "", **labels: str) -> Json:
    amounts = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
    name = f"{case}-n{number}"
    own = {"kwok": "on", "case": case, HOST: name, **labels} | ({ZONE: f"{case}-{zone}"} if zone else {})
    metadata = {"name": name, "labels": own}
    status = {"capacity": amounts, "allocatable": amounts}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}


def pod(case: str, name: str, cpu: int, on: str = "", app: str = "new", **spec: Any) -> Json:
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": f"{cpu}m", "memory": "64Mi"}}}
    own: Json = {"containers": [container], "nodeSelector": {"case": case}, "terminationGracePeriodSeconds": 1, **spec}
    if on:
        own["nodeName"] = on
    if "priority" in own:
        own["priorityClassName"] = class_of(own["priority"])
    metadata = {"name": f"{case}-{name}", "namespace": "default", "labels": {"app": f"{case}-{app}"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": own}


def class_of(priority: int) -> str:
    return f"p{priority}" if priority >= 0 else f"minus{-priority}"


def preempting(seed: int) -> Case:
    """Three full nodes with pods of distinct priorities and sizes, some of them with a budget that allows nothing."""
    r, case = random.Random(seed), f"preempt{seed}"
    priorities = r.sample(range(-20, 90), 12)
    objects: list[Json] = [node(case, number, "4") for number in range(3)]
    for number in range(3):
        left, count = 4000, 0
        while left:
            cpu = min(left, r.choice([500, 1000, 1500, 2000]) if count < 3 else left)
            app = r.choice(["kept", "free", "free"])
            spec = {"priority": priorities.pop()}
            objects.append(pod(case, f"v{number}{count}", cpu, f"{case}-n{number}", app, **spec))
            left, count = left - cpu, count + 1
    selector = {"matchLabels": {"app": f"{case}-kept"}}
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": case, "namespace": "default"},
    }
    if any(one["metadata"].get("labels", {}).get("app") == f"{case}-kept" for one in objects):
        objects.append({**budget, "spec": {"maxUnavailable": 0, "selector": selector}})
    return Case(objects, pod(case, "new", r.choice([1000, 2000, 3000]), priority=r.choice([50, 100])))


def preferring(seed: int) -> Case:
    """Four nodes in two zones with a few pods that prefer others or not, and a pod with preferences."""
    r, case = random.Random(seed), f"prefer{seed}"
    objects: list[Json] = []
    for number in range(4):
        soft = [{"key": "soft", "value": "yes", "effect": "PreferNoSchedule"}] if r.random() < 0.2 else []
        one = node(case, number, "8", "ab"[number % 2], pool=r.choice("xyz"))
        objects.append({**one, "spec": {"taints": soft}})

    def terms() -> Json:
        found: Json = {}
        for kind in ("podAffinity", "podAntiAffinity"):
            if r.random() < 0.5:
                selector = {"matchLabels": {"app": f"{case}-{r.choice('xy')}"}}
                term = {"topologyKey": r.choice([ZONE, HOST]), "labelSelector": selector}
                found[kind] = {PREFERRED: [{"weight": r.randint(1, 100), "podAffinityTerm": term}]}
        return {"affinity": found} if found else {}

    for number in range(4):
        for count in range(r.randint(0, 3)):
            cpu = r.choice([100, 300, 700])
            objects.append(pod(case, f"p{number}{count}", cpu, f"{case}-n{number}", r.choice("xy"), **terms()))
    new = terms()
    if r.random() < 0.6:
        liked = {"matchExpressions": [{"key": "pool", "operator": "In", "values": [r.choice("xyz")]}]}
        affinity = {"nodeAffinity": {PREFERRED: [{"weight": r.randint(1, 100), "preference": liked}]}}
        new = {"affinity": {**new.get("affinity", {}), **affinity}}
    return Case(objects, pod(case, "new", 200, app=r.choice("xy"), **new))


def created(plane: ControlPlane, cases: list[Case]) -> dict[str, Json]:
    """Create all but the last pods, and wait until pods run and budgets are counted; return the pods by name."""
    every = [item for case in cases for item in (*case.objects, case.pod)]
    values = sorted({one["spec"]["priority"] for one in every if "priority" in one.get("spec", {})})
    classes = [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": class_of(value)},
            "value": value,
        }
        for value in values
    ]
    apply(plane, *classes, *(item for case in cases for item in case.objects if item["kind"] == "Node"))
    apply(plane, *(item for case in cases for item in case.objects if item["kind"] != "Node"))
    end_s = time.monotonic() + WAIT_S
    while True:
        pods = {one["metadata"]["name"]: one for one in listed(plane, "pods")}
        running = all(one.get("status", {}).get("phase") == "Running" for one in pods.values())
        budgets = listed(plane, "poddisruptionbudgets")
        if running and all(one.get("status", {}).get("currentHealthy", 0) > 0 for one in budgets):
            return pods
        assert time.monotonic() < end_s, "the pods do not run"
        time.sleep(0.5)


def placed(plane: ControlPlane, cases: list[Case]) -> dict[str, str]:
    """Create the last pods; return the node of each, once all have one."""
    apply(plane, *(case.pod for case in cases))
    names = {case.pod["metadata"]["name"] for case in cases}
    end_s = time.monotonic() + WAIT_S
    while True:
        found = {
            one["metadata"]["name"]: one["spec"].get("nodeName", "")
            for one in listed(plane, "pods")
            if one["metadata"]["name"] in names
        }
        if all(found.values()):
            return found
        assert time.monotonic() < end_s, (
            f"these have no node: {sorted(name for name, node in found.items() if not node)}"
        )
        time.sleep(0.5)


def simulated(case: Case, pods: dict[str, Json], seed: int = 0) -> tuple[KubeScheduler, SimulatedCluster, SimulatedPod]:
    """The same cluster, with the pods as the control plane has them."""
    copied = json.loads(json.dumps([pods.get(one["metadata"]["name"], one) for one in case.objects]))
    scheduler = KubeScheduler(seed)
    return scheduler, SimulatedCluster(copied, scheduler=scheduler), SimulatedPod(json.loads(json.dumps(case.pod)))


@pytest.mark.timeout(600)
def test_the_simulated_scheduler_preempts_the_pods_that_the_real_one_does(plane: ControlPlane) -> None:
    cases = [preempting(seed) for seed in range(CASES)]
    ours: dict[str, tuple[str, list[str]]] = {}
    pods = created(plane, cases)
    for case in cases:
        scheduler, cluster, new = simulated(case, pods)
        assert scheduler.choose(new) is None
        found = scheduler.preempt(new, cluster.state.budgets)
        assert found is not None
        ours[new.key[1]] = found.node.name, sorted(one.key[1] for one in found.victims)
    nodes = placed(plane, cases)
    left = {one["metadata"]["name"] for one in listed(plane, "pods") if "deletionTimestamp" not in one["metadata"]}
    theirs = {
        case.pod["metadata"]["name"]: (
            nodes[case.pod["metadata"]["name"]],
            sorted(
                one["metadata"]["name"]
                for one in case.objects
                if one["kind"] == "Pod" and one["metadata"]["name"] not in left
            ),
        )
        for case in cases
    }
    assert theirs == ours
    assert len({len(victims) for _, victims in ours.values()}) > 1


@pytest.mark.timeout(600)
def test_the_simulated_scheduler_prefers_the_nodes_that_the_real_one_does(plane: ControlPlane) -> None:
    cases = [preferring(seed) for seed in range(CASES)]
    pods = created(plane, cases)
    ours: dict[str, set[str]] = {}
    for case in cases:
        names = set()
        for seed in range(12):
            scheduler, _, new = simulated(case, pods, seed)
            info = scheduler.choose(new)
            assert info is not None
            names.add(info.name)
        ours[case.pod["metadata"]["name"]] = names
    theirs = placed(plane, cases)
    assert {name: node for name, node in theirs.items() if node not in ours[name]} == {}
    assert sum(len(names) == 1 for names in ours.values()) > CASES / 2
