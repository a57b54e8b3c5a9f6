"""The pipeline of a call, without gRPC: request and bytes in, answer out. Service and in-process planner share it.

Decides the order of steps and what is logged, measured and kept; never decides about the cluster. One structured log
line for each decision. Raises ServiceError for everything a caller can cause. Safe between threads.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import structlog
from opentelemetry.metrics import Meter
from trimtab.v1 import plan_pb2, planner_pb2, reason_pb2

from planner.decisions.fit import check_fit
from planner.decisions.plan import plan
from planner.decisions.requests import check_decisions, check_request
from planner.decisions.work import Work
from planner.service.bounds import Bounds
from planner.service.failures import as_service_error, base_unknown, state_unknown
from planner.service.measurement import Instruments, StopWatch
from planner.service.memory import KeptSnapshot, Memory, Owner
from planner.snapshot.decode import canonicalize, parse_snapshot
from planner.snapshot.delta import apply_delta, parse_delta

log = structlog.get_logger("planner")


class Caller(NamedTuple):
    """Who asks, and how long the answer may take."""

    identity: str = ""
    bounds: Bounds = Bounds()


class Engine:
    """Answers Plan and CheckFit.

    cache_bytes : memory for bases of deltas and states, 0 = none; tell : whether decisions are logged.
    """

    def __init__(self, meter: Meter, cache_bytes: int, tell: bool = True) -> None:
        self._log = log if tell else structlog.wrap_logger(structlog.ReturnLogger(), processors=[])
        self._instruments = Instruments(meter)
        self._memory = Memory(cache_bytes)

    def plan(self, request: plan_pb2.PlanRequest, payload: bytes, caller: Caller) -> plan_pb2.PlanResponse:
        """Take the decisions asked for. `payload` : the snapshot's or delta's bytes."""
        watch = StopWatch(caller.bounds, self._instruments)
        owner = Owner(caller.identity, request.cluster)
        with _contract_errors():
            check_request(request)
            check_decisions(request)
            state = self._state(request, owner)
            kept = self._snapshot(request, payload, owner, watch)
            answer = plan(kept.snapshot, request, state, _work(watch, caller, kept))
        answer.request_id = request.request_id
        answer.state_version = self._memory.keep_state(owner, answer.state)
        self._memory.keep_snapshot(owner, kept)
        caller.bounds.check()
        watch.write(answer.diagnostics)
        self._tell(request, answer, watch)
        return answer

    def check_fit(
        self, request: plan_pb2.PlanRequest, payload: bytes, caller: Caller
    ) -> Iterator[planner_pb2.CheckFitResponse]:
        """Say which nodes each pod fits, one pod after the other. Nothing is checked before the first is asked for."""
        watch = StopWatch(caller.bounds, self._instruments)
        owner = Owner(caller.identity, request.cluster)
        with _contract_errors():
            check_request(request)
            kept = self._snapshot(request, payload, owner, watch)
            self._memory.keep_snapshot(owner, kept)
            for answer in check_fit(kept.snapshot, request, _work(watch, caller, kept)):
                caller.bounds.check()
                yield answer
        watch.write(plan_pb2.Diagnostics())

    def _snapshot(self, request: plan_pb2.PlanRequest, payload: bytes, owner: Owner, watch: StopWatch) -> KeptSnapshot:
        """Return the snapshot of a request, whole or as a delta against one that was kept."""
        if not request.base_version:
            with watch.stage("decode"):
                message = parse_snapshot(payload)
            with watch.stage("columns"):
                snapshot = canonicalize(message)
            self._instruments.base("whole")
            return self._memory.snapshot(owner, snapshot.version) or KeptSnapshot(snapshot)
        base = self._memory.snapshot(owner, request.base_version)
        if base is None:
            self._instruments.base("unknown")
            raise base_unknown(request)
        self._instruments.base("delta")
        if not payload:
            return base
        with watch.stage("decode"):
            delta = parse_delta(payload)
        with watch.stage("columns"):
            snapshot = apply_delta(base.snapshot, delta, base.derive)
        return self._memory.snapshot(owner, snapshot.version) or KeptSnapshot(snapshot, base)

    def _state(self, request: plan_pb2.PlanRequest, owner: Owner) -> plan_pb2.PlanState | None:
        if request.HasField("state"):
            return request.state
        if not request.state_version:
            return None
        state = self._memory.state(owner, request.state_version)
        if state is None:
            raise state_unknown(request)
        return state

    def _tell(self, request: plan_pb2.PlanRequest, answer: plan_pb2.PlanResponse, watch: StopWatch) -> None:
        """Log and count each decision."""
        told = {
            "request_id": request.request_id,
            "cluster": request.cluster,
            "snapshot_version": answer.snapshot_version,
            "nodes": answer.diagnostics.node_count,
            "pods": answer.diagnostics.pod_count,
            "stages_ms": watch.milliseconds(),
        }
        if answer.HasField("scale_down"):
            decision = answer.scale_down
            result = reason_pb2.ScaleDownResult.Code.Name(decision.result)
            self._instruments.plan("SCALE_DOWN", result)
            self._log.info(
                "decision",
                decision="SCALE_DOWN",
                result=result,
                unneeded=len(decision.unneeded),
                delete_empty=len(decision.delete_empty),
                drain=len(decision.drain),
                evaluated=decision.evaluated,
                not_evaluated=decision.not_evaluated,
                **told,
            )


def _work(watch: StopWatch, caller: Caller, kept: KeptSnapshot) -> Work:
    return Work(watch.stage, caller.bounds.time_left, kept.derive)


@contextmanager
def _contract_errors() -> Iterator[None]:
    """Turn errors of the pure packages into those of the contract."""
    try:
        yield
    except Exception as error:
        known = as_service_error(error)
        if known is None:
            raise
        raise known from error
