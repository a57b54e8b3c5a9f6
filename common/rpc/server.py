"""A gRPC server from its start to its end.

Decides the order of steps: bind, publish the address, prepare, report SERVING, and on SIGTERM or SIGINT report
NOT_SERVING, end streams, let calls in flight finish within the grace period, close. Never knows what the services do.

A service's `main` builds its servicer and calls `serve`; a test uses `Shell` itself:

    with Shell("planner", [Registration(add_PlannerServicer_to_server, servicer, "trimtab.v1.Planner")]) as shell:
        channel = connect(shell.address)
"""

import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

import grpc
import structlog
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from trimtab.common.documents.output import write_whole
from trimtab.common.rpc.access import Access
from trimtab.common.rpc.addresses import split_address
from trimtab.common.rpc.calls import CallLimits, OpenCalls
from trimtab.common.rpc.interceptor import CallInterceptor
from trimtab.common.rpc.port_security import PortSecurity, speaks_tls_1_3_alone
from trimtab.common.rpc.telemetry import Telemetry, start_telemetry

log = structlog.get_logger("server")

_OPTIONS: Final = (
    ("grpc.so_reuseport", 0),
    # A caller that is suspended or gone answers no ping; its connection and calls end after 30 s.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    # How often callers may ping.
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    # A connection without calls is closed; clients connect again by themselves.
    ("grpc.max_connection_idle_ms", 900_000),
    # Further calls of one connection wait at the caller, or end without our error details if the connection is so new
    # that the caller does not know the number yet. A call that waits to be refused takes 16 KiB.
    ("grpc.max_concurrent_streams", 5000),
    # Calls that Python has not seen yet; beyond this number gRPC ends them, without our error details.
    ("grpc.server.max_pending_requests", 100_000),
    ("grpc.server.max_pending_requests_hard_limit", 100_000),
    # Nor does gRPC cancel them after 30 s, without our error details, while other calls keep Python busy: they are
    # refused once they are seen, unless their deadline has passed.
    ("grpc.server_max_unrequested_time_in_server", 3600),
)

_SETTLE_S: Final = 5.0
"""Longest time to answer calls that have arrived when the server has to stop; refusing thousands takes two seconds."""

_AUTHENTICATED: Final = (
    # Callers have to present their certificates again: an expired or revoked one does not live on in a connection.
    ("grpc.max_connection_age_ms", 3_600_000),
    # For streams that are still open then.
    ("grpc.max_connection_age_grace_ms", 600_000),
)


class Registration(NamedTuple):
    """One gRPC service: the generated `add_…Servicer_to_server`, the servicer, and the full name.

    routine : names of methods that are called very often and change nothing; they are logged at level debug. add : the
    generated function.
    """

    add: Callable[[Any, grpc.Server], None]
    servicer: Any
    name: str
    routine: frozenset[str] = frozenset()


