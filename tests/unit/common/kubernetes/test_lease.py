"""At most one process leads, and the next one waits no longer than necessary."""

import threading
from collections.abc import Iterator

import pytest
import urllib3

from tests.builders.api_server import FakeApiServer, Fault
from tests.builders.clouds import Clock
from tests.builders.waiting import LIMIT_S
from trimtab.common.kubernetes.api import Api
from trimtab.common.kubernetes.connection import Connection
from trimtab.common.kubernetes.lease import Lease, LeaseSettings

PATH = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/trimtab-loop"
SETTINGS = LeaseSettings(name="trimtab-loop", retry_period_s=0.01)


class LeadershipChanges:
    """The events of a Lease."""

    def __init__(self) -> None:
        self.gained, self.lost = threading.Event(), threading.Event()


@pytest.fixture
def server() -> Iterator[FakeApiServer]:
    with FakeApiServer() as started:
        yield started


def candidate(server: FakeApiServer, name: str, clock: Clock) -> Lease:
    return Lease(Api(Connection(server.url, urllib3.PoolManager(), lambda: "")), name, SETTINGS, clock)


def test_the_first_leads_and_the_second_waits(server: FakeApiServer) -> None:
    clock = Clock()
    first, second = candidate(server, "a", clock), candidate(server, "b", clock)
    assert first.attempt()
    assert not second.attempt()
    assert second.holder == "a"
    clock.now_s += 9
    assert first.attempt()
    clock.now_s += 9
    assert not second.attempt()


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param({}, id="an empty answer"),
        pytest.param({"metadata": {}, "spec": "none"}, id="a specification that is none"),
        pytest.param({"metadata": {}, "spec": {"holderIdentity": "b", "leaseDurationSeconds": "x"}}, id="a duration"),
    ],
)
def test_an_answer_that_is_no_lease_is_a_failed_attempt_and_not_the_last_one(
    server: FakeApiServer, answer: dict[str, object]
) -> None:
    clock = Clock()
    first = candidate(server, "a", clock)
    server.documents[PATH] = answer
    assert not first.attempt()
    del server.documents[PATH]
    assert first.attempt()


def test_a_leader_that_renews_no_more_is_followed_after_the_duration(server: FakeApiServer) -> None:
    clock = Clock()
    first, second = candidate(server, "a", clock), candidate(server, "b", clock)
    first.attempt()
    second.attempt()
    clock.now_s += 14
    assert not second.attempt()
    clock.now_s += 1
    assert second.attempt()
    assert not first.attempt()
    assert server.documents[PATH]["spec"]["leaseTransitions"] == 1


def test_each_leader_has_a_greater_epoch_though_the_lease_be_deleted(server: FakeApiServer) -> None:
    clock, epochs = Clock(), []
    for created in ("2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"):
        first, second = candidate(server, "a", clock), candidate(server, "b", clock)
        metadata = {"name": "trimtab-loop", "namespace": "kube-system", "creationTimestamp": created}
        server.documents[PATH] = {"metadata": metadata, "spec": {"holderIdentity": ""}}
        assert first.attempt()
        epochs.append(first.epoch)
        assert first.attempt()
        assert first.epoch == epochs[-1], "a renewal is the same term"
        second.attempt()
        clock.now_s += 15
        assert second.attempt()
        epochs.append(second.epoch)
    assert epochs == sorted(set(epochs))


def test_a_leader_counts_itself_out_before_others_may_take_over(server: FakeApiServer) -> None:
    clock = Clock()
    first = candidate(server, "a", clock)
    first.attempt()
    server.fail(PATH, *[Fault(status=500)] * 3)
    clock.now_s += 9
    assert first.attempt()  # still within the deadline, although it could not renew
    clock.now_s += 1
    assert not first.is_held
    assert not first.attempt()


def test_of_two_that_write_at_the_same_time_one_leads(server: FakeApiServer) -> None:
    clock = Clock()
    first, second = candidate(server, "a", clock), candidate(server, "b", clock)
    found = first._document({}, None)
    server.documents[PATH] = found | {"metadata": {"name": "trimtab-loop", "resourceVersion": "1"}}
    server.documents[PATH]["spec"]["holderIdentity"] = ""
    stale = second._read()
    assert first.attempt()
    assert stale is not None
    assert not second._write("PUT", PATH, second._document(stale["spec"], stale["metadata"]))


def test_a_leader_that_stops_gives_the_lease_back(server: FakeApiServer) -> None:
    clock = Clock()
    first, second = candidate(server, "a", clock), candidate(server, "b", clock)
    first.attempt()
    second.attempt()
    first.stop()
    assert not first.is_held
    assert second.attempt()


def test_one_that_never_led_leaves_the_lease_alone(server: FakeApiServer) -> None:
    clock = Clock()
    first, second = candidate(server, "a", clock), candidate(server, "b", clock)
    first.attempt()
    second.attempt()
    second.stop()
    assert server.documents[PATH]["spec"]["holderIdentity"] == "a"


def test_renewal_keeps_others_out_however_long(server: FakeApiServer) -> None:
    clock = Clock()
    first, second = candidate(server, "a", clock), candidate(server, "b", clock)
    for _ in range(10):
        assert first.attempt()
        assert not second.attempt()
        clock.now_s += 8


def test_gaining_and_losing_are_reported_in_the_background(server: FakeApiServer) -> None:
    clock = Clock()
    lease, changes = candidate(server, "a", clock), LeadershipChanges()
    lease.start(changes.gained.set, changes.lost.set)
    assert changes.gained.wait(LIMIT_S)
    server.fail(PATH, *[Fault(status=500)] * 100_000)
    clock.now_s += 10
    assert changes.lost.wait(LIMIT_S)
    lease.stop()


def test_without_anybody_to_tell_a_lost_lease_is_tried_for_again(server: FakeApiServer) -> None:
    clock = Clock()
    lease, changes = candidate(server, "a", clock), LeadershipChanges()
    lease.start(changes.gained.set)
    assert changes.gained.wait(LIMIT_S)
    changes.gained.clear()
    server.fail(PATH, *[Fault(status=500)] * 50)
    clock.now_s += 10
    assert changes.gained.wait(LIMIT_S), "once the server answers again, it is renewed"
    lease.stop()
    assert server.documents[PATH]["spec"]["holderIdentity"] == ""
