"""Calls of an external cloud provider: time limit, and which error means what.

Decides that only a status by which a server refuses is a refusal; after any other one the call may have taken effect.
Seconds.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
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
MAX_ANSWER_BYTES: Final = 256 << 20


class NotImplementedByCloudError(CloudRefusedError):
    """The provider does not have this call."""


@dataclass(frozen=True)
class Connection:
    """Where a provider is. With `ca` the connection is TLS; `cert` and `key` are what we show, PEM."""

    address: str
    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    # Longest call.
    timeout_s: float = 10.0

    def open(self) -> grpc.Channel:
        """Open a channel; no call is made. Raises `OSError`, `ValueError`."""
        options = [("grpc.max_receive_message_length", MAX_ANSWER_BYTES), ("grpc.enable_http_proxy", 0)]
        if (self.cert is None) != (self.key is None):
            raise ValueError("--cloud-cert and --cloud-key belong together; give both or none")
        if self.ca is None:
            if self.cert is not None:
                raise ValueError("--cloud-cert needs --cloud-ca: without it the connection is in plain text")
            return grpc.insecure_channel(self.address, options=options)
        key = None if self.key is None else self.key.read_bytes()
        cert = None if self.cert is None else self.cert.read_bytes()
        credentials = grpc.ssl_channel_credentials(self.ca.read_bytes(), key, cert)
        return grpc.secure_channel(self.address, credentials, options=options)


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
