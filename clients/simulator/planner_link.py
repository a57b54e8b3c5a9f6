"""The planner in this process: the service's request handler without gRPC.

Loaded late, because it brings the compiled kernels along. Keeps bases of deltas, so a session of many rounds costs what
it costs against the service.
"""

from trimtab.v1 import plan_pb2, planner_pb2

from clients.transport.errors import ServiceError, TrimtabError

CACHE_BYTES = 2 << 30
"""Memory that an in-process planner may use for bases: a few snapshots of a very large cluster."""


class InProcessLink:
    """A `PlannerLink` (see `clients.reference_loop.planner_session`)."""

    def __init__(self, cache_bytes: int = CACHE_BYTES) -> None:
        from opentelemetry.metrics import NoOpMeterProvider

        from planner.decisions.table import TABLE, codes
        from planner.service.request_handler import Caller, RequestHandler

        meter = NoOpMeterProvider().get_meter("planner")
        self._handler = RequestHandler(meter, cache_bytes, log_decisions=False)
        self._decisions = codes(TABLE)
        self._caller = Caller()

    def info(self) -> planner_pb2.GetPlannerInfoResponse:
        """Return what the planner can do."""
        return planner_pb2.GetPlannerInfoResponse(decisions=self._decisions)

    def close(self) -> None:
        """There is no connection."""

    def send(self, request: plan_pb2.PlanRequest, payload: bytes) -> plan_pb2.PlanResponse:
        """Answer `Plan`."""
        try:
            return self._handler.plan(request, payload, self._caller)
        except ServiceError as error:
            raise TrimtabError(error.code, error.reason, error.message, error.metadata) from error
