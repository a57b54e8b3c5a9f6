"""The client's side of the shell: connecting, retrying, reading errors.

Decides which calls are repeated: those answered UNAVAILABLE, as every call of the contract is idempotent. Never knows
what a call means. Units: seconds.
"""

import math
import secrets
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from types import TracebackType
from typing import Any, ClassVar, Final, Self, TypeVar
from urllib.parse import quote

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from trimtab.common.rpc.addresses import check_target
from trimtab.common.rpc.callers import CLUSTER_KEY, SESSION_KEY
from trimtab.common.rpc.channel_security import ChannelSecurity
from trimtab.common.rpc.errors import Reason, TrimtabError, from_rpc_error
from trimtab.common.rpc.retries import Backoff, RetryPolicy, with_retries

T = TypeVar("T")

# Answers carry whole plans and statuses: 5,000 nodes with destinations are about 10 MiB.
MAX_RESPONSE_BYTES = 256 << 20

Metadata = tuple[tuple[str, str], ...]

_MAX_CLUSTER_BYTES: Final = 253
"""A longer name, which the planner refuses, is cut to this length: headers of calls are small."""


def connect(address: str, security: ChannelSecurity | None = None) -> grpc.Channel:
    """Open a channel to "host:port"; no call is made. Reconnects quickly, for services on the same machine.

    security : None = from the environment. Raises AddressError; ValueError, OSError if its files cannot be used.
    """
    channel = (security or ChannelSecurity.from_environment()).open_channel(
        check_target(address),
        [
            ("grpc.max_receive_message_length", MAX_RESPONSE_BYTES),
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 2000),
            ("grpc.keepalive_time_ms", 30_000),
            ("grpc.enable_http_proxy", 0),
        ],
    )
    return traced(channel)


def new_session() -> Metadata:
    """Return metadata for all calls of this client: a planner keeps its snapshots apart from others by it."""
    return ((SESSION_KEY, secrets.token_hex(16)),)


def about_cluster(session: Metadata, cluster: str) -> Metadata:
    """Return the metadata of a call about a cluster: the session, and the name, percent-encoded, if it has one."""
    if not cluster:
        return session
    return (*session, (CLUSTER_KEY, quote(cluster.encode()[:_MAX_CLUSTER_BYTES], safe="")))


def is_unavailable(error: BaseException) -> bool:
    """Return whether a later call may succeed."""
    return isinstance(error, TrimtabError) and error.code is grpc.StatusCode.UNAVAILABLE


def is_overloaded(error: BaseException) -> bool:
    """Return whether a later call may succeed because the service then has less to do."""
    return isinstance(error, TrimtabError) and error.reason == Reason.OVERLOADED


def invoke(call: Callable[[], T], policy: RetryPolicy | None = None) -> T:
    """Make a call, and repeat it while the service is unavailable. Raises `TrimtabError`."""
    allowed = policy or RetryPolicy()
    return with_retries(lambda: call_once(call), lambda error: allowed if is_unavailable(error) else None)


def call_once(call: Callable[[], T]) -> T:
    """Make a call, once. Raises `TrimtabError`."""
    try:
        return call()
    except grpc.RpcError as error:
        raise from_rpc_error(error) from error
    except ValueError as error:
        # gRPC raises this when another thread has closed the connection.
        if "closed" not in str(error):
            raise
        raise TrimtabError(grpc.StatusCode.CANCELLED, Reason.UNSPECIFIED, "the connection was closed") from error


def stream(call: Callable[[], Iterable[T]]) -> Iterator[T]:
    """Iterate over a streamed answer, with errors converted. Never retried: only the caller knows where to resume."""
    try:
        yield from call()
    except grpc.RpcError as error:
        raise from_rpc_error(error) from error


class Closing:
    """Has to be closed, or is used as a context that closes it."""

    def close(self) -> None:
        """Release what is held."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class ServiceConnection(Closing):
    """A client's connection to one service; opened on first use."""

    SERVICE: ClassVar = ""
    """Full name of the service whose health is asked for, "" = of all that the server has."""

    def __init__(
        self, address: str, policy: RetryPolicy | None, timeout_s: float, security: ChannelSecurity | None
    ) -> None:
        self._channel: grpc.Channel = connect(address, security)
        self._policy, self._timeout_s = policy or RetryPolicy(), timeout_s

    def close(self) -> None:
        """Close the connection; calls in progress are cancelled."""
        self._channel.close()

    def wait_until_serving(self, timeout_s: float = 30.0) -> None:
        """Wait until the service reports SERVING."""
        wait_until_serving(self._channel, self.SERVICE, timeout_s)

    def _invoke(self, call: Callable[[], T]) -> T:
        return invoke(call, self._policy)


def is_served(channel: grpc.Channel, service: str, timeout_s: float = 5.0) -> bool:
    """Return whether the peer has a service of this full name, according to its health service."""
    try:
        health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service=service), timeout=timeout_s)
    except grpc.RpcError:
        return False
    return True


def wait_until_serving(channel: grpc.Channel, service: str = "", timeout_s: float = 30.0) -> None:
    """Wait until `grpc.health.v1` reports SERVING. Raises `TrimtabError` if it does not in time."""
    stub = health_pb2_grpc.HealthStub(channel)
    policy = RetryPolicy(attempts=math.inf, total_s=timeout_s, backoff=Backoff(0.02, 0.2))

    def check() -> None:
        answer = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=timeout_s)
        if answer.status != health_pb2.HealthCheckResponse.SERVING:
            raise TrimtabError(grpc.StatusCode.UNAVAILABLE, Reason.NOT_READY, f"service {service!r} is not serving yet")

    invoke(check, policy)


def traced(channel: grpc.Channel) -> grpc.Channel:
    """Return a channel whose calls are spans of the current trace; the channel itself if this process has no traces
    (see `telemetry`) or the extra `otlp` is not installed. Starts no traces, and loads nothing if there are none.
    """
    if "opentelemetry.sdk.trace" not in sys.modules:
        return channel
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider

    if not isinstance(trace.get_tracer_provider(), TracerProvider):
        return channel
    try:
        instrumentation: Any = import_module("opentelemetry.instrumentation.grpc")
        extension: Any = import_module("opentelemetry.instrumentation.grpc.grpcext")
    except ModuleNotFoundError:
        # A program that uses these clients may have its own traces.
        return channel
    intercepted: grpc.Channel = extension.intercept_channel(channel, instrumentation.client_interceptor())
    return intercepted
