"""The history of a recording, held against counts pod by pod and node by node."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import kubernetes as k8s
from tests.builders.examples import examples
from tests.builders.random_clusters import changes, clusters
from tests.builders.snapshots import Cluster, write, write_delta
from trimtab.clients.cli.failures import UsageError
from trimtab.clients.cli.live.rounds_reader import Recorded, RoundsRecorder, read_rounds
from trimtab.clients.cli.prices import PricedMachine, Prices, node_prices
from trimtab.clients.cli.report.history import RecordedHistory, read_history
from trimtab.clients.cluster_view import ClusterView
from trimtab.clients.simulation.simulation import ClusterSimulation
from trimtab.common.deltas import Application
from trimtab.common.recording import RecordingReader, RecordingWriter
from trimtab.common.watched.snapshot_update import SnapshotUpdate
from trimtab.v1 import plan_pb2, snapshot_pb2

Json = dict[str, Any]
ZONES = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
BEGIN_S = 1_790_000_000
SUCCEEDED, FAILED = snapshot_pb2.PodPhase.SUCCEEDED, snapshot_pb2.PodPhase.FAILED


def at_each(history: RecordedHistory, times: Sequence[float]) -> list[Json]:
    """Return the sample that holds at each time; node groups without nodes left out."""
    samples, found = history.result["samples"], []
    for time_s in times:
        row = max(number for number, moment in enumerate(samples["time"]) if moment <= time_s)
        one = {name: column[row] for name, column in samples.items() if name not in ("time", "nodes")}
        one["nodes"] = {key: counts[row] for key, counts in samples["nodes"].items() if counts[row]}
        found.append(one)
    return found


def rounds_of(path: Path) -> list[Recorded]:
    with path.open("rb") as opened:
        return [one for one in read_rounds(str(path), opened) if isinstance(one, Recorded)]


def counted(view: ClusterView, answer: plan_pb2.PlanResponse) -> Json:
    """Count one cluster, each pod and each node by itself."""
    groups = view.groups
    pods = [view.pod(key) for key in view.pod_keys]
    on_nodes = [pod for pod in pods if pod and pod.node in view.nodes and pod.phase not in (SUCCEEDED, FAILED)]
    requested = [view.requests(pod) for pod in on_nodes]
    labels = {name: view.labels(node.label_set) for name, node in view.nodes.items()}
    prices = node_prices(view, Prices())
    zones = {name: next((found[key] for key in ZONES if found.get(key)), "") for name, found in labels.items()}
    return {
        "nodes": dict(Counter(f"{n.node_group if groups else ''}/{zones[name]}" for name, n in view.nodes.items())),
        "pricePerHour": round(sum(one.per_hour for one in prices.values()), 6),
        "pods": view.snapshot.pods.count,
        "pending": len(view.waiting_pods()),
        "cpuAllocatableMilli": sum(view.allocatable(name).get("cpu", 0) for name in view.nodes),
        "cpuRequestedMilli": sum(one.get("cpu", 0) for one in requested),
        "memoryAllocatable": sum(view.allocatable(name).get("memory", 0) for name in view.nodes),
        "memoryRequested": sum(one.get("memory", 0) for one in requested),
        "slackCpuMilli": answer.slack.present.get("cpu", 0),
        "slackCpuWantedMilli": answer.slack.desired.get("cpu", 0),
        "placeholders": len(answer.slack.placeholders),
        "placeholdersOnNodes": len([one for one in answer.slack.placeholders if one.node]),
    }


def counted_rounds(rounds: Sequence[Recorded]) -> list[Json]:
    """Count each round's cluster, made anew from all messages before it."""
    found, messages = [], []
    for one in rounds:
        if one.update.snapshot is not None:
            messages = [snapshot_pb2.SnapshotDelta(changed=one.update.snapshot)]
        else:
            assert one.update.delta is not None
            messages.append(one.update.delta)
        cluster = Application(messages[0].changed)
        for delta in messages[1:]:
            cluster.add(delta)
        found.append(counted(ClusterView(cluster.result()), one.answer))
    return found


def times_of(rounds: Sequence[Recorded]) -> list[float]:
    return [one.request.now.ToMilliseconds() / 1000 for one in rounds]


