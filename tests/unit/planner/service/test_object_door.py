"""The planner's door for Kubernetes objects: the same answers as the compact form, and its refusals."""

import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.metrics import NoOpMeterProvider

import trimtab.clients
from tests.builders import karpenter
from tests.builders import kubernetes as k8s
from tests.builders.object_door import Json, compact_request, comparable, from_objects, key_of, object_parts, texts
from tests.builders.planner_service import asking, make_shell, parts, piece, refused, send
from tests.builders.random_node_pools import random_pool_objects
from tests.builders.random_objects import random_objects
from trimtab.common.kubernetes.object_errors import InvalidInputError
from trimtab.common.rpc.client import connect
from trimtab.common.rpc.errors import Reason, ServiceError
from trimtab.planner.service.request_handler import Caller, RequestHandler
from trimtab.planner.service.snapshot_reader import StreamLimits, collect
from trimtab.v1 import actuator_pb2, plan_pb2, planner_pb2, planner_pb2_grpc

RECORDINGS = Path(trimtab.clients.__path__[0]) / "data" / "recordings"
CALLER = Caller("somebody")


def new_handler() -> RequestHandler:
    return RequestHandler(NoOpMeterProvider().get_meter("planner"), 1 << 30, log_decisions=False)


def ask(handler: RequestHandler, stream: list[planner_pb2.PlanRequestPart]) -> plan_pb2.PlanResponse:
    """Have a request answered as the service does."""
    limits = StreamLimits(1 << 30, shared=lambda request: handler.shared(request, CALLER.identity))
    return handler.plan(*collect(stream, limits, CALLER.reserve), CALLER)


def compact(request: plan_pb2.PlanRequest, objects: list[Json]) -> list[planner_pb2.PlanRequestPart]:
    """Return a request in the compact form, as our own client makes it of the same objects."""
    built = from_objects(objects)
    return parts(compact_request(request, built), built.snapshot.SerializeToString(), 1 << 20)


def check_equal(objects: list[Json], request: plan_pb2.PlanRequest) -> None:
    """Compare the answers of both doors for a cluster, then for the cluster that is sent as changes to a part of it."""
    try:
        expected = comparable(ask(new_handler(), compact(request, objects)))
    except (InvalidInputError, ServiceError):
        return  # both refuse it, which tests of the reader compare
    handler = new_handler()
    assert comparable(ask(handler, object_parts(request, texts(objects)))) == expected
    draw = random.Random(0)
    part = [one for one in objects if draw.random() < 0.9]
    first = ask(handler, object_parts(request, texts(part)))
    follow = plan_pb2.PlanRequest()
    follow.CopyFrom(request)
    follow.base_version = first.snapshot_version
    rest = texts(one for one in objects if one not in part)
    assert comparable(ask(handler, object_parts(follow, rest))) == expected


@pytest.mark.parametrize("seed", [1, 3])
def test_both_doors_have_the_same_answers(seed: int) -> None:
    check_equal(random_objects(seed), asking())


@pytest.mark.ci
@pytest.mark.parametrize("seeds", [range(start, start + 25) for start in range(0, 200, 25)], ids=str)
def test_both_doors_have_the_same_answers_for_two_hundred_clusters(seeds: range) -> None:
    for seed in seeds:
        check_equal(random_pool_objects(seed) if seed % 4 == 0 else random_objects(seed), asking())


@pytest.mark.ci
@pytest.mark.parametrize("path", sorted(RECORDINGS.glob("*.json.gz")), ids=lambda path: path.stem)
def test_both_doors_have_the_same_answers_for_a_real_cluster(path: Path) -> None:
    decisions = [plan_pb2.Decision.SCALE_UP, plan_pb2.Decision.SCALE_DOWN]
    check_equal(json.loads(gzip.decompress(path.read_bytes()))["items"], asking(decisions=decisions))


def test_settings_of_node_pools_complete_those_of_the_request_also_where_nothing_has_changed() -> None:
    pool = karpenter.node_pool("default", limits={"cpu": "8"})
    objects = [pool, karpenter.pool_node("n1"), k8s.pod("p1", node="n1")]
    request = asking()
    handler, seen = new_handler(), list[plan_pb2.PlanRequest]()
    handler.on_plan = lambda request, _: seen.append(request)
    request.base_version = ask(handler, object_parts(request, texts(objects))).snapshot_version
    ask(handler, object_parts(request))
    asked = from_objects(objects).settings
    assert asked is not None
    assert len(asked.planner.limits) == 1
    assert [one.settings.planner.limits for one in seen] == [asked.planner.limits] * 2


def test_a_base_may_be_named_again_until_the_next_but_one_answer() -> None:
    handler, node = new_handler(), k8s.node("n1")
    first = ask(handler, object_parts(asking(), texts([node]))).snapshot_version
    lost = ask(handler, object_parts(asking(base_version=first), texts([k8s.pod("p1", node="n1")])))
    again = ask(handler, object_parts(asking(base_version=first), texts([k8s.pod("p1", node="n1")])))
    assert comparable(again) == comparable(lost)
    second = again.snapshot_version
    ask(handler, object_parts(asking(base_version=second), texts([k8s.pod("p2", node="n1")])))
    with pytest.raises(ServiceError) as caught:
        ask(handler, object_parts(asking(base_version=first), texts([k8s.pod("p3", node="n1")])))
    assert caught.value.reason == Reason.SNAPSHOT_BASE_UNKNOWN


