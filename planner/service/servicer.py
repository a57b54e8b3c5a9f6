"""The planner's gRPC service: streams in, the engine's answers out.

Decides who the caller is and how many calls are worked on at a time; never decides about the cluster.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Final

import grpc
from trimtab.v1 import plan_pb2, planner_pb2, planner_pb2_grpc

from clients.transport.errors import not_implemented
from planner.decisions.requests import DECISIONS
from planner.predicates.order import PREDICATES
from planner.service.bounds import Bounds
from planner.service.engine import Caller, Engine
from planner.service.failures import overloaded
from planner.service.settings import PlannerOptions
from planner.service.streams import collect

RPCS: Final = ("GetInfo", "Plan", "CheckFit")
_NO_DEADLINE_S: Final = 1e9


class PlannerServicer(planner_pb2_grpc.PlannerServicer):
    """Answers `trimtab.v1.Planner`."""

    def __init__(self, engine: Engine, options: PlannerOptions) -> None:
        self._engine = engine
        self._options = options
        self._places = threading.BoundedSemaphore(options.max_concurrent)

    def GetInfo(  # noqa: N802
        self, request: planner_pb2.GetPlannerInfoRequest, context: grpc.ServicerContext
    ) -> planner_pb2.GetPlannerInfoResponse:
        """Say what this build can do."""
        del request, context
        return planner_pb2.GetPlannerInfoResponse(
            version=version("trimtab"),
            decisions=DECISIONS,
            rpcs=RPCS,
            predicates=list(dict.fromkeys(one.plugin for one in PREDICATES if one.plugin)),
            max_snapshot_size_bytes=self._options.max_snapshot_bytes,
        )

    def Plan(  # noqa: N802
        self, request_iterator: Iterator[plan_pb2.PlanRequestPart], context: grpc.ServicerContext
    ) -> plan_pb2.PlanResponse:
        """Take the decisions asked for."""
        caller = _caller(context)
        with self._place():
            request, payload = collect(request_iterator, self._options.max_snapshot_bytes)
            return self._engine.plan(request, payload, caller)

    def CheckFit(  # noqa: N802
        self, request_iterator: Iterator[plan_pb2.PlanRequestPart], context: grpc.ServicerContext
    ) -> Iterator[planner_pb2.CheckFitResponse]:
        """Say which nodes each pod fits."""
        caller = _caller(context)
        with self._place():
            request, payload = collect(request_iterator, self._options.max_snapshot_bytes)
            yield from self._engine.check_fit(request, payload, caller)

    def BalanceScaleUp(  # noqa: N802
        self, request: planner_pb2.BalanceScaleUpRequest, context: grpc.ServicerContext
    ) -> planner_pb2.BalanceScaleUpResponse:
        """Refuse: not in this build."""
        del request, context
        raise not_implemented("BalanceScaleUp")

    @contextmanager
    def _place(self) -> Iterator[None]:
        """Take one of the places for calls that are worked on."""
        if not self._places.acquire(blocking=False):
            raise overloaded(self._options.max_concurrent)
        try:
            yield
        finally:
            self._places.release()


def _caller(context: grpc.ServicerContext) -> Caller:
    remaining_s: float | None = context.time_remaining()
    if remaining_s is not None and remaining_s > _NO_DEADLINE_S:
        remaining_s = None
    return Caller(_identity(context), Bounds.within(remaining_s, context.is_active))


def _identity(context: grpc.ServicerContext) -> str:
    """Return who calls: by certificate where there is one, else by host, whatever the port of the connection."""
    identities = context.peer_identities()
    if identities:
        return b",".join(sorted(identities)).decode(errors="replace")
    peer = context.peer()
    return peer.rpartition(":")[0] if peer.startswith(("ipv4:", "ipv6:")) else peer