def test_every_sample_is_what_a_count_of_its_round_gives(recording: Path, simulation: ClusterSimulation) -> None:
    history, rounds = read_history(recording), rounds_of(recording)
    assert history.round_count == len(rounds) == simulation.round_count
    assert any(one.update.delta is not None for one in rounds)
    expected = counted_rounds(rounds)
    assert at_each(history, times_of(rounds)) == expected
    for name in ("pending", "slackCpuMilli", "pricePerHour", "placeholders"):
        assert len({one[name] for one in expected}) > 1, f"{name} is always the same"


def test_figures_are_sums_over_the_time_between_rounds(recording: Path, simulation: ClusterSimulation) -> None:
    history, rounds = read_history(recording), rounds_of(recording)
    times, counts = times_of(rounds), counted_rounds(rounds)
    node_s = money_s = 0.0
    for one, begin_s, end_s in zip(counts, times, times[1:], strict=False):
        node_s += sum(one["nodes"].values()) * (end_s - begin_s)
        money_s += one["pricePerHour"] * (end_s - begin_s)
    summary, of_simulation = history.result["summary"], simulation.summary()
    assert (summary["nodeHours"], summary["money"]) == pytest.approx((node_s / 3600, money_s / 3600), abs=1e-5)
    for name in ("nodesAdded", "nodesRemoved", "evictions", "podsPendingAtEnd", "nodesAtEnd"):
        assert summary[name] == of_simulation[name], name
    assert summary["nodesRemoved"] > 0
    assert summary["slackMoney"] == pytest.approx(of_simulation["slackMoney"], rel=0.05)


def test_decisions_and_drains_are_those_of_the_simulation(recording: Path, simulation: ClusterSimulation) -> None:
    result = read_history(recording).result
    of_simulation = simulation.decisions.entries
    found = [{name: one[name] for name in one if name not in ("again", "last")} for one in result["decisions"]]
    assert [one for one in found if one["kind"] != "no room"] == of_simulation != []
    drains = simulation.measurements.drains.entries
    assert len(result["drains"]) == len(drains) > 0
    for one, other in zip(result["drains"], sorted(drains, key=lambda one: (one["tainted"], one["node"])), strict=True):
        assert (one["node"], one["evicted"]) == (other["node"], other["evicted"])
        assert abs(one["tainted"] - other["tainted"]) < 1
        assert 0 <= one["gone"] - other["gone"] <= 60, "the first round after the end"


@examples(25, 10)
@given(clusters(), st.data())
def test_random_changes_are_counted_as_their_clusters(
    tmp_path_factory: pytest.TempPathFactory, first: Cluster, data: st.DataObject
) -> None:
    second = data.draw(changes(first))
    third = data.draw(changes(second))
    update = [
        SnapshotUpdate(write(first), None),
        SnapshotUpdate(None, write_delta(first, second, 1)),
        SnapshotUpdate(None, write_delta(second, third, 2)),
        SnapshotUpdate(write(first, 3), None),
    ]
    path = tmp_path_factory.mktemp("random") / "random.trimtab"
    with RoundsRecorder(path) as recorder:
        for number, one in enumerate(update):
            request = plan_pb2.PlanRequest(now=Timestamp(seconds=BEGIN_S + 60 * number))
            recorder.add(one, request, plan_pb2.PlanResponse())
    rounds = rounds_of(path)
    history = read_history(path, labels=())
    assert at_each(history, times_of(rounds)) == counted_rounds(rounds)
    summary = history.result["summary"]
    steps = [(first, second), (second, third), (third, first)]
    assert summary["nodesAdded"] == sum(len(after.nodes.keys() - before.nodes.keys()) for before, after in steps)
    assert summary["nodesRemoved"] == sum(len(before.nodes.keys() - after.nodes.keys()) for before, after in steps)


def one_round(path: Path, *objects: Json) -> Path:
    with RoundsRecorder(path) as recorder:
        update = SnapshotUpdate(k8s.snapshot_of(*objects), None)
        recorder.add(update, plan_pb2.PlanRequest(now=Timestamp(seconds=BEGIN_S)), plan_pb2.PlanResponse())
    return path


