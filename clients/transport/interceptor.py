"""The one server interceptor: requests are parsed, exceptions become statuses, calls are logged and counted.

Decides what a caller sees when a call fails: a `ServiceError` as it is, bytes that cannot be parsed as
REQUEST_INVALID, a method that is not implemented as UNIMPLEMENTED, everything unknown as INTERNAL (with the
traceback in the log, not on the wire). One structured log line and one measurement per call. Never touches messages.
"""

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import grpc
import structlog
from google.protobuf.message import DecodeError
from opentelemetry.metrics import Meter

from clients.transport.errors import Reason, ServiceError, invalid_request, not_implemented, not_ready, to_status

log = structlog.get_logger("call")

# Health and reflection answer whatever the state of the service, and are not worth a log line each.
UNGUARDED_PREFIXES = ("/grpc.health.", "/grpc.reflection.")

if TYPE_CHECKING:
    ServerInterceptor = grpc.ServerInterceptor[Any, Any]  # generic in the stubs alone
else:
    ServerInterceptor = grpc.ServerInterceptor

Behaviour = Callable[[Any, grpc.ServicerContext], Any]


class CallInterceptor(ServerInterceptor):
    """Wraps every method of the services. `is_ready` says whether calls are let in."""

    def __init__(self, meter: Meter, is_ready: Callable[[], bool]) -> None:
        self._is_ready = is_ready
        self._durations = meter.create_histogram("grpc_server_call_duration", unit="s", description="Time of calls")

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Any],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """Replace a handler by its guarded twin."""
        handler = continuation(handler_call_details)
        method = handler_call_details.method
        if handler is None or method.startswith(UNGUARDED_PREFIXES):
            return handler
        return self._guard(handler, method)

    def _guard(self, handler: Any, method: str) -> Any:
        """Build the twin of one of the four kinds of handler. It receives bytes and parses them itself."""
        behaviour: Behaviour = (
            handler.unary_unary or handler.unary_stream or handler.stream_unary or handler.stream_stream
        )
        parse = handler.request_deserializer

        def arguments(raw: Any) -> Any:
            return _parse_stream(raw, parse) if handler.request_streaming else _parse(raw, parse)

        def one(raw: Any, context: grpc.ServicerContext) -> Any:
            call = _Call(self, method, context)
            try:
                call.enter()
                response = behaviour(arguments(raw), context)
            except Exception as error:
                call.fail(error)
            call.leave(grpc.StatusCode.OK, "")
            return response

        def many(raw: Any, context: grpc.ServicerContext) -> Iterator[Any]:
            call = _Call(self, method, context)
            try:
                call.enter()
                yield from behaviour(arguments(raw), context)
            except GeneratorExit:
                call.leave(grpc.StatusCode.CANCELLED, Reason.Name(Reason.CANCELLED))
                raise
            except Exception as error:
                call.fail(error)
            call.leave(grpc.StatusCode.OK, "")

        builders: dict[tuple[bool, bool], Callable[..., Any]] = {
            (False, False): grpc.unary_unary_rpc_method_handler,
            (False, True): grpc.unary_stream_rpc_method_handler,
            (True, False): grpc.stream_unary_rpc_method_handler,
            (True, True): grpc.stream_stream_rpc_method_handler,
        }
        build = builders[handler.request_streaming, handler.response_streaming]
        guarded = many if handler.response_streaming else one
        return build(guarded, None, handler.response_serializer)

    def check_ready(self) -> None:
        """Raise NOT_READY while the service is starting or stopping."""
        if not self._is_ready():
            raise not_ready("the service is starting or stopping; try again")

    def measure(self, method: str, code: grpc.StatusCode, duration_s: float) -> None:
        """Count one finished call."""
        self._durations.record(duration_s, {"method": method.rsplit("/", 1)[-1], "code": code.name})


class _Call:
    """One call: from its start to its log line."""

    def __init__(self, interceptor: CallInterceptor, method: str, context: grpc.ServicerContext) -> None:
        self._interceptor = interceptor
        self._method = method
        self._context = context
        self._started = time.perf_counter()

    def enter(self) -> None:
        """Forget what the thread's last call bound to the log, and refuse if the service is not ready."""
        structlog.contextvars.clear_contextvars()
        self._interceptor.check_ready()

    def leave(self, code: grpc.StatusCode, reason: str, **more: Any) -> None:
        """Write the call's log line and measurement."""
        duration_s = time.perf_counter() - self._started
        level = log.error if code in (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN) else log.info
        level(
            "call",
            method=self._method,
            code=code.name,
            reason=reason,
            duration_ms=round(duration_s * 1e3, 2),
            peer=self._context.peer(),
            **more,
        )
        self._interceptor.measure(self._method, code, duration_s)

    def fail(self, error: Exception) -> NoReturn:
        """Log, then end the call with the status that belongs to the exception."""
        service_error = as_service_error(error, self._context.is_active())
        unexpected = service_error.reason == Reason.INTERNAL and service_error is not error
        more = {"exc_info": error} if unexpected else {}
        self.leave(service_error.code, service_error.reason_name, message=service_error.message, **more)
        self._context.abort_with_status(to_status(service_error))
        raise AssertionError("abort_with_status returned")


def as_service_error(error: Exception, caller_waits: bool = True) -> ServiceError:
    """Say which status belongs to an exception. `caller_waits` is false when the call has been cancelled."""
    if isinstance(error, ServiceError):
        return error
    if isinstance(error, NotImplementedError):
        return not_implemented(str(error) or "this method")
    if isinstance(error, grpc.RpcError) or not caller_waits:
        return ServiceError(grpc.StatusCode.CANCELLED, Reason.CANCELLED, "the caller went away")
    return ServiceError(
        grpc.StatusCode.INTERNAL, Reason.INTERNAL, f"internal error ({type(error).__name__}); the service's log has it"
    )


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
