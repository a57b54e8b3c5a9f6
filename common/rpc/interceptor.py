"""The one server interceptor: requests are received and parsed, exceptions become statuses, calls are logged.

Decides what a caller sees when a call fails: a `ServiceError` unchanged, REQUEST_INVALID for bytes that cannot be
parsed, UNIMPLEMENTED for a method that is not implemented, INTERNAL for anything else (with the traceback in the log,
not on the wire). One structured log line and one measurement per call. Never changes messages; an answer of bytes is
sent as it is. Every method is served as one with a request stream (on the wire a single message is one, too), because
gRPC waits for a single message without a time limit and blocks a thread meanwhile. Health and reflection have separate
threads.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn

import grpc
import structlog
from google.protobuf.message import DecodeError
from opentelemetry.metrics import Meter

from trimtab.common.rpc.access import Access
from trimtab.common.rpc.callers import CallerIdentity
from trimtab.common.rpc.calls import CallLimits, OpenCall, OpenCalls
from trimtab.common.rpc.errors import (
    Reason,
    ServiceError,
    invalid_request,
    not_implemented,
    not_ready,
    overloaded,
    to_status,
)

log = structlog.get_logger("call")

# Health and reflection answer in any state of the service; their calls are not logged.
UNGUARDED_PREFIXES = ("/grpc.health.", "/grpc.reflection.")
_SIDE_THREADS: Final = 16
_REFUSING_THREADS: Final = 2
_FLOOD: Final = 100
"""If this many calls arrive within a second, more may be waiting in gRPC."""
_QUIET_S: Final = 0.02
_QUIET_AFTER_FLOOD_S: Final = 0.5
"""If no call arrives for this long, gRPC has passed on all that it received: it does so one after another, in a thread
that others may keep from running.
"""
MOST_PENDING: Final = 1000
"""Most calls that may wait for a thread; more are refused at once."""

if TYPE_CHECKING:
    ServerInterceptor = grpc.ServerInterceptor[Any, Any]  # generic in the stubs alone
else:
    ServerInterceptor = grpc.ServerInterceptor

Behaviour = Callable[[Any, grpc.ServicerContext], Any]


class CallInterceptor(ServerInterceptor):
    """Wraps every method of the services.

    calls : those of the services; is_ready : whether calls are accepted; access : who may call what; routine :
    "/SERVICE/ NAME" of methods that are called very often and change nothing.
    """

    def __init__(
        self,
        meter: Meter,
        calls: OpenCalls,
        is_ready: Callable[[], bool],
        access: Access | None = None,
        routine: frozenset[str] = frozenset(),
    ) -> None:
        self.calls = calls
        self.access = access or Access()
        self.routine = routine
        self._is_ready = is_ready
        self._durations = meter.create_histogram("grpc_server_call_duration", unit="s", description="Time of calls")
        self._side = OpenCalls(CallLimits(most=_SIDE_THREADS - 2))
        self._side_threads = ThreadPoolExecutor(_SIDE_THREADS, thread_name_prefix="side")
        self._refusing_threads = ThreadPoolExecutor(_REFUSING_THREADS, thread_name_prefix="refuse")
        self._changed = threading.Condition()
        self._pending = 0
        self._unanswered = 0
        self._came_s: deque[float] = deque([0.0], maxlen=_FLOOD)

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Any],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """Replace a handler by its guarded twin."""
        handler = continuation(handler_call_details)
        method = handler_call_details.method
        if handler is None:
            return None
        if method.startswith(UNGUARDED_PREFIXES):
            return _aside(handler, self._side, self._side_threads)
        with self._changed:
            self._pending += 1
            self._unanswered += 1
            self._came_s.append(time.monotonic())
            is_refused = self._pending > MOST_PENDING
        return self._guard(handler, method, is_refused)

    def _guard(self, handler: Any, method: str, is_refused: bool) -> Any:
        """Build the twin of one of the four kinds of handler. It receives bytes and parses them itself."""
        behaviour = _behaviour(handler)

        def one(raw: Iterator[bytes], context: grpc.ServicerContext) -> Any:
            call = _LoggedCall(self, method, context)
            try:
                response = behaviour(_request(handler, call.enter(is_refused), raw), context)
            except Exception as error:
                call.fail(error)
            call.leave(grpc.StatusCode.OK, "")
            return response

        def many(raw: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[Any]:
            call = _LoggedCall(self, method, context)
            try:
                opened = call.enter(is_refused)
                for response in behaviour(_request(handler, opened, raw), context):
                    opened.send()
                    yield response
                    opened.work()
            except GeneratorExit:
                call.leave(grpc.StatusCode.CANCELLED, Reason.Name(Reason.CANCELLED))
                raise
            except Exception as error:
                call.fail(error)
            call.leave(grpc.StatusCode.OK, "")

        guarded = many if handler.response_streaming else one
        return _serve(handler, guarded, self._refusing_threads if is_refused else None)

    def start(self, context: grpc.ServicerContext) -> None:
        """Note that a call that waited for a thread has one."""
        with self._changed:
            self._pending -= 1
            self._changed.notify_all()
        if not context.add_callback(self._answered):
            self._answered()

    def _answered(self) -> None:
        """Note that a call has ended: its caller has the status, or is gone."""
        with self._changed:
            self._unanswered -= 1
            self._changed.notify_all()

    def settle(self, longest_s: float) -> None:
        """Wait until every call that has arrived has a thread, and none arrives for a moment."""
        until_s = time.monotonic() + longest_s
        with self._changed:
            while (now_s := time.monotonic()) < until_s:
                is_flood = len(self._came_s) == _FLOOD and now_s - self._came_s[0] < 1.0
                left_s = self._came_s[-1] + (_QUIET_AFTER_FLOOD_S if is_flood else _QUIET_S) - now_s
                if not self._pending and left_s <= 0:
                    return
                self._changed.wait(min(max(left_s, _QUIET_S), until_s - now_s))

    def wait_until_answered(self, longest_s: float) -> None:
        """Wait until every call that has arrived has ended."""
        with self._changed:
            self._changed.wait_for(lambda: not self._unanswered, longest_s)

    def check_ready(self) -> None:
        """Raise NOT_READY while the service is starting or stopping."""
        if not self._is_ready():
            raise not_ready("the service is starting or stopping; try again")

    def measure(self, method: str, code: grpc.StatusCode, duration_s: float) -> None:
        """Count one finished call."""
        self._durations.record(duration_s, {"method": method.rsplit("/", 1)[-1], "code": code.name})


class _LoggedCall:
    """One call: from its start to its log line."""

    def __init__(self, interceptor: CallInterceptor, method: str, context: grpc.ServicerContext) -> None:
        self._interceptor = interceptor
        self._method = method
        self._context = context
        self._opened: OpenCall | None = None
        self._caller = CallerIdentity()
        self._started = time.perf_counter()

    def enter(self, is_refused: bool) -> OpenCall:
        """Clear the log context of the thread's last call; refuse calls that the service cannot or may not accept."""
        structlog.contextvars.clear_contextvars()
        self._interceptor.start(self._context)
        self._interceptor.check_ready()
        if is_refused:
            raise overloaded(f"{MOST_PENDING} calls are waiting already; try again later")
        self._opened = self._interceptor.calls.open(self._context)
        # Before any part of the request is read.
        self._caller = self._interceptor.access.enter(self._method, self._context)
        self._interceptor.calls.belongs(self._opened, self._caller.share)
        return self._opened

    def leave(self, code: grpc.StatusCode, reason: str, **more: Any) -> None:
        """Write the call's log line and measurement. Only the status remains to be sent."""
        if self._opened is not None:
            self._opened.send()
        duration_s = time.perf_counter() - self._started
        known = {"caller": self._caller.name} if self._caller.name else {}
        self._level(code)(
            "call",
            method=self._method,
            code=code.name,
            reason=reason,
            duration_ms=round(duration_s * 1e3, 2),
            peer=self._context.peer(),
            **known,
            **more,
        )
        self._interceptor.measure(self._method, code, duration_s)

    def _level(self, code: grpc.StatusCode) -> Callable[..., Any]:
        """Return the log function: successful routine calls are logged only at level debug."""
        if code in (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN):
            return log.error  # type: ignore[no-any-return]
        routine = self._method in self._interceptor.routine and code in (
            grpc.StatusCode.OK,
            grpc.StatusCode.UNIMPLEMENTED,
        )
        return log.debug if routine else log.info  # type: ignore[no-any-return]

    def fail(self, error: Exception) -> NoReturn:
        """Log, then end the call with the status that belongs to the exception."""
        service_error = as_service_error(error, self._context.is_active())
        unexpected = service_error.reason == Reason.INTERNAL and service_error is not error
        more = {"exc_info": error} if unexpected else {}
        self.leave(service_error.code, service_error.reason_name, message=service_error.message, **more)
        self._context.abort_with_status(to_status(service_error))
        raise AssertionError("abort_with_status returned")


