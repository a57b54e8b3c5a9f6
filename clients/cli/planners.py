"""A planner to ask: a running service, or one in this process. Both give the same answers."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol

from trimtab.v1 import plan_pb2, planner_pb2, snapshot_pb2

from clients.cli.output import stderr_console


class PlannerAccess(Protocol):
    """What commands need of a planner. Raises `TrimtabError` or `ServiceError`."""

    def plan(self, snapshot: snapshot_pb2.ClusterSnapshot, request: plan_pb2.PlanRequest) -> plan_pb2.PlanResponse:
        """Answer `Plan`."""

    def check_fit(
        self, snapshot: snapshot_pb2.ClusterSnapshot, request: plan_pb2.PlanRequest
    ) -> Iterable[planner_pb2.CheckFitResponse]:
        """Answer `CheckFit`."""


@contextmanager
def open_planner(address: str | None) -> Iterator[PlannerAccess]:
    """Open the planner at `address` ("host:port"), or one in this process for None."""
    if address is None:
        yield _InProcess()
        return
    from clients.planner_client import PlannerClient

    with PlannerClient(address) as client:
        yield client


class _InProcess:
    """The planner's own pipeline without gRPC. Loaded late: it brings the compiled kernels along."""

    def __init__(self) -> None:
        import structlog
        from opentelemetry.metrics import NoOpMeterProvider

        # The service logs each decision; here the decision itself is what is printed.
        structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
        console = stderr_console()
        with console.status("loading the planner (the first time, its kernels are compiled) …"):
            from planner.service.engine import Caller, Engine

            self._engine = Engine(NoOpMeterProvider().get_meter("planner"), cache_bytes=0)
        self._caller = Caller()

    def plan(self, snapshot: snapshot_pb2.ClusterSnapshot, request: plan_pb2.PlanRequest) -> plan_pb2.PlanResponse:
        """Answer `Plan`."""
        return self._engine.plan(*_with_payload(snapshot, request), self._caller)

    def check_fit(
        self, snapshot: snapshot_pb2.ClusterSnapshot, request: plan_pb2.PlanRequest
    ) -> Iterable[planner_pb2.CheckFitResponse]:
        """Answer `CheckFit`."""
        return self._engine.check_fit(*_with_payload(snapshot, request), self._caller)


def _with_payload(
    snapshot: snapshot_pb2.ClusterSnapshot, request: plan_pb2.PlanRequest
) -> tuple[plan_pb2.PlanRequest, bytes]:
    """Return a request as it would go over the wire, and the snapshot's bytes."""
    payload = snapshot.SerializeToString(deterministic=True)
    whole = plan_pb2.PlanRequest()
    whole.CopyFrom(request)
    whole.base_version, whole.snapshot_size_bytes = "", len(payload)
    return whole, payload
