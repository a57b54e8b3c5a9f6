"""A call is ended because of its caller at the very moment when its caller continues."""

import threading
from typing import Any

import grpc
import pytest

from trimtab.common.rpc.calls import CallLimits, OpenCalls
from trimtab.common.rpc.errors import Reason, ServiceError


class Context:
    """The parts of gRPC's context that a call uses."""

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


def opened(calls: OpenCalls) -> tuple[Any, Any]:
    """Return a call that has received its complete request, but does not know it yet."""
    context: Any = Context()
    call = calls.open(context)
    assert list(call.receive(iter([b"a", b"b"]))) == [b"a", b"b"]
    return call, context


def test_a_call_that_is_ended_as_its_request_becomes_whole_is_not_worked_on() -> None:
    calls = OpenCalls(CallLimits())
    call, _ = opened(calls)
    calls.stop(0)
    with pytest.raises(ServiceError) as caught:
        call.work()
    assert (caught.value.code, caught.value.reason) == (grpc.StatusCode.UNAVAILABLE, Reason.NOT_READY)
    call.work()  # once is enough


def test_a_call_that_makes_room_as_its_request_becomes_whole_is_not_worked_on() -> None:
    calls = OpenCalls(CallLimits(most=1, room_after_s=0))
    call, _ = opened(calls)
    opened(calls)
    with pytest.raises(ServiceError, match="send it again"):
        call.work()


def test_a_call_that_sends_although_it_was_ended_for_want_of_its_request_is_cancelled() -> None:
    calls = OpenCalls(CallLimits(send_s=0))
    call, context = opened(calls)
    calls.stop(0)
    call.send()
    assert not context.cancelled.is_set()
    calls.watch()  # until no call is open
    assert context.cancelled.is_set()


def test_a_stop_waits_no_longer_than_its_grace_for_a_call_that_is_worked_on() -> None:
    calls = OpenCalls(CallLimits())
    call, context = opened(calls)
    call.work()
    calls.stop(0)
    assert not context.cancelled.is_set()


def of_caller(calls: OpenCalls, caller: str) -> tuple[Any, Any]:
    """Return a call that waits for its caller."""
    context: Any = Context()
    call = calls.open(context)
    calls.belongs(call, caller)
    return call, context


def test_a_caller_has_no_more_calls_than_its_share_and_others_have_theirs() -> None:
    calls = OpenCalls(CallLimits(most=10, most_of_caller=2, room_after_s=60))
    for _ in range(2):
        of_caller(calls, "a")
    with pytest.raises(ServiceError, match="--max-calls-per-caller") as caught:
        of_caller(calls, "a")
    assert (caught.value.code, caught.value.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, Reason.OVERLOADED)
    of_caller(calls, "b")


def test_a_caller_that_only_holds_calls_open_loses_the_oldest_to_its_own_next_one() -> None:
    calls = OpenCalls(CallLimits(most=10, most_of_caller=2, room_after_s=0))
    other, _ = of_caller(calls, "b")
    oldest, newer = (of_caller(calls, "a")[0] for _ in range(2))
    of_caller(calls, "a")
    with pytest.raises(ServiceError, match="send it again"):
        oldest.work()
    newer.work()
    other.work()


def test_where_no_more_calls_may_be_open_the_caller_with_most_of_them_makes_room() -> None:
    calls = OpenCalls(CallLimits(most=3, most_of_caller=3, room_after_s=0))
    patient, _ = of_caller(calls, "b")
    first, second = (of_caller(calls, "a")[0] for _ in range(2))
    of_caller(calls, "c")
    with pytest.raises(ServiceError, match="send it again"):
        first.work()
    second.work()
    patient.work()


def test_a_call_that_is_worked_on_makes_no_room() -> None:
    calls = OpenCalls(CallLimits(most=10, most_of_caller=1, room_after_s=0))
    call, context = of_caller(calls, "a")
    call.work()
    with pytest.raises(ServiceError, match="of this caller"):
        of_caller(calls, "a")
    assert not context.cancelled.is_set()


@pytest.mark.parametrize(("room_after_unread_s", "makes_room"), [(60, False), (0, True)])
def test_a_call_whose_answer_is_not_read_makes_room_later_than_one_whose_request_does_not_come(
    room_after_unread_s: float, makes_room: bool
) -> None:
    calls = OpenCalls(CallLimits(most=1, room_after_s=0, room_after_unread_s=room_after_unread_s))
    call, context = opened(calls)
    call.work()
    call.send()
    if makes_room:
        opened(calls)
    else:
        with pytest.raises(ServiceError, match="--max-workers"):
            opened(calls)
    assert context.cancelled.is_set() == makes_room
