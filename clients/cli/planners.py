"""Access to a planner: a running service, or one in this process. Both give the same answers."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Protocol

import grpc
import structlog

from trimtab.clients.cli.failures import FailedError, UsageError, note_failed
from trimtab.clients.cli.output import is_quiet, stderr_console
from trimtab.clients.decisions import failed_fields
from trimtab.clients.json_form import setting_problem
from trimtab.clients.loop.planner_session import GrpcLink, PlannerLink
from trimtab.clients.required_features import require_features
from trimtab.common.rpc.client import connect, is_served
from trimtab.common.rpc.collection import collection_rare
from trimtab.common.rpc.errors import Reason, ServiceError, TrimtabError
from trimtab.common.rpc.extras import require_extra
from trimtab.v1 import plan_pb2, planner_pb2, snapshot_pb2

CACHE_BYTES = 1 << 30
"""Memory that a planner in this process may use for states and parts of answers, beside the cluster."""


class PlannerAccess(Protocol):
    """The calls of a planner that commands use. Raises `TrimtabError` or `ServiceError`."""

    def plan(self, snapshot: snapshot_pb2.ClusterSnapshot, request: plan_pb2.PlanRequest) -> plan_pb2.PlanResponse:
        """Return the answer to `Plan`."""

    def plan_delta(
        self, delta: snapshot_pb2.SnapshotDelta, base_version: str, request: plan_pb2.PlanRequest
    ) -> plan_pb2.PlanResponse:
        """Return the answer to `Plan` over the difference to a snapshot that was sent before."""

    def check_fit(
        self, snapshot: snapshot_pb2.ClusterSnapshot, request: plan_pb2.PlanRequest
    ) -> Iterable[planner_pb2.CheckFitResponse]:
        """Return the answers to `CheckFit`."""


@contextmanager
def open_planner(address: str | None, settings: Path | None = None) -> Iterator[PlannerAccess]:
    """Open the planner at `address` ("host:port"), or one in this process for None. settings : the file of the settings
    in requests, for error messages.
    """
    if address is None:
        with _settings_failures(settings):
            yield _NotingPlanner(_InProcess())
        return
    from trimtab.clients.planner_client import PlannerClient

    with _settings_failures(settings), address_failures(address), PlannerClient(address) as client:
        yield _NotingPlanner(client)


class _NotingPlanner:
    """A planner of which failed decisions are noted for the command's exit code."""

    def __init__(self, planner: PlannerAccess) -> None:
        self._planner = planner
        self.check_fit = planner.check_fit

    def plan(self, snapshot: snapshot_pb2.ClusterSnapshot, request: plan_pb2.PlanRequest) -> plan_pb2.PlanResponse:
        """Return the answer to `Plan`."""
        return self._noted(self._planner.plan(snapshot, request))

    def plan_delta(
        self, delta: snapshot_pb2.SnapshotDelta, base_version: str, request: plan_pb2.PlanRequest
    ) -> plan_pb2.PlanResponse:
        """Return the answer to `Plan` over the difference to a snapshot that was sent before."""
        return self._noted(self._planner.plan_delta(delta, base_version, request))

    @staticmethod
    def _noted(answer: plan_pb2.PlanResponse) -> plan_pb2.PlanResponse:
        note_failed(failed_fields(answer))
        return answer


@contextmanager
def open_link(address: str | None) -> Iterator[PlannerLink]:
    """Open a planner for sessions of several rounds: at `address` ("host:port"), or for None one in this process, which
    keeps bases of deltas.
    """
    if address is None:
        from trimtab.clients.in_process_planner import InProcessLink

        with stderr_console().status("loading the planner (the first time, its kernels are compiled) …"):
            link: PlannerLink = InProcessLink()
        yield link
        return
    with address_failures(address), GrpcLink(address) as connected:
        yield connected


@contextmanager
def _settings_failures(file: Path | None) -> Iterator[None]:
    """Turn a planner's error about a setting into one that names the file, and the key as the file has it."""
    try:
        yield
    except (TrimtabError, ServiceError) as error:
        problem = _settings_problem(error, file)
        if problem is None:
            raise
        raise UsageError(problem) from error


def _settings_problem(error: TrimtabError | ServiceError, file: Path | None) -> str | None:
    """Return what is wrong in the settings file; None = the error is about something else."""
    field = error.metadata.get("field", "")
    if error.reason != Reason.SETTINGS_INVALID or not error.message.startswith(field):
        return None
    where = "settings" if file is None else f"settings file {file}"
    return f"{where}: {setting_problem(error.message, field)}"


