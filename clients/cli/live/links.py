"""A planner for sessions of several rounds: a running service, or one in this process that keeps bases of deltas."""

from collections.abc import Iterator
from contextlib import contextmanager

from trimtab.v1 import plan_pb2, planner_pb2

from clients.cli.output import stderr_console
from clients.cli.planners import address_failures
from clients.reference_loop.planner_session import GrpcLink, PlannerLink
from clients.transport.errors import ServiceError, TrimtabError

CACHE_BYTES = 2 << 30
"""Memory that an in-process planner may use for bases: a few snapshots of a very large cluster."""


@contextmanager
def open_link(address: str | None) -> Iterator[PlannerLink]:
    """Open the planner at `address` ("host:port"), or one in this process for None."""
    if address is None:
        yield _InProcess()
        return
    with address_failures(address), GrpcLink(address) as link:
        yield link


class _InProcess:
    """The planner's own pipeline without gRPC. Loaded late: it brings the compiled kernels along."""

    def __init__(self) -> None:
        from opentelemetry.metrics import NoOpMeterProvider

        console = stderr_console()
        with console.status("loading the planner (the first time, its kernels are compiled) …"):
            from planner.decisions.table import TABLE, codes
            from planner.service.request_handler import Caller, RequestHandler

            self._handler = RequestHandler(NoOpMeterProvider().get_meter("planner"), CACHE_BYTES, log_decisions=False)
            self._decisions = codes(TABLE)
        self._caller = Caller()

    def info(self) -> planner_pb2.GetPlannerInfoResponse:
        """What the planner can do."""
        return planner_pb2.GetPlannerInfoResponse(decisions=self._decisions)

    def close(self) -> None:
        """There is no connection."""

    def send(self, request: plan_pb2.PlanRequest, payload: bytes) -> plan_pb2.PlanResponse:
        """Answer `Plan`."""
        try:
            return self._handler.plan(request, payload, self._caller)
        except ServiceError as error:
            raise TrimtabError(error.code, error.reason, error.message, error.metadata) from error
