"""Gangs in the simulation: when the scheduler binds the pods of a pod group, and what scenarios with them order."""

import copy
import json
from collections import Counter
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.builders import kubernetes as k8s
from tests.builders.examples import examples
from trimtab.clients.cli.blocks import Chart, Table
from trimtab.clients.cli.report.command import simulated
from trimtab.clients.cli.simulate.table import figures
from trimtab.clients.simulation import ClusterSimulation
from trimtab.clients.simulation.cluster.cluster import SimulatedCluster
from trimtab.clients.simulation.cluster.objects import condition_reason
from trimtab.clients.simulation.cluster.scheduler import KubeScheduler
from trimtab.clients.simulation.result import result_of
from trimtab.clients.simulation.scenario import Scenario
from trimtab.clients.simulation.traces.arrivals import Arrival

Json = dict[str, Any]


def group(name: str = "g", least: int = 2, *, basic: bool = False, **spec: Any) -> Json:
    policy: Json = {"basic": {}} if basic else {"gang": {"minCount": least}}
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"namespace": "default", "name": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"schedulingPolicy": policy, **spec},
    }


def member(name: str, cpu: str = "1", of: str = "g", **more: Any) -> Json:
    status = {} if more.get("node") else {"status": {"phase": "Pending", "conditions": None}}
    return k8s.pod(name, cpu=cpu, spec={"schedulingGroup": {"podGroupName": of}}, **status, **more)


def cluster(*objects: Json, kube: bool = True) -> SimulatedCluster:
    return SimulatedCluster(objects, scheduler=KubeScheduler() if kube else None)


def bound(one: SimulatedCluster) -> list[str]:
    return sorted(name for (_, name), pod in one.state.pods.items() if pod.node)


def reasons(one: SimulatedCluster) -> set[str]:
    return {condition_reason(pod.item, "PodScheduled") for pod in one.state.pods.values() if not pod.node}


@pytest.mark.parametrize("kube", [True, False])
def test_a_gang_that_cannot_be_whole_stays_pending_with_nothing_bound_and_its_room_is_free(kube: bool) -> None:
    pods = [member(f"p{number}") for number in range(3)]
    single = k8s.pod("single", cpu="2", priority=-1)
    found = cluster(k8s.node("n1", cpu="2"), group(least=3), *pods, single, kube=kube)
    assert bound(found) == ["single"]
    assert reasons(found) == {"Unschedulable"}
    assert found.state.nodes["n1"].used["cpu"] == 2000


@pytest.mark.parametrize("kube", [True, False])
def test_a_gang_that_can_be_whole_is_bound_over_several_nodes(kube: bool) -> None:
    pods = [member(f"p{number}") for number in range(3)]
    found = cluster(k8s.node("n1", cpu="2"), k8s.node("n2", cpu="1"), group(least=3), *pods, kube=kube)
    assert bound(found) == ["p0", "p1", "p2"]


def test_pods_wait_until_their_group_exists() -> None:
    found = cluster(k8s.node("n1", cpu="2"), member("p0"), member("p1"))
    assert bound(found) == []
    assert reasons(found) == {""}
    with found.transaction() as state:
        state.put(group())
    assert bound(found) == ["p0", "p1"]


def test_pods_wait_until_as_many_exist_as_the_minimum() -> None:
    found = cluster(k8s.node("n1", cpu="4"), group(least=3), member("p0"), member("p1"))
    assert bound(found) == []
    assert reasons(found) == {""}
    with found.transaction() as state:
        state.put(member("p2"))
    assert bound(found) == ["p0", "p1", "p2"]


@pytest.mark.parametrize(
    "broken",
    [
        group(least=0),
        group() | {"spec": {"schedulingPolicy": {}}},
        group() | {"apiVersion": "scheduling.volcano.sh/v1beta1"},
    ],
)
def test_a_group_that_cannot_be_read_holds_its_pods(broken: Json) -> None:
    assert bound(cluster(k8s.node("n1", cpu="4"), broken, member("p0"), member("p1"))) == []


def test_pods_without_a_place_are_passed_over_and_those_beyond_the_minimum_are_bound() -> None:
    pods = [member("a", priority=9, cpu="8"), member("b"), member("c"), member("d")]
    found = cluster(k8s.node("n1", cpu="3"), group(least=2), *pods)
    assert bound(found) == ["b", "c", "d"]
    assert reasons(found) == {"Unschedulable"}


