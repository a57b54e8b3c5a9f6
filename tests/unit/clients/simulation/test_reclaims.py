"""Machines that the cloud takes back: notice, end, the pods on them, and what becomes of the node group."""

from typing import Any

import pytest
from pydantic import ValidationError

from trimtab.clients.simulation import ClusterSimulation
from trimtab.clients.simulation.scenario import Scenario

Json = dict[str, Any]


def scenario(*reclaims: Json, **more: Any) -> Scenario:
    groups = [
        {"name": "spot", "cpu": "4", "size": 6, "maxSize": 20, "start": "90s", "labels": {"lifecycle": "spot"}},
        {"name": "fixed", "cpu": "4", "size": 2, "minSize": 2, "maxSize": 2},
    ]
    workloads = [
        {"name": "web", "replicas": 12, "pod": {"cpu": "1500m"}},
        {"name": "agent", "kind": "DaemonSet", "pod": {"cpu": "100m"}},
    ]
    given = {"seed": 3, "duration": "2h", "nodeGroups": groups, "workloads": workloads, "reclaims": list(reclaims)}
    return Scenario.model_validate({**given, **more})


def on_groups(simulation: ClusterSimulation) -> dict[str, int]:
    return {name: simulation.node_count(name) for name in ("spot", "fixed")}


def test_only_machines_of_the_named_groups_go() -> None:
    simulation = ClusterSimulation(scenario({"nodeGroups": ["spot"], "meanTime": "30m"}, decisions=["scale-down"]))
    simulation.run_for("110m")
    assert on_groups(simulation)["fixed"] == 2
    assert on_groups(simulation)["spot"] < 3
    assert {one["group"] for one in simulation.reclaims.entries} == {"spot"}


def test_only_nodes_with_the_labels_go() -> None:
    simulation = ClusterSimulation(scenario({"labels": {"lifecycle": "spot"}, "meanTime": "10m"})).run_for("20m")
    assert {one["group"] for one in simulation.reclaims.entries} == {"spot"}


def test_a_node_takes_no_pods_from_its_notice_on_and_keeps_its_own_until_the_notice_ends() -> None:
    simulation = ClusterSimulation(scenario({"nodeGroups": ["spot"], "meanTime": "20m", "notice": "100s"}))
    while not simulation.reclaims.entries:
        simulation.run_for("1s")
    entry = simulation.reclaims.entries[0]
    info = simulation.cluster.state.nodes[entry["node"]]
    assert info.node["spec"]["unschedulable"]
    pods = {key for key, pod in info.pods.items() if not pod.daemon}
    assert pods
    simulation.run_until(entry["notice"] + 99)
    assert entry["node"] in simulation.cluster.state.nodes
    simulation.run_until(entry["notice"] + 101)
    assert entry["node"] not in simulation.cluster.state.nodes
    assert entry["node"] not in simulation.cluster.state.instances
    assert not pods & simulation.cluster.state.pods.keys()
    assert entry["pods"] == len(pods)
    assert simulation.pod_count("web") == 12


def test_the_autoscaler_replaces_reclaimed_machines_and_the_figures_tell_how_long_pods_waited() -> None:
    simulation = ClusterSimulation(scenario({"nodeGroups": ["spot"], "meanTime": "40m"})).run()
    figures = simulation.summary()
    assert figures["reclaims"] == len([one for one in simulation.reclaims.entries if "end" in one]) > 2
    assert figures["podsReclaimed"] == sum(one.get("pods", 0) for one in simulation.reclaims.entries)
    assert figures["podsReclaimed"] == figures["podsLost"]
    assert 90.0 < figures["reclaimPendingS"] <= figures["podsReclaimed"] * figures["timeToScheduleS"]["max"]
    assert figures["nodesAdded"] > 0


def test_pods_that_find_another_node_at_once_have_not_waited() -> None:
    groups = [{"name": "spot", "cpu": "4", "size": 3, "minSize": 3, "maxSize": 3}]
    workloads = [{"name": "web", "replicas": 3, "pod": {"cpu": "100m"}}]
    reclaims = [{"meanTime": "20m", "notice": 0, "replace": True}]
    simulation = ClusterSimulation(scenario(nodeGroups=groups, workloads=workloads, reclaims=reclaims)).run_for("30m")
    assert simulation.summary()["podsReclaimed"] > 0
    assert simulation.summary()["reclaimPendingS"] == 0.0


def test_a_cloud_that_replaces_machines_keeps_the_size_of_the_group() -> None:
    reclaim = {"nodeGroups": ["spot"], "meanTime": "20m", "notice": 0, "replace": True}
    simulation = ClusterSimulation(scenario(reclaim, decisions=["scale-up"]))
    spec = simulation.cluster.state.groups["spot"]["spec"]
    simulation.run_for("30m")
    assert simulation.summary()["reclaims"] > 3
    assert spec["targetSize"] == 6 == len(simulation.cluster.state.instances_of("spot"))


def test_the_size_of_a_group_follows_its_machines_otherwise() -> None:
    simulation = ClusterSimulation(scenario({"nodeGroups": ["spot"], "perHour": 1.0}))
    for _ in range(12):
        simulation.run_for("10m")
        spec = simulation.cluster.state.groups["spot"]["spec"]
        left = [one for one in simulation.cluster.state.instances_of("spot") if not one.gone_due_ms]
        assert spec["targetSize"] == len(left)


@pytest.mark.ci
def test_the_rate_is_kept_on_average() -> None:
    groups = [{"name": "spot", "size": 200, "minSize": 200, "maxSize": 200}]
    reclaim = {"perHour": 0.5, "notice": 0}
    document = {"nodeGroups": groups, "reclaims": [reclaim], "duration": "1h", "decisions": ["scale-down"]}
    simulation = ClusterSimulation(Scenario.model_validate(document)).run()
    # Of 200 machines, 200 * (1 - exp(-0.5)) = 79 go within an hour, give or take three deviations of 6.9.
    assert abs(simulation.summary()["reclaims"] - 79) <= 21


BAD = {
    "no rate": ({"nodeGroups": ["spot"]}, "give either perHour or meanTime"),
    "two rates": ({"perHour": 1, "meanTime": "1h"}, "give either perHour or meanTime"),
    "negative rate": ({"perHour": -1}, "reclaims.0.perHour"),
    "unknown group": ({"nodeGroups": ["spott"], "perHour": 1}, "reclaims: there is no node group spott"),
    "unknown key": ({"rate": 1}, "reclaims.0.rate"),
    "bad notice": ({"perHour": 1, "notice": "-2m"}, "reclaims.0.notice"),
}


@pytest.mark.parametrize(("reclaim", "problem"), BAD.values(), ids=BAD.keys())
def test_a_reclaim_that_cannot_be_meant_is_refused_with_its_field(reclaim: Json, problem: str) -> None:
    with pytest.raises(ValidationError) as error:
        scenario(reclaim)
    assert problem in str(error.value)
