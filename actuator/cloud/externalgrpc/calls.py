"""Calls of an external cloud provider: time limit, repetition, and the meaning of errors. A status with which a server
refuses is a refusal, also that of a quota or of a cloud without stock. Any other one may come after the call has taken
effect: if it does not say that the server was not reached, its words are logged, and a change is not repeated. A read
is repeated at once while the server cannot be reached, a call that changes something never, nor one that took too long.
Seconds.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import grpc
import structlog

from trimtab.actuator.cloud.provider import CloudError, CloudFailedError, CloudRefusedError
from trimtab.clusterautoscaler.externalgrpc import cloud_provider_pb2_grpc as pb_grpc
from trimtab.common.rpc.retries import ONCE, RetryPolicy, attempts, with_retries

log = structlog.get_logger("externalgrpc")

T = TypeVar("T")

WRITES: Final = frozenset({"NodeGroupIncreaseSize", "NodeGroupDeleteNodes", "NodeGroupDecreaseTargetSize"})
READS: Final = attempts(3, 0.1, 1.0)
REFUSALS: Final = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.ALREADY_EXISTS,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.OUT_OF_RANGE,
        grpc.StatusCode.UNIMPLEMENTED,
    }
)
# Not reached, or not known: a call that was cancelled here, or took too long.
NOT_REACHED: Final = frozenset(
    {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED}
)


class NotImplementedByCloudError(CloudRefusedError):
    """The provider does not have this call."""


class UnreachableCloudError(CloudError):
    """The provider cannot be reached now."""


class ProviderCalls:
    """The calls of one provider. Thread-safe."""

    def __init__(self, channel: grpc.Channel, timeout_s: float, reads: RetryPolicy = READS) -> None:
        self._stub = pb_grpc.CloudProviderStub(channel)
        self._timeout_s = timeout_s
        self._reads = reads

    def one(self, method: str, request: Any) -> Any:
        """Make one call. Raises `CloudError`, `CloudFailedError`, `CloudRefusedError`, `NotImplementedByCloudError`."""

        def once() -> Any:
            with _errors(method):
                return getattr(self._stub, method)(request, timeout=self._timeout_s)

        return self._made(method, once)

    def many(self, method: str, requests: Sequence[Any]) -> list[Any]:
        """Make one call for each request, all at a time. Raises as `one`, for the first that fails."""
        return self._made(method, lambda: self._many(method, requests))

    def _made(self, method: str, once: Callable[[], T]) -> T:
        """Make calls of a method; repeat those of a read while the provider cannot be reached."""
        policy = ONCE if method in WRITES else self._reads
        return with_retries(once, lambda error: policy if isinstance(error, UnreachableCloudError) else None)

    def _many(self, method: str, requests: Sequence[Any]) -> list[Any]:
        call = getattr(self._stub, method)
        with _errors(method):
            futures = [call.future(request, timeout=self._timeout_s) for request in requests]
            try:
                return [future.result() for future in futures]
            finally:
                for future in futures:
                    future.cancel()


@contextmanager
def _errors(method: str) -> Iterator[None]:
    try:
        yield
    except grpc.RpcError as error:
        code = error.code() if isinstance(error, grpc.Call) else grpc.StatusCode.UNKNOWN
        detail = (error.details() if isinstance(error, grpc.Call) else None) or code.name
        text = f"{method}: {detail}"
        if code is grpc.StatusCode.UNIMPLEMENTED:
            raise NotImplementedByCloudError(text) from error
        if code in NOT_REACHED:
            raise (UnreachableCloudError if code is grpc.StatusCode.UNAVAILABLE else CloudError)(text) from error
        log.warning("provider_error", method=method, code=code.name, detail=detail)
        if code in REFUSALS:
            raise CloudRefusedError(text) from error
        raise (CloudFailedError if method in WRITES else CloudError)(text) from error