def test_pods_of_a_gang_are_placed_by_priority_and_then_by_age() -> None:
    old, late = "2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z"
    pods = [member("a", created=late), member("b", created=old), member("c", created=late, priority=1)]
    assert bound(cluster(k8s.node("n1", cpu="2"), group(least=2), *pods)) == ["b", "c"]


def test_pods_on_nodes_count_for_the_minimum() -> None:
    pods = [member("a", node="n1"), member("b", node="n1"), member("c"), member("d")]
    assert bound(cluster(k8s.node("n1", cpu="3"), group(least=3), *pods)) == ["a", "b", "c"]


def test_a_group_with_the_policy_basic_has_no_minimum() -> None:
    assert bound(cluster(k8s.node("n1", cpu="1"), group(basic=True), member("a"), member("b"))) == ["a"]


def test_a_group_without_priority_takes_its_turn_by_its_first_pod() -> None:
    pods = [member("g1", of="g"), member("g2", of="g", priority=1), member("h1", of="h"), member("h2", of="h")]
    assert bound(cluster(k8s.node("n1", cpu="2"), group("h"), group("g"), *pods)) == ["g1", "g2"]


@pytest.mark.parametrize("mode", [None, "PodGroup"])
def test_the_priority_of_a_group_of_1_36_is_not_looked_at(mode: str | None) -> None:
    version = {} if mode else {"apiVersion": "scheduling.k8s.io/v1alpha2"}
    later = group("h", priority=5, disruptionMode=mode) | version
    objects = [group("g"), later, *(member(name, of=name[0]) for name in ("g1", "g2", "h1", "h2"))]
    assert bound(cluster(k8s.node("n1", cpu="2"), *objects)) == ["g1", "g2"]


def spec(name: str, of: str = "g", **more: Any) -> Json:
    """A pod of a group with more in its spec."""
    made = member(name, of=of)
    return made | {"spec": made["spec"] | more}


def bound_in(*objects: Json) -> list[str]:
    """Names of the pods on nodes of a cluster of copies of these objects."""
    return bound(cluster(*copy.deepcopy(objects)))


def test_a_group_of_1_37_is_held_while_a_pod_has_another_priority() -> None:
    room = k8s.node("n1", cpu="9")
    pods = [member("a", priority=5), member("b", priority=5)]
    assert bound_in(room, group(priority=5), *pods) == ["a", "b"]
    assert bound_in(room, group(priority=4), *pods) == []
    assert bound_in(room, group(priority=5), *pods, member("c")) == []
    assert bound_in(room, group(priority=5), *pods, member("c", node="n1")) == ["c"]
    assert bound_in(room, group(basic=True, priority=4), *pods) == []


def test_a_group_of_1_37_is_held_while_a_pod_has_scheduling_gates() -> None:
    gated = spec("c", schedulingGates=[{"name": "wait"}])
    room, pods = k8s.node("n1", cpu="9"), [member("a"), member("b")]
    for one in (group(priority=0), group(basic=True, priority=0)):
        assert bound_in(room, one, *pods, gated) == []
        assert bound_in(room, one, *pods) == ["a", "b"]
    assert bound_in(room, group(), *pods, gated) == ["a", "b"]


@pytest.mark.parametrize("basic", [False, True])
def test_no_pod_of_a_group_is_bound_if_its_pods_name_several_schedulers(basic: bool) -> None:
    room, of_1_36, of_1_37 = k8s.node("n1", cpu="9"), group(basic=basic), group(basic=basic, priority=0)
    other, running = spec("c", schedulerName="second"), member("c", node="n1")
    running["spec"]["schedulerName"] = "second"
    pods = [member("a"), member("b")]
    assert bound_in(room, of_1_36, *pods, other) == []
    assert bound_in(room, of_1_37, *pods, other) == []
    # Of 1.36, pods on nodes do not count.
    assert bound_in(room, of_1_36, *pods, running) == ["a", "b", "c"]
    assert bound_in(room, of_1_37, *pods, running) == ["c"]


