"""Access to a planner: a running service, or one in this process. Both give the same answers."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import structlog

from trimtab.clients.cli.failures import FailedError, UsageError, note_failed
from trimtab.clients.cli.output import is_quiet, stderr_console
from trimtab.clients.decisions import failed_fields
from trimtab.clients.json_form import setting_problem
from trimtab.clients.planner_client import CheckFitLink, GrpcLink, PlannerClient, PlannerLink
from trimtab.common.rpc.client import connect, is_served
from trimtab.common.rpc.errors import Reason, TrimtabError
from trimtab.common.rpc.extras import require_extra
from trimtab.common.rpc.telemetry import configure_logging, terminal_format
from trimtab.v1 import plan_pb2, planner_pb2, snapshot_pb2


@contextmanager
def open_planner(address: str | None, settings: Path | None = None) -> Iterator[PlannerClient]:
    """Open the planner at `address` ("host:port"), or one in this process for None. settings : the file of the settings
    in requests, for error messages.
    """
    if address is None:
        require_extra("planner", "deciding in this process, without --planner HOST:PORT,")
        # The service logs each decision; a command prints the decision itself, but not why one failed.
        if not (is_quiet() and structlog.is_configured()):
            configure_logging("error", terminal_format())
    with _settings_failures(settings), _opened(address) as link:
        yield _NotingPlanner(link)


class _NotingPlanner(PlannerClient):
    """A planner of which failed decisions are noted for the command's exit code."""

    def plan(self, snapshot: snapshot_pb2.ClusterSnapshot, request: plan_pb2.PlanRequest) -> plan_pb2.PlanResponse:
        """Return the answer to `Plan`."""
        return self._noted(super().plan(snapshot, request))

    def plan_delta(
        self, delta: snapshot_pb2.SnapshotDelta, base_version: str, request: plan_pb2.PlanRequest
    ) -> plan_pb2.PlanResponse:
        """Return the answer to `Plan` over the difference to a snapshot that was sent before."""
        return self._noted(super().plan_delta(delta, base_version, request))

    @staticmethod
    def _noted(answer: plan_pb2.PlanResponse) -> plan_pb2.PlanResponse:
        note_failed(failed_fields(answer))
        return answer


@contextmanager
def open_link(address: str | None) -> Iterator[PlannerLink]:
    """Open a planner for sessions of several rounds: at `address` ("host:port"), or for None one in this process, which
    keeps bases of deltas.
    """
    with _opened(address) as link:
        yield link


@contextmanager
def _opened(address: str | None) -> Iterator[CheckFitLink]:
    if address is None:
        from trimtab.clients.in_process_planner import InProcessLink

        with stderr_console().status("loading the planner …"):
            link = InProcessLink(_compiling_shown)
        yield link
        return
    with address_failures(address), GrpcLink(address) as connected:
        yield connected


@contextmanager
def _settings_failures(file: Path | None) -> Iterator[None]:
    """Turn a planner's error about a setting into one that names the file, and the key as the file has it."""
    try:
        yield
    except TrimtabError as error:
        problem = _settings_problem(error, file)
        if problem is None:
            raise
        raise UsageError(problem) from error


def _settings_problem(error: TrimtabError, file: Path | None) -> str | None:
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


@contextmanager
def _compiling_shown() -> Iterator[None]:
    """Say so on a terminal if kernels have to be compiled."""
    from trimtab.planner.compiled.kernel_cache import when_cold

    text = "compiling the planner's kernels, once for this installation: half a minute, longer on a busy machine …"
    status = stderr_console().status(text)
    try:
        with when_cold(status.start):
            yield
    finally:
        status.stop()