def test_without_node_groups_nodes_are_grouped_and_priced_by_labels(tmp_path: Path) -> None:
    kind = "node.kubernetes.io/instance-type"
    nodes = [k8s.node(f"n{number}", labels={kind: "m5"}, zone=zone) for number, zone in enumerate("aab")]
    nodes.append(k8s.node("master", labels={"node-role.kubernetes.io/control-plane": ""}))
    file = one_round(tmp_path / "x.trimtab", nodes, [])
    prices = Prices({PricedMachine("m5", "", "on-demand"): 0.25})
    samples = read_history(file, prices).result["samples"]
    assert samples["nodes"] == {"/": [1], "m5/a/a": [2], "m5/b/b": [1]}
    assert samples["pricePerHour"] == [0.75]
    assert read_history(file, labels=(kind,)).result["samples"]["nodes"] == {"/": [1], "m5/a": [2], "m5/b": [1]}


def test_a_node_whose_taint_is_taken_back_stayed(tmp_path: Path) -> None:
    taint = {"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}
    path = tmp_path / "x.trimtab"
    with RoundsRecorder(path) as recorder:
        for number, taints in enumerate(([], [taint], [taint], [])):
            snapshot = k8s.snapshot_of([k8s.node("n", taints=taints)], [])
            request = plan_pb2.PlanRequest(now=Timestamp(seconds=BEGIN_S + 10 * number))
            recorder.add(SnapshotUpdate(snapshot, None), request, plan_pb2.PlanResponse())
    result = read_history(path).result
    drain = {"node": "n", "tainted": BEGIN_S + 10.0, "evicted": [], "kept": BEGIN_S + 30.0}
    assert result["drains"] == [drain]
    assert "evictions" not in result["summary"], "no status was recorded"


def test_a_decision_that_repeats_is_one_entry_with_its_count(tmp_path: Path) -> None:
    path = tmp_path / "x.trimtab"
    answers = [plan_pb2.PlanResponse() for _ in range(5)]
    for number in (1, 2, 4):
        answers[number].scale_down.delete_empty.append("n")
        answers[number].scale_down.unneeded.add(node="n")
        answers[number].nodes.add(node="n", fate=plan_pb2.NodeFate.GOES_NOW, utilization=0.1)
    lacking = answers[3].scale_up.unschedulable.add(pods=["default/p"])
    lacking.reasons["g"] = 1
    with RoundsRecorder(path) as recorder:
        for number, answer in enumerate(answers):
            request = plan_pb2.PlanRequest(now=Timestamp(seconds=BEGIN_S + 10 * number))
            recorder.add(SnapshotUpdate(k8s.snapshot_of([k8s.node("n")], []), None), request, answer)
    found = read_history(path).result["decisions"]
    assert [(one["kind"], one["time"] - BEGIN_S, one.get("again"), one.get("last")) for one in found] == [
        ("scale-down", 10, 1, BEGIN_S + 20),
        ("no room", 30, None, None),
        ("scale-down", 40, None, None),
    ]
    assert found[0]["reasons"] == {"n": "utilization 10%, pods to move: 0"}
    assert found[1]["reasons"]["default/p"].startswith("g: ")


def rewritten(path: Path, to: Path, chosen: Sequence[int]) -> Path:
    """Write some frames of a recording."""
    with path.open("rb") as opened, RecordingWriter(to) as writer:
        frames = list(RecordingReader(str(path), opened))
        for number in chosen:
            writer.write(getattr(frames[number], str(frames[number].WhichOneof("frame"))))
    return to


@pytest.mark.parametrize(
    ("frames", "told"),
    [
        pytest.param((3, 4, 5), "it begins with a change, not with a cluster", id="no cluster"),
        pytest.param((0, 4, 5, 3, 1, 2), "a round at", id="times go back"),
    ],
)
def test_rounds_that_do_not_follow_each_other_are_refused(
    recording: Path, simulation: ClusterSimulation, tmp_path: Path, frames: Sequence[int], told: str
) -> None:
    assert simulation.round_count > 2
    with pytest.raises(UsageError, match=told):
        read_history(rewritten(recording, tmp_path / "x.trimtab", frames))
