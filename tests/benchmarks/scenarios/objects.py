"""A whole scale-down plan of Kubernetes objects over gRPC on loopback: all of them at first, then what has changed.

The objects are encoded beforehand: that is the caller's work. The same cluster and changes as in "plan 5,000 nodes".
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from tests.benchmarks.clusters import LARGE, objects_file
from tests.benchmarks.registry import Stages, scenario
from tests.benchmarks.scenarios.planning import timed
from tests.benchmarks.services import RunningPlanner
from trimtab.common.rpc.client import connect
from trimtab.v1 import plan_pb2, planner_pb2, planner_pb2_grpc

PART_BYTES: Final = 1 << 20
CHANGES: Final = 8
_UID: Final = re.compile(rb'"uid":"[0-9a-f]{8}')
"""The first one in a pod is its own."""


@dataclass
class Sending:
    """A running planner, the objects of a cluster, the request, and the changes of the next loops."""

    planner: RunningPlanner
    stub: planner_pb2_grpc.PlannerStub
    request: plan_pb2.PlanRequest
    objects: Sequence[bytes]
    following: list[Sequence[bytes]]

    def peak_bytes(self) -> int:
        return self.planner.peak_bytes()

    def close(self) -> None:
        self.planner.close()


def prepare() -> Sending:
    """Start a planner and make the objects; every node may be a candidate."""
    document = msgspec.json.decode(objects_file(LARGE).read_bytes(), type=dict[str, msgspec.Raw])
    objects = [bytes(one) for one in msgspec.json.decode(document["items"], type=list[msgspec.Raw])]
    pods = [one for one in objects if one.startswith(b'{"apiVersion":"v1","kind":"Pod"')]
    following = [[_UID.sub(b'"uid":"0000000z', pod, count=1) for pod in pods[n::100]] for n in range(CHANGES)]
    settings = plan_pb2.ScaleDownSettings(
        unneeded_time=Duration(), max_scale_down_parallelism=100_000, max_drain_parallelism=100_000
    )
    request = plan_pb2.PlanRequest(
        decisions=[plan_pb2.Decision.SCALE_DOWN],
        now=Timestamp(seconds=1_770_000_000),
        settings=plan_pb2.PlanSettings(scale_down=settings),
    )
    planner = RunningPlanner()
    stub = planner_pb2_grpc.PlannerStub(connect(planner.address))
    return Sending(planner, stub, request, objects, following)


def parts(request: plan_pb2.PlanRequest, objects: Sequence[bytes]) -> Iterator[planner_pb2.PlanRequestPart]:
    """Yield a request with objects."""
    yield planner_pb2.PlanRequestPart(request=request)
    part, size = planner_pb2.ObjectsPart(), 0
    for one in objects:
        part.put.append(one)
        size += len(one)
        if size >= PART_BYTES:
            yield planner_pb2.PlanRequestPart(objects=part)
            part, size = planner_pb2.ObjectsPart(), 0
    yield planner_pb2.PlanRequestPart(objects=part)


def send(made: Sending, objects: Sequence[bytes], stages: Stages) -> plan_pb2.PlanResponse:
    """Ask about objects."""
    sent = list(parts(made.request, objects))
    answer = timed(lambda: made.stub.Plan(iter(sent), timeout=120), stages)
    stages.fact("sent MB", sum(map(len, objects)) / 1e6)
    return answer


def run_all(made: Sending, stages: Stages) -> plan_pb2.PlanResponse:
    """Send all objects."""
    made.request.base_version = ""
    return send(made, made.objects, stages)


def prepare_changes() -> Sending:
    """Send all objects."""
    made = prepare()
    answer = send(made, made.objects, Stages())
    made.request.base_version, made.request.state_version = answer.snapshot_version, answer.state_version
    return made


def run_change(made: Sending, stages: Stages) -> plan_pb2.PlanResponse:
    """Send a pod in a hundred, created anew."""
    made.request.now.seconds += 10
    answer = send(made, made.following.pop(0), stages)
    made.request.base_version, made.request.state_version = answer.snapshot_version, answer.state_version
    return answer


def verify(made: Sending, answer: plan_pb2.PlanResponse) -> None:
    """Every node has one verdict."""
    decision = answer.scale_down
    nodes = sum(one.startswith(b'{"apiVersion":"v1","kind":"Node"') for one in made.objects)
    assert nodes == LARGE.nodes == len(answer.nodes)
    assert len(decision.unneeded) > 0.1 * nodes


scenario(
    name="plan objects",
    what="scale-down, 5,000 nodes / 150,000 pods as the JSON of Kubernetes objects, all of them sent",
    setup=prepare,
    run=run_all,
    verify=verify,
    aims={"total": 5.0, "peak": 2 << 30},
    repeats=2,
)
scenario(
    name="plan objects, 1 % changed",
    what="the next loops, one pod in a hundred created anew in each and sent as an object, the last state sent back",
    setup=prepare_changes,
    run=run_change,
    verify=verify,
    aims={"total": 0.1},
)
