"""Recorded rounds are simulated: the cluster of the first one is there, pods come and go when they did."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from tests.builders import kubernetes as k8s
from tests.builders.differences import difference
from trimtab.clients.in_process_planner import InProcessLink
from trimtab.clients.simulation.recorded import OwnerSize, RecordedCluster
from trimtab.clients.simulation.recorded_rounds import read_rounds
from trimtab.clients.simulation.scenario import Scenario
from trimtab.clients.simulation.scenario_file import read_input
from trimtab.clients.simulation.scenario_values import ScenarioError
from trimtab.clients.simulation.simulation import ClusterSimulation, SimulationRunOptions
from trimtab.common.objects import build_snapshot, decode_objects
from trimtab.common.recording import RecordingWriter
from trimtab.v1 import plan_pb2, planner_pb2
from trimtab.v1 import snapshot_pb2 as pb

Json = dict[str, Any]
BEGIN_S = 1_772_445_600
"""2026-03-02 10:00 UTC."""


def moment(minute: float) -> Timestamp:
    return Timestamp(seconds=BEGIN_S + int(60 * minute))


def text(minute: float) -> str:
    return moment(minute).ToJsonString()


def snapshot(objects: list[Json]) -> pb.ClusterSnapshot:
    return build_snapshot(decode_objects(objects)).snapshot


def recorded(path: Path, rounds: list[tuple[float, list[Json]]], *, deltas: bool = True) -> Path:
    """Write rounds at their minutes, the later ones as deltas or whole."""
    before = None
    with RecordingWriter(path) as writer:
        for minute, objects in rounds:
            message = snapshot(objects)
            change = difference(before, message) if before is not None and deltas else None
            writer.write(message if change is None else change)
            writer.write(plan_pb2.PlanRequest(now=moment(minute)))
            writer.write(plan_pb2.PlanResponse())
            before = message
    return path


def pod(item: Json, created: float, *, node: str | None = None, deleted: float | None = None, phase: str = "") -> Json:
    """A pod that was created at a minute, as a round sees it."""
    found = {**item, "metadata": {**item["metadata"], "creationTimestamp": text(created)}, "spec": dict(item["spec"])}
    found["status"] = {"phase": phase or ("Running" if node else "Pending")}
    if node is not None:
        found["spec"]["nodeName"] = node
    if deleted is not None:
        found["metadata"]["deletionTimestamp"] = text(deleted)
    return found


def rounds(*, with_agent: bool = True) -> list[tuple[float, list[Json]]]:
    """Two nodes; replicas on the first one, of which one goes and two come; a controller that grows with them."""
    group = k8s.node_group("a", selector={"pool": "a"})
    group["spec"] = {"minSize": 0, "maxSize": 5, "nodeSelector": {"pool": "a"}, "price": 0.5}
    taints = ["ToBeDeletedByClusterAutoscaler=1:NoSchedule", "dedicated=x:PreferNoSchedule"]
    nodes = [
        k8s.node("n1", labels={"pool": "a"}, cpu="4"),
        k8s.node("n2", labels={"pool": "a"}, cpu="4", taints=taints),
    ]
    agents, few, many = k8s.daemon_set("agent"), k8s.replica_set("web", 2), k8s.replica_set("web", 3)
    budget = k8s.pdb("web", labels=few["spec"]["selector"]["matchLabels"], min_available=1)
    one, two, three, four = k8s.pods_of(many, 4, cpu="1")
    (agent,) = k8s.pods_of(agents, 1, cpu="100m", node="n2")
    ended = pod(k8s.pod("ended"), -9, node="n1", phase="Succeeded")
    there = [group, *nodes, agents, budget, k8s.namespace(), ended]
    there += [agent] if with_agent else []
    first, second = pod(one, -60, node="n1"), pod(two, -50, node="n1")
    return [
        (0, [*there, few, first, second]),
        (10, [*there, many, first, second, pod(three, 5), pod(four, 9.5, node="n1")]),
        (20, [*there, many, pod(one, -60, node="n1", deleted=19), second, pod(three, 5, node="n2")]),
        (30, [*there, many, second, pod(three, 5, node="n2")]),
    ]


def of(cluster: RecordedCluster, kind: str) -> list[Json]:
    return [one for one in cluster.objects if one["kind"] == kind]


@pytest.mark.parametrize("deltas", [True, False], ids=["deltas", "whole snapshots"])
def test_pods_come_and_go_at_the_times_of_their_rounds(tmp_path: Path, *, deltas: bool) -> None:
    found = read_rounds(recorded(tmp_path / "r.trimtab", rounds(), deltas=deltas))
    told = [(one.item["metadata"]["name"], one.at_s / 60, one.until_s and one.until_s / 60) for one in found.arrivals]
    names = [one["metadata"]["name"] for one in k8s.pods_of(k8s.replica_set("web", 3), 4)]
    assert told == [(names[0], 0, 20), (names[1], 0, None), (names[2], 5, None), (names[3], 9.5, 20)]
    assert (found.begin_s, found.last_s) == (BEGIN_S, 1800)
    (owner,) = [one["metadata"]["name"] for one in of(found, "ReplicaSet")]
    assert found.sizes == (OwnerSize(600, f"ReplicaSet/default/{owner}", 3),)


def test_the_cluster_of_the_first_round_is_there_as_it_was(tmp_path: Path) -> None:
    found = read_rounds(recorded(tmp_path / "r.trimtab", rounds()))
    placed = {one["metadata"]["name"]: one["spec"]["nodeName"] for one in of(found, "Pod")}
    assert sorted(placed.values()) == ["n1", "n1", "n2"]
    assert "ended" not in placed
    assert [[taint["key"] for taint in one["spec"]["taints"]] for one in of(found, "Node")] == [[], ["dedicated"]]
    (group,) = of(found, "NodeGroup")
    assert (group["spec"]["nodes"], group["spec"]["targetSize"], group["spec"]["price"]) == (["n1", "n2"], 2, 0.5)


def test_what_is_read_makes_the_rows_that_were_recorded(tmp_path: Path) -> None:
    """Snapshot to objects to snapshot: what scheduling and draining read of pods, nodes and budgets is the same."""
    web = k8s.replica_set("web", 1)
    spec = {
        "nodeSelector": {"pool": "a"},
        "affinity": {
            "nodeAffinity": k8s.node_affinity([("pool", "In", ["a", "b"])])["nodeAffinity"],
            "podAntiAffinity": k8s.anti_affinity({"matchLabels": {"app": "x"}})["podAntiAffinity"],
        },
        "tolerations": [k8s.toleration("dedicated", "x", "NoSchedule")],
        "priority": 7,
        "terminationGracePeriodSeconds": 90,
        "volumes": [{"name": "scratch", "emptyDir": {}}],
    }
    (item,) = k8s.pods_of(web, 1, cpu="1500m", memory="3Gi", node="n1")
    item["spec"] |= spec
    item["metadata"]["annotations"] = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
    node = k8s.node("n1", labels={"pool": "a"}, cpu="4", taints=["dedicated=x:NoSchedule"])
    group = k8s.node_group("a", selector={"pool": "a"})
    budget = k8s.pdb("web", labels={"app": "web"}, max_unavailable="30%")
    before = snapshot([group, node, web, budget, pod(item, -60, node="n1")])
    path = tmp_path / "r.trimtab"
    with RecordingWriter(path) as writer:
        writer.write(before)
    found = read_rounds(path)
    after = snapshot([*found.objects])
    # Rows number their texts; which numbers does not matter here, since both have the same texts.
    assert sorted(before.strings) == sorted(after.strings)
    (written,), (read) = before.pod_specs, after.pod_specs
    assert len(read) == 1
    for field in ("priority", "termination_grace_period", "safe_to_evict", "local_storage"):
        assert getattr(written, field) == getattr(read[0], field)
    for field in ("node_selector", "tolerations", "pod_anti_affinity"):
        assert len(getattr(written, field)) == len(getattr(read[0], field)) == 1
    assert [one.amount for one in written.requests] == [one.amount for one in read[0].requests]
    assert (before.nodes[0].allocatable, len(before.nodes[0].taints)) == (after.nodes[0].allocatable, 1)
    assert after.pod_disruption_budgets[0].max_unavailable == "30%"
    assert after.nodes[0].node_group == "a"


def pod_group(name: str, least: int, created: float) -> Json:
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"namespace": "default", "name": name, "creationTimestamp": text(created)},
        "spec": {"schedulingPolicy": {"gang": {"minCount": least}}, "disruptionMode": {"all": {}}},
    }


def gang_rounds() -> list[tuple[float, list[Json]]]:
    """Return a gang of two that runs, then one of three that fits and one of three that does not."""
    group = k8s.node_group("a", selector={"pool": "a"})
    group["spec"] = {"minSize": 0, "maxSize": 2, "nodeSelector": {"pool": "a"}}
    nodes = [k8s.node(name, labels={"pool": "a"}, cpu="4") for name in ("n1", "n2")]

    def members(name: str, count: int, cpu: str, created: float, node: str | None = None) -> list[Json]:
        spec = {"schedulingGroup": {"podGroupName": name}}
        return [pod(k8s.pod(f"{name}-{i}", cpu=cpu, spec=dict(spec)), created, node=node) for i in range(count)]

    first = [group, *nodes, pod_group("runs", 2, -60), *members("runs", 2, "500m", -60, "n1")]
    later = [
        pod_group("fits", 3, 4),
        *members("fits", 3, "1", 5),
        pod_group("waits", 3, 4),
        *members("waits", 3, "3", 5),
    ]
    return [(0, first), (10, [*first, *later]), (20, [*first, *later])]


@pytest.mark.parametrize("deltas", [True, False], ids=["deltas", "whole snapshots"])
def test_recorded_pod_groups_appear_when_they_did(tmp_path: Path, *, deltas: bool) -> None:
    found = read_rounds(recorded(tmp_path / "r.trimtab", gang_rounds(), deltas=deltas))
    assert [one["metadata"]["name"] for one in of(found, "PodGroup")] == ["runs"]
    assert [(one.at_s / 60, one.item["metadata"]["name"]) for one in found.pod_groups] == [(4, "fits"), (4, "waits")]
    (row,) = snapshot([*found.objects]).pod_groups
    assert (row.min_count, row.disruption_mode) == (2, pb.PodGroupDisruptionMode.POD_GROUP)


def test_recorded_gangs_start_whole_or_not_at_all(tmp_path: Path) -> None:
    scenario, trace = read_input(recorded(tmp_path / "r.trimtab", gang_rounds()))
    assert isinstance(trace, RecordedCluster)
    simulation = ClusterSimulation(scenario, trace).run()
    bound = {name.rpartition("-")[0] for (_, name), one in simulation.cluster.state.pods.items() if one.node}
    assert bound == {"runs", "fits"}
    summary = simulation.summary()
    assert summary["gangsNotWholeAtEnd"] == 1
    assert summary["gangsWhole"] == 1


def test_a_simulation_of_rounds_begins_where_they_began(tmp_path: Path) -> None:
    scenario, trace = read_input(recorded(tmp_path / "day.trimtab", rounds()))
    assert isinstance(trace, RecordedCluster)
    simulation = ClusterSimulation(scenario, trace)
    assert (scenario.name, scenario.duration) == ("day", 1800 + 3600)
    assert (simulation.node_count("a"), simulation.pod_count(node="n1"), simulation.pod_count(node="n2")) == (2, 2, 1)
    replicas = []
    for _ in range(4):
        replicas.append(len([one for one in simulation.cluster.state.pods.values() if one.owner.get("name") == "web"]))
        simulation.run_for("7m")
    assert replicas == [2, 3, 4, 2]
    # Of those, two have waited for a node here.
    assert simulation.summary()["podsScheduled"] == 2
    assert simulation.summary()["podsPendingAtEnd"] == 0
    assert simulation.summary()["money"] > 0


def test_a_scenario_names_rounds_and_says_more(tmp_path: Path) -> None:
    recorded(tmp_path / "r.trimtab", rounds())
    path = tmp_path / "scenario.yaml"
    path.write_text(
        "duration: 20m\nrecording: {file: r.trimtab, prices: {a: 2.0}, start: 3m}\n"
        "workloads:\n- {name: more, replicas: 4, pod: {cpu: '2'}}\n"
    )
    scenario, trace = read_input(path)
    simulation = ClusterSimulation(scenario, trace).run()
    assert scenario.start.hour == 10
    assert simulation.pod_count("more") == 4
    assert simulation.summary()["money"] == pytest.approx(2.0 * simulation.summary()["nodeHours"])


class Recording:
    """A planner's link that records what is asked."""

    def __init__(self, path: Path) -> None:
        self._link, self._writer = InProcessLink(), RecordingWriter(path)

    def info(self) -> planner_pb2.GetPlannerInfoResponse:
        return self._link.info()

    def close(self) -> None:
        self._writer.close()

    def send(self, request: plan_pb2.PlanRequest, payload: bytes) -> plan_pb2.PlanResponse:
        message = pb.SnapshotDelta if request.base_version else pb.ClusterSnapshot
        self._writer.write(message.FromString(payload))
        self._writer.write(request)
        answer = self._link.send(request, payload)
        self._writer.write(answer)
        return answer


