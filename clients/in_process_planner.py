"""The planner in this process: the service's request handler without gRPC.

Imported late, because it loads the compiled kernels. Keeps bases of deltas, so a session of many rounds costs the same
as with the service.
"""

from collections.abc import Callable

from trimtab.clients.loop.planner_session import PlannerLink
from trimtab.common.rpc.errors import ServiceError, TrimtabError
from trimtab.v1 import plan_pb2, planner_pb2
from trimtab.v1.option_choice_pb2 import OptionAnswer, OptionChoice

CACHE_BYTES = 2 << 30
"""Memory that an in-process planner may use for states and parts of answers, beside its one base."""


class InProcessLink:
    """A `PlannerLink` (see `trimtab.clients.loop.planner_session`)."""

    def __init__(self, cache_bytes: int = CACHE_BYTES) -> None:
        from opentelemetry.metrics import NoOpMeterProvider

        from trimtab.planner.decisions.table import TABLE, codes
        from trimtab.planner.service.request_handler import Caller, RequestHandler
        from trimtab.planner.service.version_cache import LatestCache

        meter = NoOpMeterProvider().get_meter("planner")
        self._handler = RequestHandler(meter, LatestCache(cache_bytes), log_decisions=False)
        self._decisions = codes(TABLE)
        self._caller = Caller()

    def info(self) -> planner_pb2.GetPlannerInfoResponse:
        """Return the planner's capabilities."""
        return planner_pb2.GetPlannerInfoResponse(decisions=self._decisions)

    def close(self) -> None:
        """There is no connection."""

    def send(self, request: plan_pb2.PlanRequest, payload: bytes) -> plan_pb2.PlanResponse:
        """Answer `Plan`."""
        try:
            return self._handler.plan(request, payload, self._caller)
        except ServiceError as error:
            raise TrimtabError(error.code, error.reason, error.message, error.metadata) from error


def choose_option(choice: OptionChoice) -> OptionAnswer:
    """Return the answer to a recorded call of the gRPC expander, as the planner's service makes it."""
    from trimtab.planner.scale_up.option_choice import choose_option as choose

    return choose(choice)


class WithoutIdleGrowth:
    """A `PlannerLink` that does not request scale-up if no pod can need it.

    That is: no pod waits, no node comes or goes, and the last answer's state has no pod that waited. Such a decision
    would find and change nothing, at a third of the cost of a round.
    """

    def __init__(self, link: PlannerLink, is_idle: Callable[[], bool]) -> None:
        """`is_idle` returns whether no pod waits and no node comes or goes."""
        self._link, self._is_idle = link, is_idle
        self._remembers = True

    def info(self) -> planner_pb2.GetPlannerInfoResponse:
        """Return the planner's capabilities."""
        return self._link.info()

    def close(self) -> None:
        """Close the planner's link."""
        self._link.close()

    def send(self, request: plan_pb2.PlanRequest, payload: bytes) -> plan_pb2.PlanResponse:
        """Answer `Plan`, without the scale-up decision if idle."""
        others = [one for one in request.decisions if one != plan_pb2.Decision.SCALE_UP]
        if others and plan_pb2.Decision.SLACK not in others and not self._remembers and self._is_idle():
            request.decisions[:] = others
        answer = self._link.send(request, payload)
        self._remembers = bool(answer.state.scale_up.opaque)
        return answer
