"""A planner between a caller and the real one: it hands everything on, and remembers each answer and when it came."""

import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

import grpc

from trimtab.v1 import plan_pb2, planner_pb2, planner_pb2_grpc


class Answer(NamedTuple):
    """at_s : Unix time."""

    at_s: float
    plan: plan_pb2.PlanResponse

    @property
    def goes_now(self) -> set[str]:
        """The nodes that go in the first wave of scale-down."""
        return {*self.plan.scale_down.delete_empty, *self.plan.scale_down.drain}


class PlannerProxy(planner_pb2_grpc.PlannerServicer):
    """Hands calls on. answers : all plans so far, in their order."""

    CheckFit = BalanceScaleUp = None  # type: ignore[assignment]

    def __init__(self, stub: planner_pb2_grpc.PlannerStub) -> None:
        self._stub = stub
        self.answers: list[Answer] = []

    def GetInfo(
        self, request: planner_pb2.GetPlannerInfoRequest, context: grpc.ServicerContext
    ) -> planner_pb2.GetPlannerInfoResponse:
        """Return what the real one says."""
        found: planner_pb2.GetPlannerInfoResponse = _handed_on(context, self._stub.GetInfo, request)
        return found

    def Plan(
        self, request_iterator: Iterable[planner_pb2.PlanRequestPart], context: grpc.ServicerContext
    ) -> plan_pb2.PlanResponse:
        """Return the plan of the real one."""
        found: plan_pb2.PlanResponse = _handed_on(context, self._stub.Plan, request_iterator)
        self.answers.append(Answer(time.time(), found))
        return found

    def of(self, decision: Literal["scale_up", "scale_down"]) -> list[Answer]:
        """Return the answers with a decision."""
        return [one for one in self.answers if one.plan.HasField(decision)]


def _handed_on(context: grpc.ServicerContext, call: Any, request: Any) -> Any:
    try:
        return call(request, timeout=context.time_remaining())
    except grpc.RpcError as error:
        context.set_trailing_metadata(tuple((one.key, one.value) for one in error.trailing_metadata() or ()))
        context.abort(error.code(), error.details() or "")


@contextmanager
def planner_proxy(address: str, planner: str) -> Iterator[PlannerProxy]:
    """Yield a proxy at an address. planner : address of the real one."""
    server = grpc.server(ThreadPoolExecutor(4))
    with grpc.insecure_channel(planner) as channel:
        proxy = PlannerProxy(planner_pb2_grpc.PlannerStub(channel))
        planner_pb2_grpc.add_PlannerServicer_to_server(proxy, server)
        server.add_insecure_port(address)
        server.start()
        try:
            yield proxy
        finally:
            server.stop(None).wait()
