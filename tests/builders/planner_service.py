"""A running planner service on loopback, requests to it, and its refusals."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from tests.builders.contract_page import errors
from tests.builders.waiting import LIMIT_S
from trimtab.common.rpc.client import invoke
from trimtab.common.rpc.errors import TrimtabError
from trimtab.common.rpc.retries import RetryPolicy
from trimtab.common.rpc.server import Registration, Shell
from trimtab.common.rpc.telemetry import start_telemetry
from trimtab.planner.process import SERVICE
from trimtab.planner.service.request_handler import RequestHandler
from trimtab.planner.service.servicer import PlannerServicer
from trimtab.planner.service.settings import PlannerOptions
from trimtab.planner.service.warm_up import NOW_S, small_cluster
from trimtab.v1 import plan_pb2, planner_pb2, planner_pb2_grpc

ONCE = RetryPolicy(attempts=1)

CODES = {row.reason: row.code for row in errors()}

SMALL = small_cluster().SerializeToString()

LIMIT = 8 << 20


def make_shell(handler: RequestHandler | None = None, **options: Any) -> Shell:
    """Run a planner with small limits."""
    chosen = PlannerOptions(**({"max_snapshot_bytes": LIMIT} | options))
    telemetry = start_telemetry("planner")
    servicer = PlannerServicer(handler or RequestHandler(telemetry.meter, chosen.cache_bytes), chosen)
    registration = Registration(planner_pb2_grpc.add_PlannerServicer_to_server, servicer, SERVICE)
    return Shell("planner", [registration], telemetry=telemetry)


def asking(**fields: Any) -> plan_pb2.PlanRequest:
    """Return a request that is complete except for the description of the snapshot."""
    request = plan_pb2.PlanRequest(decisions=[plan_pb2.Decision.SCALE_DOWN])
    request.now.seconds = NOW_S
    for name, value in fields.items():
        if isinstance(value, list):
            getattr(request, name)[:] = value
        else:
            setattr(request, name, value)
    return request


def parts(request: plan_pb2.PlanRequest, payload: bytes = SMALL, size: int = 1000) -> list[planner_pb2.PlanRequestPart]:
    """Return a request as a stream of small pieces."""
    request.snapshot_size_bytes = len(payload)
    pieces = [payload[start : start + size] for start in range(0, len(payload), size)]
    return [planner_pb2.PlanRequestPart(request=request), *(piece(i, data) for i, data in enumerate(pieces))]


def piece(index: int, data: bytes) -> planner_pb2.PlanRequestPart:
    """Return one piece of a snapshot."""
    return planner_pb2.PlanRequestPart(snapshot=planner_pb2.SnapshotPart(index=index, data=data))


def send(
    stub: planner_pb2_grpc.PlannerStub, stream: Iterable[Any], timeout_s: float = 2 * LIMIT_S
) -> plan_pb2.PlanResponse:
    """Make one call."""
    return invoke(lambda: stub.Plan(iter(stream), timeout=timeout_s), ONCE)


def refused(call: Callable[[], Any]) -> TrimtabError:
    """Return the error of a call; its code must match the error table."""
    with pytest.raises(TrimtabError) as caught:
        call()
    assert caught.value.code is CODES[caught.value.reason]
    return caught.value
