"""The Lease: one holder at a time, handed on when it is given back or not renewed."""

import threading
from collections.abc import Callable, Iterator

import pytest

from actuator.kube.lease import Lease
from actuator.kube.settings import LeaseSettings
from actuator.leadership import NotLeaderError
from actuator.runner.engine import Engine
from actuator.service.leading import Leadership
from actuator.store.journal import Journal
from actuator.store.records import StoreConflictError
from tests.builders.actuator import ListStore
from tests.builders.json_api import Fault, JsonApiServer

PATH = "/apis/coordination.k8s.io/v1/namespaces/here/leases/l"


@pytest.fixture
def server() -> Iterator[JsonApiServer]:
    with JsonApiServer() as started:
        yield started


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The monotonic clock of all leases; change its element."""
    clock = [1000.0]
    monkeypatch.setattr("actuator.kube.lease.time.monotonic", lambda: clock[0])
    return clock


def candidate(server: JsonApiServer, name: str, **settings: float) -> Lease:
    return Lease(server.api(), name, LeaseSettings("here", "l", **settings))


def test_the_first_one_holds_it_and_the_second_does_not(server: JsonApiServer, now: list[float]) -> None:
    a, b = candidate(server, "a"), candidate(server, "b")
    assert [a.attempt(), b.attempt(), a.attempt()] == [True, False, True]
    assert (a.holder, b.holder) == ("a", "a")
    spec = server.objects[PATH]["spec"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == ("a", 15, 0)


def test_one_that_is_not_renewed_is_taken_over_after_its_duration_and_not_before(
    server: JsonApiServer, now: list[float]
) -> None:
    a, b = candidate(server, "a"), candidate(server, "b")
    a.attempt()
    b.attempt()
    now[0] += 14.9
    assert not b.attempt()
    assert not a.is_held, "who did not renew counts itself out before others may take over"
    now[0] += 0.2
    assert b.attempt()
    assert not a.attempt()
    assert server.objects[PATH]["spec"]["leaseTransitions"] == 1


def test_renewal_keeps_others_out_however_long(server: JsonApiServer, now: list[float]) -> None:
    a, b = candidate(server, "a"), candidate(server, "b")
    for _ in range(10):
        assert a.attempt()
        assert not b.attempt()
        now[0] += 8


def test_one_that_is_given_back_need_not_be_waited_for(server: JsonApiServer, now: list[float]) -> None:
    a, b = candidate(server, "a"), candidate(server, "b")
    a.attempt()
    a.stop()
    assert not a.is_held
    assert b.attempt()


def test_a_server_that_fails_for_a_while_does_not_cost_the_lease(server: JsonApiServer, now: list[float]) -> None:
    a = candidate(server, "a")
    a.attempt()
    server.fail("GET", Fault(500), Fault(0))
    for held in (True, True):
        now[0] += 4
        assert a.attempt() is held
    now[0] += 10
    server.fail("GET", Fault(500))
    assert not a.attempt()


def test_of_two_that_write_at_the_same_time_one_wins(server: JsonApiServer, now: list[float]) -> None:
    a = candidate(server, "a")
    server.fail("POST", Fault(409))
    assert not a.attempt()


class HeldLease:
    """A Lease as the test says."""

    identity, holder = "me", "somebody"

    def __init__(self) -> None:
        self.is_held = True
        self.calls: list[Callable[[], None]] = []

    def start(self, on_gain: Callable[[], None], on_loss: Callable[[], None]) -> None:
        self.calls = [on_gain, on_loss]

    def stop(self) -> None:
        self.is_held = False


class TakenStore(ListStore):
    """A store that somebody else may take over."""

    taken = False

    def confirm(self) -> None:
        if self.taken:
            raise StoreConflictError("taken over")


class Acting:
    """What leads."""

    def __init__(self, store: ListStore) -> None:
        self.engine = Engine(Journal(store), lambda: 0.0, lambda: None)
        self.engine.leading = False
        self.led = 0

    def lead(self) -> None:
        self.led += 1


def test_a_process_acts_only_between_gaining_and_losing() -> None:
    store, lease, ended = TakenStore(), HeldLease(), threading.Event()
    leadership, leader = Leadership(lease, store, ended.set), Acting(store)
    leadership.begin(leader, lambda: None)
    with pytest.raises(NotLeaderError, match="somebody"):
        leadership.guard()
    on_gain, on_loss = lease.calls
    on_gain()
    leadership.guard()
    assert (leader.led, leadership.may_act()) == (1, True)
    on_loss()
    assert ended.is_set()
    assert leadership.lost == "the Lease was lost"
    with pytest.raises(NotLeaderError):
        leadership.guard()
    leadership.stop()


def test_a_process_whose_clock_stood_still_is_stopped_by_the_store() -> None:
    store, lease, ended = TakenStore(), HeldLease(), threading.Event()
    leadership = Leadership(lease, store, ended.set)
    leadership.begin(Acting(store), lambda: None)
    lease.calls[0]()
    store.taken = True
    with pytest.raises(NotLeaderError):
        leadership.guard()
    assert ended.is_set()
    assert not leadership.may_act()
    leadership.stop()
