"""Watchers share encoded messages, and the number of bytes in flight is bounded."""

import threading
from collections.abc import Callable

import pytest

from tests.builders.waiting import LIMIT_S
from trimtab.actuator.service.status import EncodedStatus, StatusParts
from trimtab.actuator.service.watching import SendBudget, SharedStatus


class Writer:
    def __init__(self) -> None:
        self.revision, self.written = 1, 0

    def __call__(self, with_finished: bool, base: StatusParts | None) -> EncodedStatus:
        self.written += 1
        since = f" since {base.revision}" if base else ""
        parts = StatusParts(self.written, self.revision, 0, {}, {}, 0, 0)
        return EncodedStatus(self.revision, f"{self.revision} {with_finished}{since}".encode(), parts)


def test_watchers_of_one_revision_get_the_same_bytes() -> None:
    writer = Writer()
    shared = SharedStatus(writer)
    first = shared.get(True, 1)
    assert all(shared.get(True, 1).response is first.response for _ in range(15))
    assert writer.written == 1
    assert shared.get(False, 1).response == b"1 False"
    writer.revision = 3
    assert shared.get(True, 1).response is first.response
    assert shared.get(True, 2).revision == 3
    assert writer.written == 3


def test_watchers_of_the_same_status_get_the_same_change() -> None:
    writer = Writer()
    shared = SharedStatus(writer)
    first = shared.get(True, 1)
    writer.revision = 2
    changes = [shared.get(True, 2, first.parts) for _ in range(5)]
    assert {change.response for change in changes} == {b"2 True since 1"}
    assert writer.written == 2
    assert shared.get(True, 2).response == b"2 True"
    writer.revision = 3
    assert shared.get(True, 3, changes[0].parts).response == b"3 True since 2"
    assert shared.get(True, 3, first.parts).response == b"3 True since 1"


def test_nothing_is_kept_without_watchers() -> None:
    writer = Writer()
    shared = SharedStatus(writer)
    shared.get(True, 1)
    shared.forget()
    shared.get(True, 1)
    assert writer.written == 2


@pytest.mark.parametrize(
    ("sizes", "is_reserved"),
    [
        pytest.param((40, 60), True, id="as much as fits"),
        pytest.param((41, 60), False, id="more than fits"),
        pytest.param((500,), True, id="one that is larger than all room"),
        pytest.param((500, 1), False, id="another beside it"),
    ],
)
def test_messages_are_sent_while_there_is_room(sizes: tuple[int, ...], is_reserved: bool) -> None:
    budget = SendBudget(100)

    def send(left: tuple[int, ...]) -> bool:
        with budget.reserve(left[0], 0.0) as found:
            return found and (len(left) == 1 or send(left[1:]))

    assert send(sizes) is is_reserved
    with budget.reserve(100, 0.0) as found:
        assert found, "room is given back"


def test_a_message_that_waits_for_room_is_sent_when_another_is_done() -> None:
    budget = SendBudget(100)
    done, waiting = threading.Event(), threading.Event()
    got: list[bool] = []

    def wait(start: Callable[[], None]) -> None:
        start()
        with budget.reserve(100, LIMIT_S) as found:
            got.append(found)
        done.set()

    with budget.reserve(60, 0.0):
        thread = threading.Thread(target=wait, args=(waiting.set,))
        thread.start()
        assert waiting.wait(LIMIT_S)
        assert not got
    assert done.wait(LIMIT_S)
    thread.join()
    assert got == [True]
