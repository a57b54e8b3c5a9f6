"""Errors of the contract, on both sides of the wire.

Decides how an error is written to and read from a gRPC status: `google.rpc.Status` with one
`google.rpc.ErrorInfo`, domain "trimtab.dev", reason an `ErrorReason` name. Never decides which error a call gives.
Source: https://google.aip.dev/193 (the error model), `protos/trimtab/v1/reason.proto` (the reasons).
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Final

import grpc
from google.protobuf import any_pb2
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_status import rpc_status

from trimtab.v1 import reason_pb2

DOMAIN = "trimtab.dev"
Reason = reason_pb2.ErrorReason.Code
KNOWN_REASONS = frozenset(Reason.keys())

# A status travels in HTTP/2 trailers, for which gRPC accepts 8 KiB by default.
MAX_MESSAGE_CHARS = 2048
MAX_METADATA_CHARS = 256

RETRY_AFTER_S: Final[Mapping["reason_pb2.ErrorReason.Code.ValueType", float]] = MappingProxyType(
    {
        Reason.OVERLOADED: 1.0,
        Reason.NOT_READY: 1.0,
        Reason.BACKEND_UNAVAILABLE: 2.0,
        Reason.MEMORY_EXCEEDED: 2.0,
        Reason.LIMIT_EXCEEDED: 10.0,
    }
)
"""Seconds after which the same request may succeed, sent as `google.rpc.RetryInfo`: roughly the length of a call, a
start, a short outage, a deletion."""


class ServiceError(Exception):
    """An error that a service returns.

    `code` is the gRPC code, `reason` an `ErrorReason.Code`, `message` tells the user what to do, `metadata`
    is for programs (table, row, field, …).
    """

    def __init__(
        self,
        code: grpc.StatusCode,
        reason: reason_pb2.ErrorReason.Code.ValueType,
        message: str,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.metadata: dict[str, str] = dict(metadata or {})

    @property
    def reason_name(self) -> str:
        """Return the reason as it is on the wire, such as "REQUEST_INVALID"."""
        return Reason.Name(self.reason)


class TrimtabError(Exception):
    """An error that a caller receives.

    `reason` is UNSPECIFIED when the peer sent no `ErrorInfo` of ours (a proxy, or no connection at all).
    """

    def __init__(
        self,
        code: grpc.StatusCode,
        reason: reason_pb2.ErrorReason.Code.ValueType,
        message: str,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(f"{code.name}/{Reason.Name(reason)}: {message}")
        self.code = code
        self.reason = reason
        self.message = message
        self.metadata: dict[str, str] = dict(metadata or {})

    @property
    def reason_name(self) -> str:
        """Return the reason as it is on the wire, such as "REQUEST_INVALID"."""
        return Reason.Name(self.reason)


@contextmanager
def errors_of_clients() -> Iterator[None]:
    """Turn errors of a service that is called in this process into those that a client of it gets."""
    try:
        yield
    except ServiceError as error:
        raise TrimtabError(error.code, error.reason, error.message, error.metadata) from error


def invalid_request(message: str, **metadata: str) -> ServiceError:
    """INVALID_ARGUMENT / REQUEST_INVALID: a field of the request has an unusable value."""
    return ServiceError(grpc.StatusCode.INVALID_ARGUMENT, Reason.REQUEST_INVALID, message, metadata)


def not_implemented(what: str) -> ServiceError:
    """UNIMPLEMENTED / DECISION_UNAVAILABLE: this build does not support it; `GetInfo` lists what it supports."""
    message = f"{what} is not available in this build; GetInfo lists what is"
    return ServiceError(grpc.StatusCode.UNIMPLEMENTED, Reason.DECISION_UNAVAILABLE, message)


def not_ready(message: str) -> ServiceError:
    """UNAVAILABLE / NOT_READY: the service is starting or stopping; the caller should retry."""
    return ServiceError(grpc.StatusCode.UNAVAILABLE, Reason.NOT_READY, message)


def overloaded(message: str) -> ServiceError:
    """RESOURCE_EXHAUSTED / OVERLOADED: the limit of open or active calls is reached."""
    return ServiceError(grpc.StatusCode.RESOURCE_EXHAUSTED, Reason.OVERLOADED, message)


def request_timeout(message: str) -> ServiceError:
    """DEADLINE_EXCEEDED / REQUEST_TIMEOUT: the request did not arrive in time."""
    return ServiceError(grpc.StatusCode.DEADLINE_EXCEEDED, Reason.REQUEST_TIMEOUT, message)


def to_status(error: ServiceError) -> grpc.Status:
    """Convert an error to a rich status; texts too long for HTTP/2 trailers are cut."""
    info = error_details_pb2.ErrorInfo(reason=error.reason_name, domain=DOMAIN)
    for key, value in error.metadata.items():
        info.metadata[key] = value[:MAX_METADATA_CHARS]
    details = [any_pb2.Any()]
    details[0].Pack(info)
    if error.reason in RETRY_AFTER_S:
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.FromMilliseconds(int(RETRY_AFTER_S[error.reason] * 1000))
        details.append(any_pb2.Any())
        details[1].Pack(retry)
    code = code_pb2.Code.Value(error.code.name)
    return rpc_status.to_status(
        status_pb2.Status(code=code, message=error.message[:MAX_MESSAGE_CHARS], details=details)
    )


def from_rpc_error(error: grpc.RpcError) -> TrimtabError:
    """Convert an error that a call of a gRPC stub raised."""
    code = error.code() if isinstance(error, grpc.Call) else grpc.StatusCode.UNKNOWN
    message = (error.details() if isinstance(error, grpc.Call) else str(error)) or ""
    reason, metadata = Reason.UNSPECIFIED, {}
    for info in _error_infos(error):
        if info.domain == DOMAIN and info.reason in KNOWN_REASONS:
            reason, metadata = Reason.Value(info.reason), dict(info.metadata)
    return TrimtabError(code, reason, message, metadata)


def _error_infos(error: grpc.RpcError) -> list[error_details_pb2.ErrorInfo]:
    """Return every `ErrorInfo` of the status; none for an inconsistent status."""
    if not isinstance(error, grpc.Call):
        return []
    try:
        status = rpc_status.from_call(error)
    except ValueError:
        return []
    found = []
    for detail in status.details if status else ():
        info = error_details_pb2.ErrorInfo()
        if detail.Is(info.DESCRIPTOR) and detail.Unpack(info):
            found.append(info)
    return found