def test_objects_are_sent_again_where_settings_name_other_annotations() -> None:
    handler, request = new_handler(), asking()
    request.base_version = ask(handler, object_parts(request, texts([k8s.node("n1")]))).snapshot_version
    request.settings.pod_costs.targets.add().strategies.add(annotation="example.com/cost")
    with pytest.raises(ServiceError) as caught:
        ask(handler, object_parts(request))
    assert caught.value.reason == Reason.SNAPSHOT_BASE_UNKNOWN


def test_notes_on_objects_come_with_the_answer() -> None:
    answer = ask(new_handler(), object_parts(asking(), texts([k8s.node("n1"), {"apiVersion": "x/v1", "kind": "Y"}])))
    assert list(answer.summary.object_notes) == ["skipped 1 of x/v1 Y: not read"]


def test_missing_kinds_and_values_that_are_not_understood_are_noted_as_for_files() -> None:
    owner = k8s.replica_set("web", 2)
    misspelt = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "flase"}
    job = {**k8s.replica_set("job", 1), "kind": "Job", "apiVersion": "batch/v1"}
    objects = [
        owner,
        k8s.node("n1"),
        *(k8s.pod(f"w{i}", node="n1", owner=owner, annotations=misspelt) for i in range(2)),
        *(k8s.pod(f"j{i}", node="n1", owner=job) for i in range(3)),
    ]
    answer = ask(new_handler(), object_parts(asking(), texts(objects)))
    assert list(answer.summary.object_notes) == from_objects(objects).notes
    missing, value = answer.summary.object_notes
    assert missing.startswith("3 pods have a Job as controller, which counts as not found")
    assert value.startswith("Pod default/w0, Pod default/w1: annotation cluster-autoscaler.kubernetes.io/safe-to-evict")


@pytest.fixture(scope="module")
def stub() -> Iterator[planner_pb2_grpc.PlannerStub]:
    with make_shell(max_object_bytes=5000) as shell, connect(shell.address) as channel:
        yield planner_pb2_grpc.PlannerStub(channel)


NODE = texts([k8s.node("n1")])
MANY = texts(k8s.node(f"n{i}") for i in range(20))
BAD_POD = texts([k8s.pod("p", cpu="much")])
WITH_STATUS = planner_pb2.PlanRequestPart(
    request=asking(snapshot_size_bytes=1), actuator_status=actuator_pb2.ActuatorStatus()
)


@pytest.mark.parametrize(
    ("stream", "reason", "message"),
    [
        (object_parts(asking(), BAD_POD), Reason.OBJECT_INVALID, "Pod default/p"),
        (object_parts(asking(), [b"{"]), Reason.OBJECT_INVALID, "not Kubernetes objects"),
        (object_parts(asking(), NODE, [key_of(k8s.pod("p"))]), Reason.STREAM_INVALID, "no base_version"),
        (
            object_parts(asking(base_version="x"), delete=[("v1", "Pod", "", "")]),
            Reason.OBJECT_INVALID,
            "has no name",
        ),
        ([*object_parts(asking(), NODE), piece(0, b"x")], Reason.STREAM_INVALID, "has no objects"),
        (object_parts(asking(snapshot_size_bytes=5), NODE), Reason.STREAM_INVALID, "send 0 with"),
        (object_parts(asking(), MANY), Reason.SNAPSHOT_TOO_LARGE, "--max-object-bytes"),
        (object_parts(asking(base_version="x"), NODE), Reason.SNAPSHOT_BASE_UNKNOWN, "whole cluster"),
        ([WITH_STATUS, piece(0, b"x")], Reason.STREAM_INVALID, "actuator_status"),
    ],
    ids=[
        "an object", "no object", "a deletion without base", "a key without name", "both forms",
        "an announced snapshot", "too many bytes", "an unknown base", "a status with the compact form",
    ],
)  # fmt: skip
def test_a_stream_of_objects_is_refused(
    stub: planner_pb2_grpc.PlannerStub, stream: list[planner_pb2.PlanRequestPart], reason: int, message: str
) -> None:
    error = refused(lambda: send(stub, stream))
    assert error.reason == reason
    assert message in error.message


def test_a_part_with_too_many_bytes_is_refused() -> None:
    with pytest.raises(ServiceError, match="part 1 has objects of 5242880 bytes; send at most 4194304"):
        ask(new_handler(), object_parts(asking(), [b" " * (1 << 20)] * 5))


def test_an_object_that_is_refused_is_named_for_programs(stub: planner_pb2_grpc.PlannerStub) -> None:
    error = refused(lambda: send(stub, object_parts(asking(), BAD_POD)))
    assert (error.metadata["kind"], error.metadata["object"]) == ("Pod", "default/p")
    assert error.metadata["field"].startswith("spec.containers[0].resources.requests")


def test_fit_is_checked_of_objects(stub: planner_pb2_grpc.PlannerStub) -> None:
    objects = texts([k8s.node("n1", cpu="1"), k8s.pod("p1", cpu="2")])
    (answer,) = stub.CheckFit(iter(object_parts(asking(), objects)), timeout=60)
    assert (answer.pod, list(answer.nodes[0].insufficient)) == ("default/p1", ["cpu"])
