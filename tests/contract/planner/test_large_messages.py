"""Messages beyond gRPC's default limit of 4 MiB: an answer, and a state that is sent back inline."""

import dataclasses
from collections.abc import Iterator

import grpc
import pytest

from tests.builders.waiting import LIMIT_S
from trimtab.clients.loop.planner_session import PlannerSession
from trimtab.clients.planner_client import GrpcLink, PlannerClient
from trimtab.common.rpc.client import invoke
from trimtab.common.rpc.errors import Reason, TrimtabError
from trimtab.common.rpc.retries import RetryPolicy
from trimtab.common.rpc.server import Registration, ServerSettings, Shell
from trimtab.common.rpc.telemetry import start_telemetry
from trimtab.common.watched.snapshot_update import SnapshotUpdate
from trimtab.planner.process import MAX_MESSAGE_BYTES, SERVICE
from trimtab.planner.service.request_handler import RequestHandler
from trimtab.planner.service.servicer import PlannerServicer
from trimtab.planner.service.settings import PlannerOptions
from trimtab.planner.service.warm_up import NOW_S
from trimtab.v1 import plan_pb2, planner_pb2, planner_pb2_grpc, snapshot_pb2

GRPC_LIMIT = 4 << 20
NODES = 24_000
ONCE = RetryPolicy(attempts=1)


@pytest.fixture(scope="module")
def cluster() -> snapshot_pb2.ClusterSnapshot:
    """Return empty nodes with names of maximum length, so fewer nodes suffice."""
    made = snapshot_pb2.ClusterSnapshot(resources=["cpu", "memory", "pods"])
    for i in range(NODES):
        made.nodes.add(name=f"{i:05}.{'x' * 240}", allocatable=[1000, 1 << 30, 110], ready=True, node_group="g")
    made.node_groups.add(id="g", min_size=1, max_size=NODES, target_size=NODES)
    return made


@pytest.fixture(
    params=[
        pytest.param(1 << 30, id="a planner that remembers"),
        pytest.param(0, id="a planner that forgets", marks=pytest.mark.nightly),
    ]
)
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run a planner with the limits of the process; yield its address."""
    options = PlannerOptions(cache_bytes=request.param)
    telemetry = start_telemetry("planner")
    servicer = PlannerServicer(RequestHandler(telemetry.meter, options.cache_bytes, log_decisions=False), options)
    registration = Registration(planner_pb2_grpc.add_PlannerServicer_to_server, servicer, SERVICE)
    settings = dataclasses.replace(ServerSettings(), max_message_bytes=MAX_MESSAGE_BYTES)
    with Shell("planner", [registration], settings, telemetry) as shell:
        yield shell.address


def asking() -> plan_pb2.PlanRequest:
    request = plan_pb2.PlanRequest(decisions=[plan_pb2.Decision.SCALE_DOWN])
    request.now.seconds = NOW_S
    return request


@pytest.mark.ci
def test_the_client_takes_large_answers_and_sends_large_states(
    address: str, cluster: snapshot_pb2.ClusterSnapshot
) -> None:
    with PlannerClient(address, ONCE) as client:
        first = client.plan(cluster, asking())
        following = asking()
        following.state.CopyFrom(first.state)
        second = client.plan(cluster, following)
    with PlannerClient(address, ONCE) as fresh:
        third = fresh.plan(cluster, following)
    assert min(first.ByteSize(), first.state.ByteSize()) > GRPC_LIMIT
    assert second.state == third.state
    assert len(second.nodes) == NODES


@pytest.mark.ci
def test_the_loop_sends_a_large_state_when_it_is_requested(address: str, cluster: snapshot_pb2.ClusterSnapshot) -> None:
    def whole() -> SnapshotUpdate:
        return SnapshotUpdate(cluster, None)

    with GrpcLink(address, policy=ONCE) as link:
        session = PlannerSession(link)
        session.plan(asking(), whole(), whole)
        answer, _ = session.plan(asking(), SnapshotUpdate(None, snapshot_pb2.SnapshotDelta(), is_empty=True), whole)
    assert answer.state.ByteSize() > GRPC_LIMIT


def test_a_caller_that_did_not_raise_its_limit_gets_an_error_from_its_own_library(
    address: str, cluster: snapshot_pb2.ClusterSnapshot
) -> None:
    def parts() -> Iterator[planner_pb2.PlanRequestPart]:
        data, request = cluster.SerializeToString(), asking()
        request.snapshot_size_bytes = len(data)
        yield planner_pb2.PlanRequestPart(request=request)
        for index, start in enumerate(range(0, len(data), 1 << 20)):
            yield planner_pb2.PlanRequestPart(
                snapshot=planner_pb2.SnapshotPart(index=index, data=data[start : start + (1 << 20)])
            )

    with grpc.insecure_channel(address) as channel, pytest.raises(TrimtabError, match="larger than max") as caught:
        invoke(lambda: planner_pb2_grpc.PlannerStub(channel).Plan(parts(), timeout=2 * LIMIT_S), ONCE)
    assert (caught.value.code, caught.value.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, Reason.UNSPECIFIED)
