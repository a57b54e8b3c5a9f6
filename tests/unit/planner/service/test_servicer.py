"""The service under load: requests in the queue."""

import threading
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

import pytest

from tests.builders.waiting import LIMIT_S
from trimtab.clients.planner_client import PIECE_BYTES
from trimtab.common.rpc.client import connect
from trimtab.common.rpc.server import Registration, Shell
from trimtab.planner.service.request_handler import Caller
from trimtab.planner.service.request_limits import RequestMemory
from trimtab.planner.service.servicer import PlannerServicer
from trimtab.planner.service.settings import PlannerOptions
from trimtab.v1 import plan_pb2, planner_pb2, planner_pb2_grpc

CALLERS = 5
PAYLOAD = b"x" * 100_000


class Patient:
    """A handler that answers once it is released."""

    def __init__(self) -> None:
        self.may_answer = threading.Event()

    def plan(self, request: plan_pb2.PlanRequest, payload: bytes, caller: Caller) -> plan_pb2.PlanResponse:
        del caller
        assert self.may_answer.wait(LIMIT_S)
        return plan_pb2.PlanResponse(request_id=request.request_id, snapshot_version=str(len(payload)))


def parts(request_id: str) -> Iterator[planner_pb2.PlanRequestPart]:
    assert len(PAYLOAD) <= PIECE_BYTES
    yield planner_pb2.PlanRequestPart(
        request=plan_pb2.PlanRequest(request_id=request_id, snapshot_size_bytes=len(PAYLOAD))
    )
    yield planner_pb2.PlanRequestPart(snapshot=planner_pb2.SnapshotPart(data=PAYLOAD))


@pytest.mark.parametrize("place_count", [1, 2])
def test_requests_that_wait_hold_their_bytes_and_not_the_memory_to_read_them(place_count: int) -> None:
    handler = Patient()
    memory = RequestMemory((CALLERS + 5 * place_count) * len(PAYLOAD) + 10_000)
    options = PlannerOptions(max_concurrent=place_count, queue_s=LIMIT_S)
    servicer = PlannerServicer(handler, options, memory=memory)  # type: ignore[arg-type]
    registration = Registration(planner_pb2_grpc.add_PlannerServicer_to_server, servicer, "trimtab.v1.Planner")
    with Shell("test", [registration]) as shell, connect(shell.address) as channel, ThreadPoolExecutor(CALLERS) as pool:
        stub = planner_pb2_grpc.PlannerStub(channel)

        def ask(number: int) -> plan_pb2.PlanResponse:
            return stub.Plan(parts(str(number)), timeout=LIMIT_S)

        asked = [pool.submit(ask, number) for number in range(CALLERS)]
        wait_until_waiting(servicer, CALLERS - place_count, asked)
        handler.may_answer.set()
        assert [one.result(LIMIT_S).request_id for one in asked] == [str(number) for number in range(CALLERS)]


def wait_until_waiting(servicer: PlannerServicer, count: int, asked: list[Future[plan_pb2.PlanResponse]]) -> None:
    """Return once `count` requests are queued, or one has been answered before."""
    queue = servicer._queue
    while not wait(asked, 0.01, FIRST_COMPLETED).done:
        with queue._lock:
            if sum(map(len, queue._waiting.values())) == count:
                return