class NamedSettingsLink:
    """A `PlannerLink` whose errors about a setting name the settings file. file : None = not given."""

    def __init__(self, link: PlannerLink, file: Path | None) -> None:
        self._link, self._file = link, file

    def info(self) -> planner_pb2.GetPlannerInfoResponse:
        """Return the planner's capabilities."""
        return self._link.info()

    def close(self) -> None:
        """Close the planner's link."""
        self._link.close()

    def send(self, request: plan_pb2.PlanRequest, payload: bytes) -> plan_pb2.PlanResponse:
        """Answer `Plan`."""
        try:
            return self._link.send(request, payload)
        except TrimtabError as error:
            problem = _settings_problem(error, self._file)
            if problem is None:
                raise
            raise TrimtabError(error.code, error.reason, problem, error.metadata) from error


@contextmanager
def address_failures(address: str) -> Iterator[None]:
    """Turn the failure to reach a planner into an error that names its address."""
    try:
        yield
    except TrimtabError as error:
        if error.reason != Reason.UNSPECIFIED:
            raise
        if error.code is grpc.StatusCode.UNAVAILABLE:
            raise FailedError(f"no planner at {address}: {error.message}; start one with trimtab-planner") from error
        if error.code is grpc.StatusCode.UNIMPLEMENTED:
            raise UsageError(f"no planner at {address}: {_what_is_at(address)}") from error
        raise


def _what_is_at(address: str) -> str:
    """Return which service is at an address instead of a planner."""
    channel = connect(address)
    try:
        if is_served(channel, "trimtab.v1.Actuator"):
            return "that is an actuator; give the planner's address"
    finally:
        channel.close()
    return "another gRPC service listens there"


class _InProcess:
    """The planner's own pipeline without gRPC. Imported late, because it loads the compiled kernels."""

    def __init__(self) -> None:
        require_extra("planner", "deciding in this process, without --planner HOST:PORT,")
        from opentelemetry.metrics import NoOpMeterProvider

        from trimtab.common.rpc.telemetry import configure_logging, terminal_format

        # The service logs each decision; a command prints the decision itself, but not why one failed.
        if not (is_quiet() and structlog.is_configured()):
            configure_logging("error", terminal_format())
        console = stderr_console()
        with console.status("loading the planner …"), collection_rare():
            from trimtab.planner.service.request_handler import Caller, RequestHandler
            from trimtab.planner.service.version_cache import WholeCache

            meter = NoOpMeterProvider().get_meter("planner")
            self._handler = RequestHandler(meter, WholeCache(CACHE_BYTES), log_decisions=False)
        self._caller = Caller()
        self._has_planned = False

    def plan(self, snapshot: snapshot_pb2.ClusterSnapshot, request: plan_pb2.PlanRequest) -> plan_pb2.PlanResponse:
        """Return the answer to `Plan`."""
        # The first plan loads the kernels that it needs, which are many objects and no garbage.
        with collection_rare(), nullcontext() if self._has_planned else _compiled_by_two():
            self._has_planned = True
            return self._handler.plan(*_with_payload(snapshot, request), self._caller)

    def plan_delta(
        self, delta: snapshot_pb2.SnapshotDelta, base_version: str, request: plan_pb2.PlanRequest
    ) -> plan_pb2.PlanResponse:
        """Return the answer to `Plan` over the difference to the snapshot of the last `plan`."""
        payload = delta.SerializeToString(deterministic=True)
        changed = plan_pb2.PlanRequest()
        changed.CopyFrom(request)
        changed.base_version, changed.snapshot_size_bytes = base_version, len(payload)
        require_features(changed, delta.changed)
        with collection_rare():
            return self._handler.plan(changed, payload, self._caller)

    def check_fit(
        self, snapshot: snapshot_pb2.ClusterSnapshot, request: plan_pb2.PlanRequest
    ) -> Iterable[planner_pb2.CheckFitResponse]:
        """Return the answers to `CheckFit`."""
        return self._handler.check_fit(*_with_payload(snapshot, request), self._caller)


@contextmanager
def _compiled_by_two() -> Iterator[None]:
    """If kernels have to be compiled, have a second process compile half of them, and say so on a terminal."""
    from trimtab.planner.compiled.kernel_cache import when_cold
    from trimtab.planner.service.warm_up import second_process

    text = "compiling the planner's kernels, once for this installation: half a minute, longer on a busy machine …"
    status = stderr_console().status(text)
    try:
        with second_process(quick=True), when_cold(status.start):
            yield
    finally:
        status.stop()


def _with_payload(
    snapshot: snapshot_pb2.ClusterSnapshot, request: plan_pb2.PlanRequest
) -> tuple[plan_pb2.PlanRequest, bytes]:
    """Return a request as it would go over the wire, and the snapshot's bytes."""
    payload = snapshot.SerializeToString(deterministic=True)
    whole = plan_pb2.PlanRequest()
    whole.CopyFrom(request)
    whole.base_version, whole.snapshot_size_bytes = "", len(payload)
    require_features(whole, snapshot)
    return whole, payload
