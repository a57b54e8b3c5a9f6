"""Watching the status over loopback gRPC: complete or by change, and who may watch."""

import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import grpc
import pytest

from tests.builders.actuator_service import SETTINGS, Service, refusal
from tests.builders.waiting import LIMIT_S
from trimtab.actuator.kube.cluster import TooManyRequestsError
from trimtab.clients.simulation.cluster.faults import Fault
from trimtab.common.rpc.callers import SESSION_KEY
from trimtab.common.rpc.client import connect
from trimtab.common.rpc.client import stream as streamed
from trimtab.common.rpc.errors import Reason
from trimtab.v1 import actuator_pb2, actuator_pb2_grpc


@pytest.fixture
def service() -> Iterator[Service]:
    running = Service()
    yield running
    running.close()


def test_watchers_beyond_the_bound_are_turned_away(service: Service) -> None:
    streams = [service.client.watch_status() for _ in range(2)]
    for stream in streams:
        next(stream)
    error = refusal(lambda: next(service.client.watch_status()))
    assert (error.code, error.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, Reason.OVERLOADED)


def test_a_caller_who_has_all_streams_gives_one_up_to_another_and_keeps_the_newest(service: Service) -> None:
    oldest, newest = (service.client.watch_status() for _ in range(2))
    next(oldest), next(newest)
    with connect(service.shell.address) as channel:
        stub = actuator_pb2_grpc.ActuatorStub(channel)

        def watch() -> Any:
            return stub.WatchStatus(actuator_pb2.WatchStatusRequest(), metadata=((SESSION_KEY, "another"),))

        stream = watch()
        next(stream)
        error = refusal(lambda: [status.revision for status in oldest])
        assert (error.code, error.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, Reason.OVERLOADED)
        assert "other callers" in error.message
        # Both have one now: neither takes the other's.
        assert refusal(lambda: list(streamed(watch))).reason == Reason.OVERLOADED
        assert refusal(lambda: next(service.client.watch_status())).reason == Reason.OVERLOADED
        service.start("r1", "n0")
        assert next(newest).revision > 0
        assert next(stream).status.revision > 0


def test_a_watcher_gets_whole_statuses_unless_it_asks_for_changes(service: Service) -> None:
    # The deletion never ends: changes in quick succession may be merged, and the next status may be late.
    service.cluster.faults.add(Fault("evict", error=TooManyRequestsError("a budget")))
    with connect(service.shell.address) as channel:
        stub = actuator_pb2_grpc.ActuatorStub(channel)
        whole = stub.WatchStatus(actuator_pb2.WatchStatusRequest())
        changes = stub.WatchStatus(actuator_pb2.WatchStatusRequest(changes_only=True))
        assert next(whole).HasField("status")
        first = next(changes)
        assert first.HasField("status")
        assert not first.HasField("change")
        service.start("r1", "n0")
        assert {one.node for one in next(whole).status.deletions} == {"n0"}
        change = next(changes).change
        assert change.base_revision == first.status.revision < change.revision
        assert {one.node for one in change.deletions} == {"n0"}


def test_a_watcher_that_knows_the_present_revision_waits_for_the_next_one() -> None:
    # A stream whose caller has disconnected keeps its slot briefly.
    with closing(Service(replace(SETTINGS, max_watchers=8))) as service:
        service.start("r1", "n6", drain=False)
        service.wait("n6")
        revision = service.client.get_status().revision
        with connect(service.shell.address) as channel:
            stub = actuator_pb2_grpc.ActuatorStub(channel)
            stream = stub.WatchStatus(watch_of(revision))
            # A revision other than the present one, even a later one, is answered at once.
            assert next(stub.WatchStatus(watch_of(revision + 1000))).status.revision == revision
            service.start("r2", "n0")
            assert next(stream).status.revision > revision
            error = refusal(lambda: list(streamed(lambda: stub.WatchStatus(watch_of(-1)))))
            assert (error.code, error.reason) == (grpc.StatusCode.INVALID_ARGUMENT, Reason.REQUEST_INVALID)
            assert "known_revision" in error.message


def watch_of(known_revision: int) -> actuator_pb2.WatchStatusRequest:
    return actuator_pb2.WatchStatusRequest(known_revision=known_revision)


def test_a_watcher_gets_an_error_when_the_service_stops() -> None:
    service = Service()
    stream = service.client.watch_status()
    next(stream)
    stopper = threading.Thread(target=service.close)
    stopper.start()
    error = refusal(lambda: next(stream))
    assert error.code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
    stopper.join(LIMIT_S)
    assert not stopper.is_alive()
