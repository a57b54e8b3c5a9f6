"""A client of the actuator: one method for each call that callers make, with retries and errors read.

Never decides anything; every call is idempotent by contract, so an unavailable actuator is asked again. Raises
`TrimtabError`. Not to be shared between processes; safe between threads.
"""

from collections.abc import Iterator
from types import TracebackType
from typing import Protocol, Self, cast

import grpc
from trimtab.v1 import actuator_pb2, actuator_pb2_grpc

from clients.transport.client import RetryPolicy, connect, invoke, stream, wait_until_serving

CALL_TIMEOUT_S = 60.0
"""Longest time for one call; tainting thousands of nodes before `StartDeletion` returns takes some of it."""


class _Cancellable(Protocol):
    """A call under way."""

    def cancel(self) -> bool:
        """End it."""


class ActuatorClient:
    """The actuator at "host:port". Opens the connection on first use; close it, or use it as a context."""

    def __init__(self, address: str, policy: RetryPolicy | None = None) -> None:
        self._channel: grpc.Channel = connect(address)
        self._policy = policy or RetryPolicy()
        self._actuator = actuator_pb2_grpc.ActuatorStub(self._channel)
        self._embedded = actuator_pb2_grpc.EmbeddedClusterStub(self._channel)

    def __enter__(self) -> Self:
        """Nothing to do."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        self.close()

    def close(self) -> None:
        """Close the connection; calls under way are cancelled."""
        self._channel.close()

    def wait_until_serving(self, timeout_s: float = 30.0) -> None:
        """Wait until the actuator reports that it serves."""
        wait_until_serving(self._channel, timeout_s=timeout_s)

    def info(self) -> actuator_pb2.GetActuatorInfoResponse:
        """Return what this actuator can do."""
        request = actuator_pb2.GetActuatorInfoRequest()
        return invoke(lambda: self._actuator.GetInfo(request, timeout=CALL_TIMEOUT_S), self._policy)

    def start_deletion(self, request: actuator_pb2.StartDeletionRequest) -> actuator_pb2.StartDeletionResponse:
        """Start deletions; returns once all accepted nodes are tainted."""
        return invoke(lambda: self._actuator.StartDeletion(request, timeout=CALL_TIMEOUT_S), self._policy)

    def cancel_deletion(self, request: actuator_pb2.CancelDeletionRequest) -> actuator_pb2.CancelDeletionResponse:
        """Stop deletions that have not reached the cloud yet."""
        return invoke(lambda: self._actuator.CancelDeletion(request, timeout=CALL_TIMEOUT_S), self._policy)

    def status(self, without_finished: bool = False) -> actuator_pb2.ActuatorStatus:
        """Return all that goes on."""
        request = actuator_pb2.GetStatusRequest(without_finished=without_finished)
        return invoke(lambda: self._actuator.GetStatus(request, timeout=CALL_TIMEOUT_S), self._policy).status

    def watch_status(self, timeout_s: float | None = None) -> Iterator[actuator_pb2.ActuatorStatus]:
        """Yield the status now and after each change, until the caller stops or `timeout_s` have passed."""
        request = actuator_pb2.WatchStatusRequest()
        call = self._actuator.WatchStatus(request, timeout=timeout_s)
        answers: Iterator[actuator_pb2.WatchStatusResponse] = iter(call)
        try:
            for answer in stream(lambda: answers):
                yield answer.status
        finally:
            cast(_Cancellable, call).cancel()

    def list_objects(self) -> bytes:
        """Return all objects of an embedded cluster as one Kubernetes `List` in JSON."""
        request = actuator_pb2.ListObjectsRequest()
        return invoke(
            lambda: b"".join(part.json for part in self._embedded.ListObjects(request, timeout=CALL_TIMEOUT_S)),
            self._policy,
        )
