"""Recordings are simulated: what was there is there, pods come and go when they did, what is wrong is named."""

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from tests.builders import kubernetes as k8s
from trimtab.clients.simulation.recorded import RecordedCluster, read_recording
from trimtab.clients.simulation.scenario_file import read_input
from trimtab.clients.simulation.scenario_values import ScenarioError
from trimtab.clients.simulation.simulation import ClusterSimulation
from trimtab.clients.simulation.sweep import Run
from trimtab.v1 import plan_pb2

RECORDINGS = files("clients").joinpath("data/recordings")


def recording(directory: Path, *items: dict[str, Any]) -> Path:
    path = directory / "cluster.json"
    path.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))
    return path


def moment(minute: int) -> str:
    return f"2026-03-02T10:{minute:02}:00Z"


def pod(item: dict[str, Any], created: int, deleted: int | None = None) -> dict[str, Any]:
    """A pod that was created, and deleted, at a minute."""
    item["metadata"]["creationTimestamp"] = moment(created)
    if deleted is not None:
        item["metadata"]["deletionTimestamp"] = moment(deleted)
    return item


def cluster(directory: Path) -> Path:
    """Two nodes of one group; replicas that came one after the other, one of which has gone again."""
    group = k8s.node_group("a", selector={"pool": "a"})
    group["spec"] = {"minSize": 0, "maxSize": 5, "nodeSelector": {"pool": "a"}, "price": 0.5}
    owner, agents = k8s.replica_set("web", replicas=3), k8s.daemon_set("agent")
    nodes = [k8s.node(name, labels={"pool": "a"}, cpu="4") for name in ("n1", "n2")]
    replicas = k8s.pods_of(owner, 3, cpu="1", node="n1")
    daemons = [pod(one, 0) for one in k8s.pods_of(agents, 1, cpu="100m", node="n2")]
    ended = pod(k8s.pod("ended"), 1)
    ended["status"] = {"phase": "Succeeded"}
    arrived = [pod(replicas[0], 5), pod(replicas[1], 7), pod(replicas[2], 10, deleted=25)]
    return recording(directory, group, owner, agents, *nodes, *daemons, ended, *arrived)


def names(simulation: ClusterSimulation) -> set[str]:
    return {name for _, name in simulation.cluster.state.pods}


def test_pods_come_and_go_when_they_did(tmp_path: Path) -> None:
    scenario, recorded = read_input(cluster(tmp_path))
    assert isinstance(recorded, RecordedCluster)
    simulation = ClusterSimulation(scenario, recorded)
    assert (scenario.start.isoformat(), scenario.duration) == ("2026-03-02T10:05:00+00:00", 20 * 60 + 3600)
    simulation.run_for("1m")
    assert (simulation.pod_count(), simulation.node_count("a")) == (2, 2)
    simulation.run_for("5m")
    assert simulation.pod_count() == 4
    assert "ended" not in names(simulation)
    simulation.run_for("15m")
    assert simulation.pod_count("web") == 2


@pytest.mark.nightly  # the same growth, for the moment of its decision: tests/parity/test_recorded_growth.py
def test_the_decisions_for_a_recording_are_those_the_cluster_autoscaler_made() -> None:
    scenario, recorded = read_input(Path(str(RECORDINGS / "gardener-gcp-g2.json.gz")))
    simulation = ClusterSimulation(scenario, recorded).run()
    (growth,) = [one for one in simulation.decisions.entries if one["kind"] == "scale-up"]
    made = json.loads((RECORDINGS / "gardener-gcp-g2.recorded.json").read_text())["scaleUps"]
    assert {f"[{{{growth['group']} 1->{1 + growth['count']} (max: 2)}}]" in one["message"] for one in made} == {True}
    assert simulation.pending == []


def test_a_pod_that_was_evicted_meanwhile_goes_too(tmp_path: Path) -> None:
    scenario, recorded = read_input(cluster(tmp_path))
    simulation = ClusterSimulation(scenario, recorded)
    simulation.run_for("11m")
    (leaving,) = [one.item["metadata"]["name"] for one in recorded.arrivals if one.until_s is not None]
    view = simulation.cluster.state.pods["default", leaving].view()
    simulation.cluster.evict(view, None)
    simulation.run_for("1m")
    assert leaving not in names(simulation)
    assert simulation.pod_count("web") == 3
    simulation.run_for("10m")
    assert simulation.pod_count("web") == 2


def test_a_recording_that_is_read_again_makes_the_same_run(tmp_path: Path) -> None:
    scenario, recorded = read_input(cluster(tmp_path))
    run = Run(scenario, recorded, "defaults", plan_pb2.PlanSettings().SerializeToString())
    assert Run(scenario, read_recording(tmp_path / "cluster.json"), *run[2:]).digest == run.digest


def test_a_scenario_names_a_recording_and_says_more(tmp_path: Path) -> None:
    cluster(tmp_path)
    path = tmp_path / "scenario.yaml"
    path.write_text(
        "duration: 30m\nrecording: {file: cluster.json, prices: {a: 2.0}, start: 3m}\n"
        "workloads:\n- {name: more, replicas: 4, pod: {cpu: '2'}}\n"
    )
    scenario, recorded = read_input(path)
    simulation = ClusterSimulation(scenario, recorded).run()
    assert (scenario.duration, scenario.start.hour) == (1800.0, 10)
    assert simulation.pod_count("more") == 4
    assert simulation.node_count("a") > 2
    assert simulation.summary()["money"] == pytest.approx(2.0 * simulation.summary()["nodeHours"])
    assert simulation.summary()["timeToScheduleS"]["max"] >= 180


@pytest.mark.parametrize(
    ("items", "told"),
    [
        pytest.param([k8s.pod("p")], "there is no Node in the recording", id="no node"),
        pytest.param(
            [k8s.node("n"), pod(k8s.pod("p"), 9, deleted=8)],
            "p: it was deleted before it was created",
            id="negative life",
        ),
        pytest.param([{"kind": "Node"}], "items[0]: kind and metadata.name are required", id="no name"),
    ],
)
def test_a_recording_that_cannot_be_used_is_named(tmp_path: Path, items: list[dict[str, Any]], told: str) -> None:
    path = recording(tmp_path, *items)
    with pytest.raises(ScenarioError) as error:
        read_input(path)
    assert told in str(error.value)
    assert str(path) in str(error.value)


def test_a_trace_and_a_recording_contradict_each_other(tmp_path: Path) -> None:
    path = tmp_path / "both.yaml"
    path.write_text("trace: {file: a.csv}\nrecording: {file: b.json}\n")
    with pytest.raises(ScenarioError, match="trace and recording contradict each other"):
        read_input(path)
