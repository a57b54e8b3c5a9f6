"""A whole scale-down plan over gRPC on loopback: snapshot encoded, sent, decoded, simulated, answered."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from tests.benchmarks.clusters import CONSTRAINED, LARGE, snapshot
from tests.benchmarks.registry import Stages, scenario
from tests.benchmarks.services import RunningPlanner
from trimtab.clients.cluster_generator import ClusterShape
from trimtab.clients.planner_client import PlannerClient
from trimtab.common.deltas.writing import DeltaWriter
from trimtab.places import destinations
from trimtab.v1 import plan_pb2, snapshot_pb2

UPSTREAM_5000 = "the real Cluster Autoscaler, another run, the same machine: 63,000 ms, resources alone"
UPSTREAM_1000 = "the real Cluster Autoscaler, 1,000 nodes, a fifth of the workloads so constrained: 42,000 to 81,000 ms"


@dataclass
class Planning:
    """A running planner, a cluster, and the request."""

    planner: RunningPlanner
    snapshot: snapshot_pb2.ClusterSnapshot
    request: plan_pb2.PlanRequest

    def peak_bytes(self) -> int:
        return self.planner.peak_bytes()

    def close(self) -> None:
        self.planner.close()


def prepare(shape: ClusterShape, copies: int = 1) -> Planning:
    """Start a planner and make the cluster; every node may be a candidate."""
    settings = plan_pb2.ScaleDownSettings(
        unneeded_time=Duration(), max_scale_down_parallelism=100_000, max_drain_parallelism=100_000
    )
    request = plan_pb2.PlanRequest(
        decisions=[plan_pb2.Decision.SCALE_DOWN],
        now=Timestamp(seconds=1_770_000_000),
        settings=plan_pb2.PlanSettings(scale_down=settings),
    )
    return Planning(RunningPlanner(), snapshot(shape, copies), request)


def run(made: Planning, stages: Stages) -> plan_pb2.PlanResponse:
    """Send the whole snapshot."""
    with stages.stage("encode"):
        payload_bytes = len(made.snapshot.SerializeToString())
    stages.fact("sent MB", payload_bytes / 1e6)
    return call(made.planner.new_client(), made.snapshot, made.request, stages)


def call(
    client: PlannerClient, sent: snapshot_pb2.ClusterSnapshot, request: plan_pb2.PlanRequest, stages: Stages
) -> plan_pb2.PlanResponse:
    """Ask about a whole snapshot."""
    return timed(lambda: client.plan(sent, request), stages)


def timed(ask: Callable[[], plan_pb2.PlanResponse], stages: Stages) -> plan_pb2.PlanResponse:
    """Ask, and split the time: what the planner says of its stages, and the rest, in which bytes travel."""
    start = time.perf_counter()
    answer = ask()
    took_s = time.perf_counter() - start
    inside_s = 0.0
    for stage in answer.diagnostics.stages:
        seconds = stage.duration.ToNanoseconds() / 1e9
        stages.add(stage.stage, seconds)
        inside_s += seconds
    stages.add("total", took_s)
    stages.add("transfer", took_s - inside_s - stages.seconds.get("encode", 0.0))
    stages.fact("nodes to go", len(answer.scale_down.delete_empty) + len(answer.scale_down.drain))
    return answer


def verify(made: Planning, answer: plan_pb2.PlanResponse) -> None:
    """Every node has one verdict; all pods that move at once find room on nodes that stay, counted anew here."""
    decision = answer.scale_down
    named = [node.node for node in answer.nodes]
    assert sorted(named) == sorted(node.name for node in made.snapshot.nodes)
    going = {node.node for node in decision.unneeded}
    targets = set(destinations(decision.places).values())
    assert len(going) > 0.1 * len(named)
    assert not going & targets
    assert targets <= set(named)


CHANGES = 8
"""Changes made beforehand: one for each repetition, and some to spare."""


@dataclass
class Changing(Planning):
    """The same, with a client that the planner knows, and the changes of the next loops, which the caller knows."""

    client: PlannerClient
    deltas: list[snapshot_pb2.SnapshotDelta]
    version: str


def prepare_changes() -> Changing:
    """Change a pod in a hundred from loop to loop, others each time: a new uid, as if it had been created anew."""
    made = prepare(LARGE)
    client = made.planner.new_client()
    first = client.plan(made.snapshot, made.request)
    made.request.state_version = first.state_version
    deltas = []
    for number in range(CHANGES):
        delta = snapshot_pb2.SnapshotDelta()
        delta.changed.resources.extend(made.snapshot.resources)
        writer = DeltaWriter(made.snapshot, delta.changed)
        writer.add_pods(np.arange(number, made.snapshot.pods.count, 100))
        writer.finish()
        uids = bytearray(delta.changed.pods.uids)
        for end in np.cumsum(np.frombuffer(delta.changed.pods.uid_lengths, "<i4")).tolist():
            uids[end - 1 : end] = b"z"
        delta.changed.pods.uids = bytes(uids)
        deltas.append(delta)
    return Changing(made.planner, made.snapshot, made.request, client, deltas, first.snapshot_version)


def run_change(made: Changing, stages: Stages) -> plan_pb2.PlanResponse:
    """Send a delta, and the last loop's state."""
    delta = made.deltas.pop(0)
    answer = timed(lambda: made.client.plan_delta(delta, made.version, made.request), stages)
    made.version = answer.snapshot_version
    made.request.now.seconds += 10
    made.request.state_version = answer.state_version
    return answer


def run_forgetful(made: Changing, stages: Stages) -> plan_pb2.PlanResponse:
    """Send a delta and no state."""
    made.request.state_version = ""
    return run_change(made, stages)


scenario(
    name="plan 5,000 nodes",
    what="scale-down, whole snapshot sent, 150,000 pods, resources, taints and node affinity",
    setup=lambda: prepare(LARGE),
    run=run,
    verify=verify,
    aims={"total": 0.6, "simulate": 0.05, "peak": 1 << 30},
    reference=UPSTREAM_5000,
)
scenario(
    name="plan 5,000 nodes, constrained",
    what="the same; every workload constrained, a third spread over zones, a tenth with hostname anti-affinity",
    setup=lambda: prepare(CONSTRAINED),
    run=run,
    verify=verify,
    aims={"simulate": 0.1, "peak": 1 << 30},
    reference=UPSTREAM_1000,
)
scenario(
    name="plan 5,000 nodes, 1 % changed",
    what="the next loops, one pod in a hundred new in each, the last state sent back; the caller knows the changes",
    setup=prepare_changes,
    run=run_change,
    verify=verify,
    aims={"total": 0.06},
)
scenario(
    name="plan 5,000 nodes, 1 % changed, no state",
    what="the same changes, the state not sent back, so that all orders of candidates are tried as in a first loop",
    setup=prepare_changes,
    run=run_forgetful,
    verify=verify,
    aims={},
)
scenario(
    name="plan 50,000 nodes",
    what="ten clusters of 5,000 nodes side by side, 1.5 million pods",
    setup=lambda: prepare(LARGE, copies=10),
    run=run,
    verify=verify,
    aims={"peak": 4 << 30},
    repeats=2,
    large=True,
)
