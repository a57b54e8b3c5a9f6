"""The planner's gRPC service: receives streams, sends the request handler's answers. Decides the caller's identity and
the number of concurrent calls; never decides about the cluster.
"""

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager
from importlib.metadata import version
from typing import Any, Final

import grpc

from trimtab.common.rpc import callers as transport
from trimtab.common.rpc.access import Access
from trimtab.common.rpc.callers import current_caller
from trimtab.common.watched.received_objects import SharedParts
from trimtab.planner.decisions.table import TABLE, codes
from trimtab.planner.predicates.order import PLUGINS
from trimtab.planner.service.request_handler import Caller, RequestHandler
from trimtab.planner.service.request_limits import AdmissionQueue, Bounds, RequestMemory, ReserveMemory
from trimtab.planner.service.settings import PlannerOptions
from trimtab.planner.service.snapshot_reader import StreamLimits, collect, reserve_for_reading
from trimtab.setting_options import FEATURES
from trimtab.v1 import plan_pb2, planner_pb2, planner_pb2_grpc

RPCS: Final = ("GetInfo", "Plan", "CheckFit", "BalanceScaleUp")
_GO_ON_S: Final = 60.0
"""Longest wait of a partly sent answer for its next turn."""


class PlannerServicer(planner_pb2_grpc.PlannerServicer):
    """Answers `trimtab.v1.Planner`."""

    def __init__(
        self,
        handler: RequestHandler,
        options: PlannerOptions,
        access: Access | None = None,
        memory: RequestMemory | None = None,
    ) -> None:
        self._access = access or Access()
        self._handler = handler
        self._options = options
        self._memory = memory or RequestMemory(options.max_request_memory)
        self._queue = AdmissionQueue(options.max_concurrent)

    def GetInfo(  # noqa: N802
        self, request: planner_pb2.GetPlannerInfoRequest, context: grpc.ServicerContext
    ) -> planner_pb2.GetPlannerInfoResponse:
        """Return version, decisions, RPCs, predicates, limits and features."""
        del request, context
        return planner_pb2.GetPlannerInfoResponse(
            version=version("trimtab"),
            decisions=codes(TABLE),
            rpcs=RPCS,
            predicates=PLUGINS,
            max_snapshot_size_bytes=self._options.max_snapshot_bytes,
            features=FEATURES,
        )

    def Plan(  # noqa: N802
        self, request_iterator: Iterator[planner_pb2.PlanRequestPart], context: grpc.ServicerContext
    ) -> Any:
        """Make the requested decisions. Returns the bytes of a `PlanResponse`."""
        with self._memory.share() as reserve:
            request, payload = collect(request_iterator, self._limits(context), reserve, self._admit)
            with self._admitted(context):
                reserve_for_reading(payload, reserve)
                return self._handler.plan(request, payload, self._caller(context, reserve)).SerializeToString()

    def CheckFit(  # noqa: N802
        self, request_iterator: Iterator[planner_pb2.PlanRequestPart], context: grpc.ServicerContext
    ) -> Iterator[planner_pb2.CheckFitResponse]:
        """Yield the nodes that each pod fits."""
        with self._memory.share() as reserve:
            request, payload = collect(request_iterator, self._limits(context), reserve, self._admit)
            answers = self._handler.check_fit(request, payload, self._caller(context, reserve))
            with self._admitted(context):
                reserve_for_reading(payload, reserve)
                answer = next(answers, None)
            while answer is not None:
                # The call holds no place while the caller reads.
                yield answer
                with self._admitted(context, _GO_ON_S):
                    answer = next(answers, None)

    def BalanceScaleUp(  # noqa: N802
        self, request: planner_pb2.BalanceScaleUpRequest, context: grpc.ServicerContext
    ) -> planner_pb2.BalanceScaleUpResponse:
        """Split a number of new nodes between node groups."""
        del context
        return self._handler.balance_scale_up(request)

    def _admitted(self, context: grpc.ServicerContext, wait_s: float | None = None) -> AbstractContextManager[None]:
        """Hold a place among concurrent calls. Called once the request is complete, so no place waits for a caller.
        wait_s : None = as in the options, and at most half of the time left to the call's deadline.
        """
        remaining_s: float | None = context.time_remaining()
        if wait_s is None:
            wait_s = min(self._options.queue_s, math.inf if remaining_s is None else remaining_s / 2)
        return self._queue.place(current_caller().share, wait_s, context.is_active)

    def _limits(self, context: grpc.ServicerContext) -> StreamLimits:
        """Return the limits on what a call may send, and on how long it is read."""
        check = Bounds.within(context.time_remaining(), context.is_active).check
        identity = _identity(current_caller())

        def shared(request: plan_pb2.PlanRequest) -> SharedParts:
            return self._handler.shared(request, identity)

        return StreamLimits(self._options.max_snapshot_bytes, self._options.max_object_bytes, check, shared)

    def _admit(self, request: plan_pb2.PlanRequest) -> None:
        """Refuse a request for a cluster that its caller may not plan for."""
        self._access.check_cluster(current_caller(), request.cluster)

    def _caller(self, context: grpc.ServicerContext, reserve: ReserveMemory) -> Caller:
        remaining_s: float | None = context.time_remaining()
        longest_s = self._options.longest_call_s
        within_s = longest_s if remaining_s is None else min(remaining_s, longest_s)
        return Caller(_identity(current_caller()), Bounds.within(within_s, context.is_active), reserve)


def _identity(caller: transport.CallerIdentity) -> str:
    """Return the owner of a call's snapshots and states: the caller, and among its calls this client. Callers with the
    same identity, or with none, may share a proxy; knowing a version must not give access to another client's data.
    """
    return "\n".join([*caller.identities, caller.connection])
