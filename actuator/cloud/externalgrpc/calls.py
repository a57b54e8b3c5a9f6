"""Calls of an external cloud provider: time limit, and the meaning of errors. Only a status with which a server refuses
is a refusal; after any other error the call may have taken effect. Seconds.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import grpc
from trimtab.clusterautoscaler.externalgrpc import cloud_provider_pb2_grpc as pb_grpc

from actuator.cloud.provider import CloudError, CloudRefusedError

REFUSALS: Final = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.ALREADY_EXISTS,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.OUT_OF_RANGE,
        grpc.StatusCode.UNIMPLEMENTED,
    }
)


class NotImplementedByCloudError(CloudRefusedError):
    """The provider does not have this call."""


class Calls:
    """The calls of one provider. Thread-safe."""

    def __init__(self, channel: grpc.Channel, timeout_s: float) -> None:
        self._stub = pb_grpc.CloudProviderStub(channel)
        self._timeout_s = timeout_s

    def one(self, method: str, request: Any) -> Any:
        """Make one call. Raises `CloudError`, `CloudRefusedError`, `NotImplementedByCloudError`."""
        with _errors(method):
            return getattr(self._stub, method)(request, timeout=self._timeout_s)

    def many(self, method: str, requests: Sequence[Any]) -> list[Any]:
        """Make one call for each request, all at a time. Raises as `one`, for the first that fails."""
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
        if code in REFUSALS:
            raise CloudRefusedError(text) from error
        raise CloudError(text) from error
