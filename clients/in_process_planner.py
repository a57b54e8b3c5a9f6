"""The planner in this process: the service's request handler without gRPC.

Imported late, because it loads the compiled kernels. Keeps bases of deltas, so a session of many rounds costs the same
as with the service. Where kernels have to be compiled, a second process compiles half of them.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext

from trimtab.clients.planner_client import PlannerLink
from trimtab.common.rpc.collection import collection_rare
from trimtab.common.rpc.errors import errors_of_clients
from trimtab.v1 import plan_pb2, planner_pb2
from trimtab.v1.option_choice_pb2 import OptionAnswer, OptionChoice


class InProcessLink:
    """A `CheckFitLink` (see `trimtab.clients.planner_client`)."""

    def __init__(self, around_first: Callable[[], AbstractContextManager[None]] = nullcontext) -> None:
        """Load the planner. around_first : entered for the first call, which loads or compiles kernels."""
        with collection_rare():
            from opentelemetry.metrics import NoOpMeterProvider

            from trimtab.planner.decisions.table import TABLE, codes
            from trimtab.planner.service.request_handler import Caller, RequestHandler

            meter = NoOpMeterProvider().get_meter("planner")
            self._handler = RequestHandler(meter, None, log_decisions=False)
        self._decisions = codes(TABLE)
        self._caller = Caller()
        self._around_first = around_first
        self._has_planned = False

    def info(self) -> planner_pb2.GetPlannerInfoResponse:
        """Return the planner's capabilities."""
        return planner_pb2.GetPlannerInfoResponse(decisions=self._decisions)

    def close(self) -> None:
        """There is no connection."""

    def send(self, request: plan_pb2.PlanRequest, payload: bytes) -> plan_pb2.PlanResponse:
        """Answer `Plan`."""
        with errors_of_clients(), ExitStack() as stack:
            if not self._has_planned:
                self._has_planned = True
                from trimtab.planner.service.warm_up import second_process

                # It loads the kernels that it needs, which are many objects and no garbage.
                for context in (collection_rare(), second_process(quick=True), self._around_first()):
                    stack.enter_context(context)
            return self._handler.plan(request, payload, self._caller)

    def check_fit(self, request: plan_pb2.PlanRequest, payload: bytes) -> Iterator[planner_pb2.CheckFitResponse]:
        """Answer `CheckFit`."""
        with errors_of_clients():
            yield from self._handler.check_fit(request, payload, self._caller)


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
        others = [decision for decision in request.decisions if decision != plan_pb2.Decision.SCALE_UP]
        if others and plan_pb2.Decision.SLACK not in others and not self._remembers and self._is_idle():
            request.decisions[:] = others
        answer = self._link.send(request, payload)
        self._remembers = bool(answer.state.scale_up.opaque)
        return answer