@contextmanager
def recording(path: Path) -> Iterator[Recording]:
    link = Recording(path)
    yield link
    link.close()


@pytest.mark.nightly
def test_rounds_of_a_loop_that_are_simulated_again_lead_to_as_many_nodes(tmp_path: Path) -> None:
    """A simulated cluster is recorded for two hours by its own loop, with growth and drains; its recording, simulated
    under the same settings, has the same load and the same number of nodes at the end of its burst and after it.
    """
    groups = [{"name": "a", "size": 2, "maxSize": 12, "price": 0.5}]
    web = {"name": "web", "pod": {"cpu": "1"}, "budget": {"maxUnavailable": "20%"}}
    web |= {"steps": [{"at": "0s", "replicas": 4}, {"at": "20m", "replicas": 24}, {"at": "60m", "replicas": 6}]}
    agent = {"name": "agent", "kind": "DaemonSet", "pod": {"cpu": "100m"}}
    document = {"duration": "2h", "nodeGroups": groups, "workloads": [web, agent]}
    path = tmp_path / "loop.trimtab"
    with recording(path) as link:
        # Every round, as a live loop makes them: one that is left out records nothing at its moment.
        first = ClusterSimulation(
            Scenario.model_validate(document), options=SimulationRunOptions(link, skip_idle=False)
        )
        counts = [(first.run_for(3600).node_count(), first.pod_count("web")) for _ in range(2)]
    scenario, trace = read_input(path)
    assert isinstance(trace, RecordedCluster)
    again = ClusterSimulation(scenario, trace)
    assert [(again.run_for(3600).node_count(), again.pod_count("web")) for _ in range(2)] == counts
    assert counts[0][0] > counts[1][0]
    assert again.summary()["podsLost"] == 0
    assert again.summary()["nodesRemoved"] > 0