@pytest.mark.parametrize(("version", "priority", "api"), [("1.36", None, "v1alpha2"), ("1.37", 7, "v1beta1")])
def test_the_groups_of_a_scenario_are_of_its_version(version: str, priority: int | None, api: str) -> None:
    pod = {"cpu": "3", "spec": {"priority": 7}}
    groups = [{"name": "small", "cpu": "4", "maxSize": 8}]
    workloads = [{"name": "w", "replicas": 2, "gang": {"minCount": 2}, "pod": pod}]
    batches = [{"name": "job", "perHour": 60, "pods": 2, "gang": {}, "pod": pod}]
    made = scenario(nodeGroups=groups, workloads=workloads, batches=batches, scheduler={"podGroups": version})
    simulation = ClusterSimulation(made).run()
    found = [one for key, one in simulation.cluster.state.others.items() if key.startswith("PodGroup/")]
    assert {one["apiVersion"] for one in found} == {f"scheduling.k8s.io/{api}"}
    assert {one["spec"].get("priority") for one in found} == {priority}
    assert simulation.summary()["gangsWhole"] >= 2


def test_a_gang_preempts_no_pods() -> None:
    running = k8s.pod("low", cpu="2", node="n1", priority=-5)
    found = cluster(k8s.node("n1", cpu="2"), group(), running, member("a", priority=9), member("b", priority=9))
    assert bound(found) == ["low"]
    assert not found.state.pods["default", "low"].terminating


AMOUNTS = st.integers(1, 4)
GANGS = st.lists(st.tuples(AMOUNTS, st.lists(AMOUNTS, min_size=1, max_size=5)), max_size=4)


@given(nodes=st.lists(AMOUNTS, min_size=1, max_size=4), gangs=GANGS, kube=st.booleans())
@examples(100)
def test_never_fewer_pods_of_a_gang_are_bound_than_its_minimum_and_sums_stay_those_of_the_pods(
    nodes: list[int], gangs: list[tuple[int, list[int]]], kube: bool
) -> None:
    objects = [k8s.node(f"n{number}", cpu=str(cpu)) for number, cpu in enumerate(nodes)]
    for number, (least, pods) in enumerate(gangs):
        objects.append(group(f"g{number}", least))
        objects += [member(f"g{number}-{index}", str(cpu), f"g{number}") for index, cpu in enumerate(pods)]
    found = cluster(*objects, kube=kube)
    counts = Counter(name.partition("-")[0] for name in bound(found))
    assert all(counts[f"g{number}"] in (0, *range(least, 6)) for number, (least, _) in enumerate(gangs))
    for info in found.state.nodes.values():
        used = sum(pod.requests["cpu"] for pod in found.state.pods.values() if pod.node == info.name)
        assert info.used.get("cpu", 0) == used <= info.allocatable["cpu"]


def scenario(**more: Any) -> Scenario:
    """A gang over two node groups, and one of which three of four pods can ever have a place."""
    taint = {"key": "gpu", "effect": "NoSchedule"}
    groups = [
        {"name": "cpu", "cpu": "4", "maxSize": 1, "price": 0.2, "start": "60s"},
        {
            "name": "gpu",
            "cpu": "8",
            "maxSize": 3,
            "price": 2.0,
            "start": "3m",
            "labels": {"kind": "gpu"},
            "taints": [taint],
        },
    ]
    on_gpu = {"nodeSelector": {"kind": "gpu"}, "tolerations": [{"key": "gpu", "operator": "Exists"}]}
    workloads = [
        {"name": "head", "pod": {"cpu": "3"}, "gang": {"name": "train", "minCount": 3}},
        {
            "name": "worker",
            "replicas": 2,
            "pod": {"cpu": "6", "spec": on_gpu},
            "gang": {"name": "train", "minCount": 3},
        },
        {"name": "large", "replicas": 4, "pod": {"cpu": "5", "spec": on_gpu}, "gang": {"minCount": 4}},
    ]
    given_ = {"seed": 1, "duration": "10m", "timing": {"interval": "30s"}, "nodeGroups": groups, "workloads": workloads}
    return Scenario.model_validate({**given_, **more})


@cache
def ran() -> ClusterSimulation:
    """The scenario after its end; tests only read it."""
    return ClusterSimulation(scenario()).run()


def test_a_gang_over_two_node_groups_becomes_whole_and_no_node_is_ordered_for_one_that_cannot() -> None:
    simulation = ran()
    assert {name: simulation.pod_count(name) for name in ("head", "worker", "large")} == {
        "head": 1,
        "worker": 2,
        "large": 0,
    }
    assert {name: simulation.node_count(name) for name in ("cpu", "gpu")} == {"cpu": 1, "gpu": 2}
    summary = simulation.summary()
    assert summary["nodesAdded"] == 3
    assert (summary["gangsWhole"], summary["gangsNotWholeAtEnd"]) == (1, 1)
    assert 180 <= summary["timeToFullGangS"]["p50"] <= 200
    assert summary["timeToFullGangS"]["max"] == 600


