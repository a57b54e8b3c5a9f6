"""Handle a request (message and bytes) without gRPC. Shared by the service and the in-process planner.

One structured log line per decision. Raises ServiceError for every error that a caller can cause. Thread-safe.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import structlog
from opentelemetry.metrics import Meter

from trimtab.common.rpc.errors import ServiceError
from trimtab.common.watched.received_objects import SharedParts
from trimtab.planner.decisions.balance_scale_up import balance_scale_up
from trimtab.planner.decisions.device_plan import plan_devices
from trimtab.planner.decisions.fit import check_fit
from trimtab.planner.decisions.plan import Planned
from trimtab.planner.decisions.requests import check_decisions, check_request
from trimtab.planner.decisions.table import TABLE, Table
from trimtab.planner.model.execution import within
from trimtab.planner.round.round import Work
from trimtab.planner.service.concurrency import ThreadLanes
from trimtab.planner.service.failures import as_service_error, state_unknown
from trimtab.planner.service.measurement import Instruments, StopWatch
from trimtab.planner.service.request_limits import Bounds, EnforcedLimits, ReserveMemory, reserve_any
from trimtab.planner.service.snapshot_reader import SnapshotReader
from trimtab.planner.service.streams import Payload
from trimtab.planner.service.version_cache import CachedSnapshot, CacheScope, VersionCache
from trimtab.planner.snapshot.caches import KeyedCache
from trimtab.planner.snapshot.columns import Snapshot
from trimtab.v1 import plan_pb2, planner_pb2

log = structlog.get_logger("planner")


class Caller(NamedTuple):
    """Identity and deadline of the caller; `reserve` is called before memory is allocated for the request."""

    identity: str = ""
    bounds: Bounds = Bounds()
    reserve: ReserveMemory = reserve_any


class RequestHandler:
    """Answers Plan, CheckFit and BalanceScaleUp.

    cache : for bases of deltas and states, or its size in bytes, 0 = none; table : the available decisions;
    `on_plan` may be set and is then called with each plan's request and snapshot.
    """

    def __init__(
        self, meter: Meter, cache: int | VersionCache, log_decisions: bool = True, table: Table = TABLE
    ) -> None:
        self._log = log if log_decisions else structlog.wrap_logger(structlog.ReturnLogger(), processors=[])
        self._instruments = Instruments(meter)
        self._cache = VersionCache(cache) if isinstance(cache, int) else cache
        self._reader = SnapshotReader(self._cache, self._instruments)
        self._table = table
        self._lanes = ThreadLanes()
        self.on_plan: Callable[[plan_pb2.PlanRequest, Snapshot], None] = _forget

    def plan(self, request: plan_pb2.PlanRequest, payload: Payload, caller: Caller) -> plan_pb2.PlanResponse:
        """Make the requested decisions. `payload` : the bytes of the snapshot or delta, or objects."""
        watch = StopWatch(EnforcedLimits(caller.bounds, caller.reserve), self._instruments)
        scope = CacheScope(caller.identity, request.cluster)
        with _contract_errors(), within(watch.limits):
            check_request(request)
            check_decisions(request, self._table)
            state = self._state(request, scope)
            kept, request, notes = self._reader.read(request, payload, scope, watch)
            used = kept.planned()
            work = _work(watch, caller, used, self._cache.parts(scope))._replace(parallel=self._lanes)
            planned = plan_devices(kept.planned_devices(), request, state, work, self._table)
        answer = planned.answer
        answer.request_id = request.request_id
        answer.summary.object_notes.extend(notes)
        answer.state_version = self._cache.keep_state(scope, answer.state)
        self._cache.keep_snapshot(scope, kept)
        self.on_plan(request, used.snapshot)
        caller.bounds.check()
        watch.write(answer.diagnostics)
        self._log_decisions(request, answer, watch)
        self._log_failures(request, planned)
        return answer

    def shared(self, request: plan_pb2.PlanRequest, identity: str) -> SharedParts:
        """Return what the objects of a request share with those of the caller's requests before."""
        return self._reader.shared(request, CacheScope(identity, request.cluster))

    def check_fit(
        self, request: plan_pb2.PlanRequest, payload: Payload, caller: Caller
    ) -> Iterator[planner_pb2.CheckFitResponse]:
        """Yield the nodes that each pod fits. Checks start with the first `next`."""
        watch = StopWatch(EnforcedLimits(caller.bounds, caller.reserve), self._instruments)
        scope = CacheScope(caller.identity, request.cluster)
        with _contract_errors():
            with within(watch.limits):
                check_request(request)
                kept, request, _ = self._reader.read(request, payload, scope, watch)
                used = kept.checked()
                self._cache.keep_snapshot(scope, kept)
                work = _work(watch, caller, used, self._cache.parts(scope))
                answers = check_fit(used.snapshot, request, work, kept.snapshot)
            while True:
                # Not around `yield`: between two answers the thread is the caller's.
                with within(watch.limits):
                    answer = next(answers, None)
                if answer is None:
                    break
                caller.bounds.check()
                yield answer
        watch.write(plan_pb2.Diagnostics())

    def balance_scale_up(self, request: planner_pb2.BalanceScaleUpRequest) -> planner_pb2.BalanceScaleUpResponse:
        """Split a number of new nodes between node groups. Logged and measured only as a call."""
        with _contract_errors():
            return balance_scale_up(request)

    def _state(self, request: plan_pb2.PlanRequest, scope: CacheScope) -> plan_pb2.PlanState | None:
        if request.HasField("state"):
            return request.state
        if not request.state_version:
            return None
        state = self._cache.state(scope, request.state_version)
        if state is None:
            raise state_unknown(request)
        return state

    def _log_decisions(self, request: plan_pb2.PlanRequest, answer: plan_pb2.PlanResponse, watch: StopWatch) -> None:
        """Log and count each decision."""
        fields = {
            "request_id": request.request_id,
            "cluster": request.cluster,
            "snapshot_version": answer.snapshot_version,
            "nodes": answer.diagnostics.node_count,
            "pods": answer.diagnostics.pod_count,
            "stages_ms": watch.milliseconds(),
        }
        for one in answer.diagnostics.decisions:
            name = plan_pb2.Decision.Code.Name(one.decision)
            self._instruments.plan(name, one.result)
            shown = {"decision": name, "result": one.result, **fields}
            # A decision may count what the line has already, such as nodes.
            counts = {f"{name.lower()}_{key}" if key in shown else key: one.counts[key] for key in sorted(one.counts)}
            self._log.info("decision", **counts, **shown)

    def _log_failures(self, request: plan_pb2.PlanRequest, planned: Planned) -> None:
        """Log and count each decision that failed, with the error's text and place."""
        for failure in planned.failures:
            self._instruments.failure(failure.decision.name)
            log.error(
                "decision_failed",
                decision=failure.decision.name,
                request_id=request.request_id,
                cluster=request.cluster,
                snapshot_version=planned.answer.snapshot_version,
                exc_info=failure.error,
            )


def _forget(_request: plan_pb2.PlanRequest, _snapshot: Snapshot) -> None:
    """Do nothing with a plan."""


def _work(watch: StopWatch, caller: Caller, kept: CachedSnapshot, encodings: KeyedCache) -> Work:
    return Work(
        watch.stage,
        caller.bounds.time_left,
        kept,
        watch.limits,
        encodings,
        ends_request=(ServiceError,),
    )


@contextmanager
def _contract_errors() -> Iterator[None]:
    """Convert errors of the pure packages into those of the contract."""
    try:
        yield
    except Exception as error:
        known = as_service_error(error)
        if known is None:
            raise
        raise known from error
