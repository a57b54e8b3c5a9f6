"""Preemption as kube-scheduler does it. The cases of the choice among nodes are restated from upstream's order of
criteria (pkg/scheduler/framework/preemption, pickOneNodeForPreemption).
"""

import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.builders import kubernetes as k8s
from tests.builders.examples import examples
from trimtab.clients.simulation import ClusterSimulation
from trimtab.clients.simulation.cluster.cluster import SimulatedCluster
from trimtab.clients.simulation.cluster.node_info import Preemption
from trimtab.clients.simulation.cluster.pods import SimulatedPod, priority_of
from trimtab.clients.simulation.cluster.scheduler import KubeScheduler
from trimtab.clients.simulation.scenario import Scenario

Json = dict[str, Any]


def victim(name: str, node: str, priority: int, *, started: str = "00", cpu: str = "1", **more: Any) -> Json:
    """A running pod; `started` : the minute of its start."""
    spec = {**more.pop("spec", {}), "priority": priority}
    ready = {"type": "Ready", "status": "True"}
    status = {"phase": "Running", "startTime": f"2026-01-01T00:{started}:00Z", "conditions": [ready]}
    return k8s.pod(name, cpu=cpu, node=node, spec=spec, status=status, **more)


def preempted(objects: list[Json], priority: int = 1000, cpu: str = "2", **fields: Any) -> Preemption | None:
    """Where a pod preempts on nodes with two cores, and which pods."""
    scheduler = KubeScheduler()
    cluster = SimulatedCluster(objects, scheduler=scheduler)
    spec = {**fields.pop("spec", {}), "priority": priority}
    pod = SimulatedPod(k8s.pod("new", cpu=cpu, spec=spec, **fields))
    assert scheduler.choose(pod) is None
    before = {name: (dict(info.used), list(info.pods)) for name, info in cluster.state.nodes.items()}
    found = scheduler.preempt(pod, cluster.state.budgets)
    assert {name: (dict(info.used), list(info.pods)) for name, info in cluster.state.nodes.items()} == before
    return found


def nodes(*names: str) -> list[Json]:
    return [k8s.node(name, cpu="2") for name in names]


def on(found: Preemption | None) -> tuple[str, list[str]]:
    assert found is not None
    return found.node.name, [pod.key[1] for pod in found.victims]


CHOICES = {
    "fewest violations of budgets, even at a higher priority": (
        [
            victim("a", "n1", 1, labels={"app": "kept"}, cpu="2"),
            victim("b", "n2", 500, cpu="2"),
            k8s.pdb("kept", labels={"app": "kept"}, min_available=1),
        ],
        "n2",
    ),
    "lowest priority of the most important victim, even with more of them": (
        [victim("a", "n1", 200, cpu="2"), victim("b", "n2", 100), victim("c", "n2", 100)],
        "n2",
    ),
    "smallest sum of priorities": (
        [victim("a", "n1", 100), victim("b", "n1", 90), victim("c", "n2", 100), victim("d", "n2", 10)],
        "n2",
    ),
    "fewest victims, if all have negative priorities too": (
        [victim("a", "n1", -5), victim("b", "n1", -5), victim("c", "n2", -5, cpu="2")],
        "n2",
    ),
    "latest start of the earliest most important victim": (
        [
            *(victim("a", "n1", 5, started="30"), victim("b", "n1", 5, started="10")),
            *(victim("c", "n2", 5, started="20"), victim("d", "n2", 5, started="25")),
        ],
        "n2",
    ),
    "first name of equal nodes": ([victim("a", "n1", 5, cpu="2"), victim("b", "n2", 5, cpu="2")], "n1"),
}


@pytest.mark.parametrize(("objects", "node"), CHOICES.values(), ids=CHOICES.keys())
def test_the_node_is_chosen_by_the_criteria_of_the_scheduler_in_their_order(objects: list[Json], node: str) -> None:
    assert on(preempted([*nodes("n1", "n2"), *objects]))[0] == node


def test_as_many_pods_as_possible_stay_the_important_ones_first() -> None:
    objects = [victim("high", "n1", 300), victim("late", "n1", 100, started="20"), victim("early", "n1", 100)]
    assert on(preempted([k8s.node("n1", cpu="3"), *objects], cpu="1")) == ("n1", ["late"])


def test_a_pod_whose_budget_allows_no_disruption_stays_if_another_one_can_go() -> None:
    objects = [
        victim("kept", "n1", 1, labels={"app": "kept"}),
        victim("other", "n1", 100),
        k8s.pdb("kept", labels={"app": "kept"}, min_available=1),
    ]
    assert on(preempted([*nodes("n1"), *objects], cpu="1")) == ("n1", ["other"])


def test_a_budget_is_violated_if_nothing_else_helps() -> None:
    objects = [
        victim("kept", "n1", 1, labels={"app": "kept"}, cpu="2"),
        k8s.pdb("kept", labels={"app": "kept"}, min_available=1),
    ]
    assert on(preempted([*nodes("n1"), *objects])) == ("n1", ["kept"])


def test_pods_of_the_same_priority_are_no_victims() -> None:
    assert preempted([*nodes("n1"), victim("a", "n1", 1000, cpu="2")]) is None


def test_pods_of_daemon_sets_are_no_victims() -> None:
    owner = k8s.daemon_set("agent")
    objects = [owner, victim("agent-1", "n1", 0, cpu="2", owner=owner)]
    assert preempted([*nodes("n1"), *objects]) is None