@dataclass(frozen=True)
class ServerSettings:
    """How a server listens."""

    # host:port to listen on; port 0 takes a free one. Loopback by default: nothing is exposed by accident.
    address: str = "127.0.0.1:0"
    # File that receives the bound address once it is known. None = no file.
    address_file: Path | None = None
    # host:port of the Prometheus endpoint. "" = none.
    metrics_address: str = ""
    # Threads for calls; each call takes one until it ends, also a watching stream. Created when needed.
    max_workers: int = 256
    # Calls that one caller may have open, by identity or, for unknown callers, by connection. 0 = half of all.
    max_calls_per_caller: int = 0
    # Longest pause within a request, longest time for all of it, longest time until a message is read, seconds.
    idle_timeout_s: float = 10.0
    receive_timeout_s: float = 60.0
    send_timeout_s: float = 30.0
    # Seconds for calls in flight to finish once the server has to stop.
    grace_s: float = 20.0
    # Largest message accepted, bytes. gRPC's own default: larger payloads travel as streams.
    max_message_bytes: int = 4 << 20
    # TLS, and whether ports may be exposed without it.
    security: PortSecurity = field(default_factory=PortSecurity)
    # Who may call what.
    access: Access = field(default_factory=Access)

    def limits(self) -> CallLimits:
        """Return the limits of calls. Some threads are spare, to refuse calls and to end some to make room."""
        most = self.max_workers - max(1, self.max_workers // 8)
        of_caller = min(self.max_calls_per_caller or most // 2, most)
        return CallLimits(self.idle_timeout_s, self.receive_timeout_s, self.send_timeout_s, most, of_caller)


class Shell:
    """A server with health, reflection, interceptor and graceful stop. Use as a context manager."""

    def __init__(
        self,
        name: str,
        registrations: Sequence[Registration],
        settings: ServerSettings | None = None,
        telemetry: Telemetry | None = None,
    ) -> None:
        """Bind, but accept no call before `ready`. Raises OSError if the address is taken or malformed; ValueError if
        it would be open to the network without protection, or the certificate cannot be used.
        """
        self.settings = settings or ServerSettings()
        security = self.settings.security
        security.check()
        self.telemetry = telemetry or start_telemetry(name, self.settings.metrics_address, security)
        self._ready = self.telemetry.ready
        self._stopped = threading.Event()
        self._names = [registration.name for registration in registrations]
        self._routine = frozenset(
            f"/{registration.name}/{method}" for registration in registrations for method in registration.routine
        )
        self._health = health.HealthServicer()
        self._calls = OpenCalls(self.settings.limits())
        self._server = grpc.server(
            ThreadPoolExecutor(self.settings.max_workers, thread_name_prefix=name),
            interceptors=self._interceptors(),
            options=[
                *_OPTIONS,
                *(_AUTHENTICATED if security.client_ca else ()),
                ("grpc.max_receive_message_length", self.settings.max_message_bytes),
            ],
        )
        for registration in registrations:
            registration.add(registration.servicer, self._server)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        services = (*self._names, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(services, self._server)
        self._report(health_pb2.HealthCheckResponse.NOT_SERVING)
        self.address = self._bind()

    def start(self) -> None:
        """Listen, and publish the address: in the log as `listening`, and in the address file."""
        self._server.start()
        threading.Thread(target=self._calls.watch, name="calls", daemon=True).start()
        log.info(
            "listening",
            address=self.address,
            metrics_address=self.telemetry.metrics_address,
            transport=_transport(self.settings.security),
        )
        if self.settings.address_file is not None:
            write_whole(self.settings.address_file, f"{self.address}\n".encode())

    def ready(self) -> None:
        """Accept calls and report SERVING."""
        self._ready.set()
        self._report(health_pb2.HealthCheckResponse.SERVING)
        log.info("ready")

    def stop(self, end_streams: Callable[[], None] | None = None) -> None:
        """Stop gracefully: calls in flight finish, `end_streams` makes streams end by themselves. Blocks."""
        if self._stopped.is_set():
            return
        self._stopped.set()
        until_s = time.monotonic() + self.settings.grace_s
        self._report(health_pb2.HealthCheckResponse.NOT_SERVING)
        self._ready.clear()
        # What gRPC has received but not yet passed on, it would cancel without a reason.
        self._interceptor.settle(min(_SETTLE_S, self.settings.grace_s))
        stopped = self._server.stop(self.settings.grace_s)
        if end_streams is not None:
            end_streams()
        self._calls.stop(max(until_s - time.monotonic(), 0.0))
        self._interceptor.wait_until_answered(min(max(until_s - time.monotonic(), 0.0), _SETTLE_S))
        # Only watchers of the health, and calls that did not end within the grace period, are left.
        self._server.stop(None)
        stopped.wait()
        self.telemetry.close()
        if self.settings.address_file is not None:
            self.settings.address_file.unlink(missing_ok=True)
        log.info("stopped")

    def __enter__(self) -> Self:
        self.start()
        self.ready()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _interceptors(self) -> list[Any]:
        """Return our interceptor, inside the one that opens a span if there are traces."""
        access = self.settings.access
        ours = CallInterceptor(self.telemetry.meter, self._calls, self._ready.is_set, access, self._routine)
        self._interceptor = ours
        if not self.telemetry.traces:
            return [ours]
        instrumentation: Any = import_module("opentelemetry.instrumentation.grpc")
        return [instrumentation.server_interceptor(), ours]

    def _bind(self) -> str:
        host, _ = split_address(self.settings.address)
        security = self.settings.security
        security.check_exposure("--address", host)
        security.check_callers("--address", host, knows_callers=self.settings.access.knows_callers)
        try:
            if security.has_tls:
                port = self._server.add_secure_port(self.settings.address, security.server_credentials())
            else:
                port = self._server.add_insecure_port(self.settings.address)
        except RuntimeError as error:
            address = self.settings.address
            raise OSError(f"cannot listen on {address}: {_why_not_bound(address)}") from error
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def _report(self, status: health_pb2.HealthCheckResponse.ServingStatus.ValueType) -> None:
        for name in ("", *self._names):
            self._health.set(name, status)


def _transport(security: PortSecurity) -> str:
    """Return the port's protocol, for the log."""
    if not security.has_tls:
        return "plain text"
    spoken = "TLS 1.3" if speaks_tls_1_3_alone() else "TLS 1.2 or later"
    return f"{spoken}, client certificates required" if security.client_ca else spoken


def serve(
    shell: Shell,
    prepare: Callable[[], None] | None = None,
    end_streams: Callable[[], None] | None = None,
    close: Callable[[], None] | None = None,
) -> None:
    """Run a service until SIGTERM or SIGINT. Call from the main thread.

    `prepare` runs after the port is bound and before the service is ready (compile kernels, recover state);
    `end_streams` makes streams end when the service stops; `close` runs last, even if `prepare` fails.
    """
    with _stop_signals() as signals:
        shell.start()
        try:
            if prepare is not None:
                prepare()
            if not signals.stop_requested():
                shell.ready()
            signals.wait()
        finally:
            shell.stop(end_streams)
            if close is not None:
                close()


class _StopSignals:
    """SIGTERM and SIGINT, as bytes that the interpreter writes to a socket as soon as it catches one. Waiting for a
    signal on a lock does not work: a signal caught just before the main thread falls asleep does not wake it, and the
    handler, which runs in that thread, could need the very lock that it has interrupted.
    """

    def __init__(self, arrived: socket.socket) -> None:
        self._arrived = arrived

    def stop_requested(self) -> bool:
        """Return whether a signal has come."""
        return bool(select.select([self._arrived], [], [], 0)[0])

    def wait(self) -> None:
        """Return once a signal has come."""
        self._arrived.recv(1)


@contextmanager
def _stop_signals() -> Iterator[_StopSignals]:
    """Catch the signals from now on; those that come after the block are caught and ignored."""
    arrived, written = socket.socketpair()
    with arrived, written:
        written.setblocking(False)
        before = signal.set_wakeup_fd(written.fileno(), warn_on_full_buffer=False)
        try:
            for number in (signal.SIGTERM, signal.SIGINT):
                # Without a handler in Python nothing is written.
                signal.signal(number, lambda _number, _frame: None)
            yield _StopSignals(arrived)
        finally:
            signal.set_wakeup_fd(before)


def _why_not_bound(address: str) -> str:
    """Return why no server can listen on an address: gRPC does not say."""
    host, port = split_address(address)
    try:
        socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET).close()
    except OSError as error:
        return os.strerror(error.errno) if error.errno else str(error)
    return "the certificates cannot be used"
