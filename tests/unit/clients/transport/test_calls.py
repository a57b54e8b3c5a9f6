"""A call is ended for its caller's sake at the very moment its caller goes on."""

import threading
from typing import Any

import grpc
import pytest

from clients.transport.calls import CallLimits, Calls
from clients.transport.errors import Reason, ServiceError


class Context:
    """What a call needs of gRPC's context."""

    def __init__(self) -> None:
        self.cancelled = threading.Event()
        self._on_end: list[Any] = []

    def add_callback(self, callback: Any) -> bool:
        self._on_end.append(callback)
        return True

    def cancel(self) -> None:
        self.cancelled.set()
        for callback in self._on_end:
            callback()


def opened(calls: Calls) -> tuple[Any, Any]:
    """A call that has received its whole request, and does not know of it yet."""
    context: Any = Context()
    call = calls.open(context)
    assert list(call.receive(iter([b"a", b"b"]))) == [b"a", b"b"]
    return call, context


def test_a_call_that_is_ended_as_its_request_becomes_whole_is_not_worked_on() -> None:
    calls = Calls(CallLimits())
    call, _ = opened(calls)
    calls.stop(0)
    with pytest.raises(ServiceError) as caught:
        call.work()
    assert (caught.value.code, caught.value.reason) == (grpc.StatusCode.UNAVAILABLE, Reason.NOT_READY)
    call.work()  # once is enough


def test_a_call_that_makes_room_as_its_request_becomes_whole_is_not_worked_on() -> None:
    calls = Calls(CallLimits(most=1, room_after_s=0))
    call, _ = opened(calls)
    opened(calls)
    with pytest.raises(ServiceError, match="send it again"):
        call.work()


def test_a_call_that_sends_although_it_was_ended_for_want_of_its_request_is_cancelled() -> None:
    calls = Calls(CallLimits(send_s=0))
    call, context = opened(calls)
    calls.stop(0)
    call.send()
    assert not context.cancelled.is_set()
    calls.watch()  # until no call is open
    assert context.cancelled.is_set()


def test_a_stop_waits_no_longer_than_its_grace_for_a_call_that_is_worked_on() -> None:
    calls = Calls(CallLimits())
    call, context = opened(calls)
    call.work()
    calls.stop(0)
    assert not context.cancelled.is_set()
