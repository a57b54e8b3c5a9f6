"""Callers take turns, wait for a limited time, and release their slot."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.builders.waiting import LIMIT_S
from trimtab.common.rpc.errors import Reason, ServiceError
from trimtab.planner.service.request_limits import AdmissionQueue


class Crowd:
    """Callers that wait for the only slot, in a known order."""

    def __init__(self) -> None:
        self.turns = AdmissionQueue(1)
        self.order: list[str] = []
        self._pool = ThreadPoolExecutor(32)

    def wait_for(self, caller: str, is_wanted: threading.Event | None = None, wait_s: float = LIMIT_S):
        """Make a caller wait; return once it does."""
        before = self.count()

        def work() -> None:
            with self.turns.place(caller, wait_s, is_wanted.is_set if is_wanted else lambda: True):
                self.order.append(caller)

        future = self._pool.submit(work)
        pause = threading.Event()
        while self.count() == before and not future.done():
            pause.wait(0.005)
        return future

    def count(self) -> int:
        with self.turns._lock:
            return sum(map(len, self.turns._waiting.values()))


def test_a_caller_with_many_requests_does_not_keep_the_others_waiting() -> None:
    crowd = Crowd()
    with crowd.turns.place("first", 0, lambda: True):
        waiting = [crowd.wait_for(name) for name in ["greedy"] * 6 + ["a", "b"]]
    for one in waiting:
        one.result(LIMIT_S)
    assert crowd.order == ["greedy", "a", "b", *["greedy"] * 5]


def test_callers_with_the_same_demand_get_the_same_number_of_turns() -> None:
    crowd = Crowd()
    with crowd.turns.place("first", 0, lambda: True):
        waiting = [crowd.wait_for(name) for name in "aaaabbbbccccdddd"]
    for one in waiting:
        one.result(LIMIT_S)
    for begin in range(0, 16, 4):
        assert Counter(crowd.order[begin : begin + 4]) == Counter("abcd")


def test_a_request_that_waits_in_vain_is_refused_and_takes_no_turn() -> None:
    crowd = Crowd()
    with crowd.turns.place("first", 0, lambda: True):
        with pytest.raises(ServiceError) as caught, crowd.turns.place("second", 0, lambda: True):
            pass
        assert caught.value.reason == Reason.OVERLOADED
        assert crowd.count() == 0
    with crowd.turns.place("third", 0, lambda: True):
        pass


def refuse(turns: AdmissionQueue, caller: str) -> None:
    with pytest.raises(ServiceError), turns.place(caller, 0, lambda: True):
        pass


def test_a_caller_that_was_refused_comes_before_those_that_came_after_it() -> None:
    crowd = Crowd()
    with crowd.turns.place("first", 0, lambda: True):
        refuse(crowd.turns, "refused")
        refuse(crowd.turns, "refused too")
        waiting = [crowd.wait_for(name) for name in ("new", "refused too", "refused", "new")]
    for one in waiting:
        one.result(LIMIT_S)
    assert crowd.order == ["refused", "refused too", "new", "new"]


def test_a_caller_that_was_refused_has_one_turn_for_it() -> None:
    crowd = Crowd()
    with crowd.turns.place("first", 0, lambda: True):
        refuse(crowd.turns, "refused")
        waiting = [crowd.wait_for(name) for name in ("a", "b", "refused", "refused", "refused")]
    for one in waiting:
        one.result(LIMIT_S)
    assert crowd.order == ["refused", "a", "b", "refused", "refused"]


def test_only_so_many_refused_callers_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trimtab.planner.service.request_limits.MOST_REFUSED", 2)
    turns = AdmissionQueue(1)
    with turns.place("first", 0, lambda: True):
        for name in ("a", "b", "c"):
            refuse(turns, name)
        assert list(turns._since) == ["b", "c"]


def test_a_caller_that_has_gone_waits_no_longer() -> None:
    crowd, is_there = Crowd(), threading.Event()
    is_there.set()
    with crowd.turns.place("first", 0, lambda: True):
        gone = crowd.wait_for("gone", is_there)
        stays = crowd.wait_for("stays")
        is_there.clear()
        with pytest.raises(ServiceError) as caught:
            gone.result(LIMIT_S)
        assert caught.value.reason == Reason.CANCELLED
    stays.result(LIMIT_S)
    assert crowd.order == ["stays"]


def test_every_place_is_given_back_whatever_happens() -> None:
    turns = AdmissionQueue(3)
    with ThreadPoolExecutor(16) as pool:

        def work(number: int) -> None:
            with turns.place(str(number % 5), LIMIT_S, lambda: True):
                if number % 7 == 0:
                    raise ZeroDivisionError

        done = [pool.submit(work, number) for number in range(200)]
    assert sum(one.exception() is not None for one in done) == 29
    assert (turns._free, len(turns._waiting)) == (3, 0)