def test_no_pod_goes_on_a_node_that_the_pod_can_never_have() -> None:
    objects = [k8s.node("n1", cpu="2", labels={"pool": "a"}), *nodes("n2")]
    found = preempted(
        [*objects, victim("a", "n1", 500, cpu="2"), victim("b", "n2", 1, cpu="2")], node_selector={"pool": "a"}
    )
    assert on(found) == ("n1", ["a"])


def test_an_anti_affinity_is_met_by_removing_only_the_pods_that_it_names() -> None:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    objects = [victim("x", "n1", 500, labels={"app": "x"}, cpu="500m"), victim("y", "n1", 1, cpu="500m")]
    assert on(preempted([*nodes("n1"), *objects], cpu="500m", affinity=apart)) == ("n1", ["x"])


VICTIMS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(-5, 12), st.sampled_from([300, 700, 1000]), st.sampled_from("xy")),
    min_size=3,
    max_size=9,
)


@examples(60)
@given(given_pods=VICTIMS, cpu=st.sampled_from([600, 1000, 1900]), kept=st.booleans())
def test_no_victim_could_stay_and_no_node_alone_would_need_better_ones(
    given_pods: list[tuple[int, int, int, str]], cpu: int, kept: bool
) -> None:
    objects, free = nodes("n0", "n1", "n2"), [2000, 2000, 2000]
    for number, (at, priority, milli, app) in enumerate(given_pods):
        if free[at] >= milli:
            free[at] -= milli
            objects.append(victim(f"v{number}", f"n{at}", priority, cpu=f"{milli}m", labels={"app": app}))
    if kept:
        objects.append(k8s.pdb("kept", labels={"app": "x"}, min_available="100%"))
    assume(max(free) < cpu)
    found = preempted(objects, priority=10, cpu=f"{cpu}m")
    alone = [
        one
        for name in ("n0", "n1", "n2")
        if (one := preempted([*others_closed(objects, name)], priority=10, cpu=f"{cpu}m")) is not None
    ]
    assert (found is None) == (not alone)
    if found is None:
        return
    room = free[int(found.node.name[1:])]
    amounts = [pod.requests["cpu"] for pod in found.victims]
    assert room + sum(amounts) >= cpu
    assert all(room + sum(amounts) - one < cpu for one in amounts)
    assert all(priority_of(pod) < 10 for pod in found.victims)
    assert criteria(found, kept) == min(criteria(one, kept) for one in alone)


def others_closed(objects: list[Json], name: str) -> list[Json]:
    """The same cluster, in which all nodes but one are cordoned."""
    return [
        {**one, "spec": {**one["spec"], "unschedulable": True}}
        if one["kind"] == "Node" and one["metadata"]["name"] != name
        else one
        for one in json.loads(json.dumps(objects))
    ]


def criteria(found: Preemption, kept: bool) -> tuple[int, int, int, int]:
    """What the scheduler compares nodes by, except for starts: all pods here have started together."""
    priorities = [priority_of(pod) for pod in found.victims]
    violations = sum(kept and pod.labels["app"] == "x" for pod in found.victims)
    return violations, max(priorities), sum(one + 2**31 for one in priorities), len(priorities)


def running(**high: Any) -> ClusterSimulation:
    """Two full nodes, and after a minute a workload of a higher priority."""
    simulation = ClusterSimulation()
    simulation.add_group("g", cpu="2", min_size=2, max_size=2, size=2)
    simulation.add_workload("low", replicas=4, cpu="1")
    simulation.run_for("1m")
    assert simulation.pending == []
    pod = {"cpu": "1", "spec": {"priority": 1000, **high}}
    simulation.add_workload("high", replicas=2, pod=pod)
    return simulation


def owners(simulation: ClusterSimulation) -> list[str]:
    pods = simulation.cluster.state.pods.values()
    return sorted(str(pod.owner["name"]) for pod in pods if pod.node and not pod.terminating)


def test_victims_end_and_start_again_as_pending_while_their_successors_run() -> None:
    simulation = running().run_for("30s")
    assert owners(simulation) == ["high", "high", "low", "low"]
    assert len(simulation.pending) == 2
    assert simulation.summary()["preemptions"] == 2
    assert simulation.run_for("60s").summary()["preemptionPendingS"] == pytest.approx(2 * 90.0, abs=5.0)


def test_a_pod_that_never_preempts_waits() -> None:
    simulation = running(preemptionPolicy="Never").run_for("30s")
    assert owners(simulation) == ["low"] * 4
    assert simulation.summary()["preemptions"] == 0


def test_the_room_of_victims_is_kept_for_the_pod_that_preempted_them() -> None:
    simulation = running()
    simulation.run_for("1s")
    pending = [simulation.cluster.state.pending["default", name.partition("/")[2]] for name in simulation.pending]
    nominated = [pod.nominated_node for pod in pending if pod.owner["name"] == "high"]
    assert len(nominated) == 2
    assert all(nominated)
    simulation.add_workload("small", replicas=4, cpu="500m")
    assert owners(simulation.run_for("1m")) == ["high", "high", "low", "low"]


def test_preemption_can_be_switched_off() -> None:
    first = {"priority": 5}
    groups = [{"name": "g", "cpu": "2", "minSize": 1, "maxSize": 1, "size": 1}]
    workloads = [
        {"name": "low", "replicas": 2, "pod": {"cpu": "1"}},
        {"name": "high", "replicas": 0, "steps": [{"at": "1m", "replicas": 1}], "pod": {"cpu": "1", "spec": first}},
    ]
    document = {"nodeGroups": groups, "workloads": workloads, "scheduler": {"preemption": False}}
    simulation = ClusterSimulation(Scenario.model_validate(document)).run_for("5m")
    assert owners(simulation) == ["low", "low"]