def as_service_error(error: Exception, caller_waits: bool = True) -> ServiceError:
    """Return the error to send for an exception. `caller_waits` is false when the call has been cancelled."""
    if isinstance(error, ServiceError):
        return error
    if isinstance(error, NotImplementedError):
        return not_implemented(str(error) or "this method")
    if isinstance(error, grpc.RpcError) or not caller_waits:
        return ServiceError(
            grpc.StatusCode.CANCELLED, Reason.CANCELLED, "the caller cancelled the call or disconnected"
        )
    return ServiceError(
        grpc.StatusCode.INTERNAL, Reason.INTERNAL, f"internal error ({type(error).__name__}); the service's log has it"
    )


def _behaviour(handler: Any) -> Behaviour:
    """Return the behaviour function of a handler of any of the four kinds."""
    behaviour: Behaviour = handler.unary_unary or handler.unary_stream or handler.stream_unary or handler.stream_stream
    return behaviour


def _serve(handler: Any, behaviour: Behaviour, threads: ThreadPoolExecutor | None) -> Any:
    """Return a handler whose request is a stream of bytes. threads : to run in, None = the server's."""
    if threads is not None:
        behaviour.experimental_thread_pool = threads  # type: ignore[attr-defined]
    build = (
        grpc.stream_stream_rpc_method_handler if handler.response_streaming else grpc.stream_unary_rpc_method_handler
    )
    return build(behaviour, None, partial(_encoded, handler.response_serializer))


