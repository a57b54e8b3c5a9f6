"""At most one leads, and the next need not wait longer than it must."""

from collections.abc import Iterator

import pytest
import urllib3

from clients.live_cluster.api import Api
from clients.live_cluster.connection import Connection
from clients.reference_loop.lease import Lease, LeaseSettings
from tests.builders.api_server import FakeApiServer, Fault

PATH = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/trimtab-loop"
SETTINGS = LeaseSettings(retry_period_s=0.01)


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


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


def test_a_leader_counts_itself_out_before_others_may_take_over(server: FakeApiServer) -> None:
    clock = Clock()
    first = candidate(server, "a", clock)
    first.attempt()
    server.fail(PATH, *[Fault(status=500)] * 3)
    clock.now_s += 9
    assert first.attempt()  # still within the deadline although it could not renew
    clock.now_s += 1
    assert not first.is_leader
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
    assert not first.is_leader
    assert second.attempt()


def test_one_that_never_led_leaves_the_lease_alone(server: FakeApiServer) -> None:
    clock = Clock()
    first, second = candidate(server, "a", clock), candidate(server, "b", clock)
    first.attempt()
    second.attempt()
    second.stop()
    assert server.documents[PATH]["spec"]["holderIdentity"] == "a"