def test_the_page_shows_when_each_gang_became_whole_and_how_long_it_had_waited() -> None:
    result = json.loads(json.dumps(result_of(ran(), "mine")))
    (gang,) = result["gangs"]
    assert gang["whole"] - gang["since"] == result["summary"]["timeToFullGangS"]["p50"]
    page = simulated(result)
    (chart,) = [one for one in page.blocks if isinstance(one, Chart) and one.title == "Time to full gang"]
    assert chart.description.startswith("mine: 1 gang whole, half of all within 3 min")
    assert chart.description.endswith("1 not whole at the end.")
    (table,) = [one for one in page.blocks if isinstance(one, Table) and one.title.startswith("Gangs that became")]
    assert [line.cells[0] for line in table.lines] == [gang["gang"]]


def test_the_pods_of_a_gang_are_bound_at_one_time() -> None:
    simulation = ClusterSimulation(scenario())
    while not simulation.pod_count():
        assert simulation.now_s < simulation.begin_s + 600
        simulation.run_for("10s")
    assert simulation.pod_count() == 3


def test_each_job_of_a_batch_is_a_gang_that_goes_with_the_job() -> None:
    batch = {"name": "job", "perHour": 6, "pods": 3, "lifetime": "5m", "gang": {}, "pod": {"cpu": "3"}}
    groups = [{"name": "small", "cpu": "4", "maxSize": 8}]
    simulation = ClusterSimulation(scenario(duration="2h", nodeGroups=groups, workloads=[], batches=[batch]))
    seen = set()
    for _ in range(240):
        simulation.run_for("30s")
        pods = simulation.cluster.state.pods.values()
        seen |= {pod.spec["schedulingGroup"]["podGroupName"] for pod in pods}
        starting = Counter(pod.owner["name"] for pod in pods if not pod.node)
        assert set(starting.values()) <= {3}
    left = {key.rpartition("/")[2] for key in simulation.cluster.state.others if key.startswith("PodGroup/")}
    assert simulation.summary()["gangsWhole"] >= 5
    assert left == {pod.owner["name"] for pod in simulation.cluster.state.pods.values()} < seen


def test_a_line_of_a_trace_is_a_gang_that_starts_whole_and_goes_with_its_job() -> None:
    groups = [{"name": "small", "cpu": "4", "maxSize": 4}]
    trace = [
        Arrival(0.0, 3, "3", "1Gi", 600.0, gang=3),
        Arrival(60.0, 6, "3", "1Gi", None, gang=6),
        Arrival(60.0, 1, "1", "1Gi", None),
    ]
    settings = scenario(duration="1h", nodeGroups=groups, workloads=[], trace={"file": "-"})
    simulation = ClusterSimulation(settings, trace)
    while not simulation.pod_count():
        assert simulation.now_s < simulation.begin_s + 600
        simulation.run_for("10s")
    assert {"trace-0"} <= {pod.owner["name"] for pod in simulation.cluster.state.pods.values() if pod.node}
    simulation.run()
    summary = simulation.summary()
    assert (summary["gangsWhole"], summary["gangsNotWholeAtEnd"]) == (1, 1)
    assert [pod.owner["name"] for pod in simulation.cluster.state.pods.values() if pod.node] == ["trace-2"]
    left = {key.rpartition("/")[2] for key in simulation.cluster.state.others if key.startswith("PodGroup/")}
    assert left == {"trace-1"}


def test_the_table_has_the_figures_of_gangs_only_if_there_are_any() -> None:
    result = result_of(ran(), "default")
    shown = dict(figures([result]))
    assert (shown["gangs whole"], shown["  not whole at the end"]) == (["1"], ["1"])
    without = result_of(ClusterSimulation(scenario(workloads=[], duration="1m")).run(), "default")
    assert "gangs whole" not in dict(figures([without]))
    assert "time to full gang, median" not in dict(figures([without]))


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"workloads": [{"name": "a", "kind": "DaemonSet", "gang": {"minCount": 2}}]}, "pods of a DaemonSet"),
        ({"batches": [{"name": "a", "perHour": 1, "pods": 2, "gang": {"minCount": 3}}]}, "never the 3 of minCount"),
        (
            {"workloads": [{"name": name, "gang": {"name": "g", "minCount": len(name)}} for name in ("a", "bb")]},
            "default/g is given twice",
        ),
    ],
)
def test_gangs_that_contradict_themselves_are_refused(fields: Json, problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        scenario(**fields)