def _encoded(serialize: Callable[[Any], bytes], answer: Any) -> bytes:
    """Return the bytes of an answer, which a method may have encoded itself."""
    return answer if isinstance(answer, bytes) else serialize(answer)


def _aside(handler: Any, calls: OpenCalls, threads: ThreadPoolExecutor) -> Any:
    """Return a handler that takes no threads from the services' calls."""
    behaviour = _behaviour(handler)
    if getattr(behaviour, "experimental_non_blocking", False):

        def answering(request: Any, context: grpc.ServicerContext, send: Callable[[Any], None]) -> Any:
            return behaviour(request, context, send)  # type: ignore[call-arg]

        answering.experimental_non_blocking = True  # type: ignore[attr-defined]
        answering.experimental_thread_pool = threads  # type: ignore[attr-defined]
        return grpc.unary_stream_rpc_method_handler(
            answering, handler.request_deserializer, handler.response_serializer
        )

    def aside(raw: Iterator[bytes], context: grpc.ServicerContext) -> Any:
        try:
            return behaviour(_request(handler, calls.open(context), raw), context)
        except ServiceError as error:
            context.abort_with_status(to_status(error))

    return _serve(handler, aside, threads)


def _request(handler: Any, call: OpenCall, raw: Iterator[bytes]) -> Any:
    """Return the method's argument: the message, or an iterator over the messages as they arrive."""
    arriving = call.receive(raw)
    if handler.request_streaming:
        return _parse_stream(_whole(call, arriving), handler.request_deserializer)
    message = next(arriving, None)
    arriving.close()
    if message is None:
        raise invalid_request("the call has no request message")
    call.work()
    return _parse(message, handler.request_deserializer)


def _whole(call: OpenCall, arriving: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the messages of a stream; after the last one the call no longer waits for its caller."""
    yield from arriving
    call.work()


def _parse(raw: bytes, parse: Callable[[bytes], Any]) -> Any:
    """Parse one request."""
    try:
        return parse(raw)
    except DecodeError as error:
        raise invalid_request(f"the request's {len(raw)} bytes are not the message this method takes") from error


def _parse_stream(raws: Iterator[bytes], parse: Callable[[bytes], Any]) -> Iterator[Any]:
    """Parse each message of a request stream as it comes."""
    for index, raw in enumerate(raws):
        try:
            yield parse(raw)
        except DecodeError as error:
            raise ServiceError(
                grpc.StatusCode.INVALID_ARGUMENT,
                Reason.STREAM_INVALID,
                f"part {index} of the stream ({len(raw)} bytes) is not the message this method takes",
                {"part": str(index)},
            ) from error
