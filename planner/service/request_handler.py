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
from trimtab.planner.service.failures import as_service_error, state_unknown
from trimtab.planner.service.measurement import Instruments, StopWatch
from trimtab.planner.service.request_limits import Bounds, EnforcedLimits, ReserveMemory, ThreadLanes, reserve_any
from trimtab.planner.service.session import CachedSnapshot, Session, Sessions
from trimtab.planner.service.snapshot_reader import Payload, SnapshotReader, shared_parts
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

    cache_bytes : for sessions, 0 = none are kept, None = no limit; table : the available decisions;
    `on_plan` may be set and is then called with each plan's request and snapshot.
    """

    def __init__(self, meter: Meter, cache_bytes: int | None, log_decisions: bool = True, table: Table = TABLE) -> None:
        self._log = log if log_decisions else structlog.wrap_logger(structlog.ReturnLogger(), processors=[])
        self._instruments = Instruments(meter)
        self._sessions = Sessions(cache_bytes)
        self._reader = SnapshotReader(self._instruments)
        self._table = table
        self._lanes = ThreadLanes()
        self.on_plan: Callable[[plan_pb2.PlanRequest, Snapshot], None] = _forget

    def plan(self, request: plan_pb2.PlanRequest, payload: Payload, caller: Caller) -> plan_pb2.PlanResponse:
        """Make the requested decisions. `payload` : the bytes of the snapshot or delta, or objects."""
        watch = StopWatch(EnforcedLimits(caller.bounds, caller.reserve), self._instruments)
        with self._session(request, caller) as session, _contract_errors(), within(watch.limits):
            check_request(request)
            check_decisions(request, self._table)
            state = _state(request, session)
            cached, request, notes = self._reader.read(request, payload, session, watch)
            devices, used = cached.planned_with()
            work = _work(watch, caller, used)._replace(parallel=self._lanes)
            planned = plan_devices(devices, request, state, work, self._table)
            answer = planned.answer
            answer.request_id = request.request_id
            answer.summary.object_notes.extend(notes)
            answer.state_version = session.keep_state(answer.state)
            session.keep_snapshot(cached)
        self.on_plan(request, used.snapshot)
        caller.bounds.check()
        watch.write(answer.diagnostics)
        self._log_decisions(request, answer, watch)
        self._log_failures(request, planned)
        return answer

    def shared(self, request: plan_pb2.PlanRequest, identity: str) -> SharedParts:
        """Return what the objects of a request share with those of the caller's requests before."""
        return shared_parts(request, self._sessions.get(identity, request.cluster))

    def check_fit(
        self, request: plan_pb2.PlanRequest, payload: Payload, caller: Caller
    ) -> Iterator[planner_pb2.CheckFitResponse]:
        """Yield the nodes that each pod fits. Checks start with the first `next`."""
        watch = StopWatch(EnforcedLimits(caller.bounds, caller.reserve), self._instruments)
        with _contract_errors():
            with self._session(request, caller) as session, within(watch.limits):
                check_request(request)
                cached, request, _ = self._reader.read(request, payload, session, watch)
                used = cached.checked()
                session.keep_snapshot(cached)
                answers = check_fit(used.snapshot, request, _work(watch, caller, used), cached.snapshot)
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

    @contextmanager
    def _session(self, request: plan_pb2.PlanRequest, caller: Caller) -> Iterator[Session]:
        """Yield the session of a request; measure it afterwards, whatever the request has come to."""
        identity, cluster = caller.identity, request.cluster
        session = self._sessions.get(identity, cluster)
        try:
            yield session
        finally:
            self._sessions.keep(identity, cluster, session)

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
        for decision in answer.diagnostics.decisions:
            name, own = plan_pb2.Decision.Code.Name(decision.decision), decision.counts
            self._instruments.plan(name, decision.result)
            shown = {"decision": name, "result": decision.result, **fields}
            # A decision may count what the line has already, such as nodes.
            counts = {f"{name.lower()}_{key}" if key in shown else key: own[key] for key in sorted(own)}
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


def _state(request: plan_pb2.PlanRequest, session: Session) -> plan_pb2.PlanState | None:
    if request.HasField("state"):
        return request.state
    if not request.state_version:
        return None
    state = session.state(request.state_version)
    if state is None:
        raise state_unknown(request)
    return state


def _work(watch: StopWatch, caller: Caller, cached: CachedSnapshot) -> Work:
    return Work(watch.stage, caller.bounds.time_left, cached, watch.limits, ends_request=(ServiceError,))


@contextmanager
def _contract_errors() -> Iterator[None]:
    """Convert errors of the pure packages into those of the contract."""
    try:
        yield
    except Exception as error:
        of_contract = as_service_error(error)
        if of_contract is None:
            raise
        raise of_contract from error