@pytest.mark.parametrize(
    ("write", "told"),
    [
        (lambda _: None, "this recording has no cluster; record one with `trimtab record`"),
        (lambda writer: writer.write(pb.SnapshotDelta()), "this recording has no cluster"),
        (
            lambda writer: [writer.write(one) for one in (pb.SnapshotDelta(), plan_pb2.PlanRequest(now=moment(1)))],
            "it begins with a change, not with a cluster",
        ),
        (
            lambda writer: [
                writer.write(one)
                for minute in (2, 1)
                for one in (snapshot([k8s.node("n")]), plan_pb2.PlanRequest(now=moment(minute)))
            ],
            "follows one at",
        ),
        (
            lambda writer: writer.write(pb.ClusterSnapshot(pods=pb.PodTable(count=1))),
            "its snapshots break the contract",
        ),
    ],
    ids=["empty", "change alone", "change first", "back in time", "columns"],
)
def test_a_recording_that_cannot_be_used_is_named(tmp_path: Path, write: Any, told: str) -> None:
    path = tmp_path / "r.trimtab"
    with RecordingWriter(path) as writer:
        write(writer)
    with pytest.raises(ScenarioError) as error:
        read_input(path)
    assert told in str(error.value)
    assert str(path) in str(error.value)


def test_a_recording_that_is_cut_off_is_named(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r.trimtab", rounds())
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(ScenarioError, match=r"r\.trimtab.*copy the file again"):
        read_input(path)
