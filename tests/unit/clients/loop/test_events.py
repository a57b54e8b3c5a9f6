"""Events as operators know them: one for each change, on the object concerned."""

from collections.abc import Iterator

import pytest
import urllib3

from tests.builders.api_server import FakeApiServer, Fault
from trimtab.clients.loop.events import (
    NORMAL,
    SCALE_DOWN,
    SCALE_DOWN_EMPTY,
    SCALE_DOWN_FAILED,
    WARNING,
    ClusterEvent,
    EventWriter,
    StatusEvents,
    Subject,
)
from trimtab.common.kubernetes.api import Api
from trimtab.common.kubernetes.connection import Connection
from trimtab.v1 import actuator_pb2, reason_pb2

State = actuator_pb2.DeletionState
MAP = Subject("ConfigMap", "trimtab-status", "kube-system")


def deletion(node: str, state: int, *, drain: bool = True, **more: object) -> actuator_pb2.NodeDeletion:
    return actuator_pb2.NodeDeletion(node=node, request_id="r", state=state, drain=drain, **more)  # type: ignore[arg-type]


def status(*deletions: actuator_pb2.NodeDeletion, evicted: str = "") -> actuator_pb2.ActuatorStatus:
    built = actuator_pb2.ActuatorStatus(deletions=deletions)
    for name in evicted.split():
        built.recent_evictions.add(namespace="default", name=name, uid=f"uid-{name}")
    return built


def told(before: actuator_pb2.ActuatorStatus, after: actuator_pb2.ActuatorStatus) -> list[tuple[str, str, str, str]]:
    """Return (kind, name, type, reason) of the events between two statuses."""
    events = StatusEvents(MAP)
    assert events.of(before) == []
    return [(one.subject.kind, one.subject.name, one.type, one.reason) for one in events.of(after)]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(
            status(),
            status(deletion("n1", State.TAINTED)),
            [("Node", "n1", NORMAL, SCALE_DOWN), ("ConfigMap", "trimtab-status", NORMAL, SCALE_DOWN)],
            id="a drain begins",
        ),
        pytest.param(
            status(),
            status(deletion("n1", State.DELETING, drain=False)),
            [("Node", "n1", NORMAL, SCALE_DOWN), ("ConfigMap", "trimtab-status", NORMAL, SCALE_DOWN_EMPTY)],
            id="an empty node goes",
        ),
        pytest.param(
            status(deletion("n1", State.DRAINING)),
            status(deletion("n1", State.DRAINED)),
            [],
            id="nothing worth telling",
        ),
        pytest.param(
            status(deletion("n1", State.DRAINING), evicted="a"),
            status(deletion("n1", State.DRAINING), evicted="a b"),
            [("Pod", "b", NORMAL, SCALE_DOWN)],
            id="a pod is evicted",
        ),
        pytest.param(
            status(deletion("n1", State.DELETING)),
            status(deletion("n1", State.DELETED)),
            [("Node", "n1", NORMAL, SCALE_DOWN)],
            id="the node is gone",
        ),
        pytest.param(
            status(deletion("n1", State.DRAINING)),
            status(deletion("n1", State.FAILED, pods_left=["default/a"])),
            [("Node", "n1", WARNING, SCALE_DOWN_FAILED), ("Pod", "a", WARNING, SCALE_DOWN_FAILED)],
            id="a drain fails",
        ),
        pytest.param(
            status(deletion("n1", State.DRAINING)),
            status(deletion("n1", State.CANCELLED)),
            [("Node", "n1", NORMAL, SCALE_DOWN)],
            id="a drain is cancelled",
        ),
    ],
)
def test_each_change_is_one_event_on_its_object(
    before: actuator_pb2.ActuatorStatus, after: actuator_pb2.ActuatorStatus, expected: list[tuple[str, str, str, str]]
) -> None:
    assert told(before, after) == expected
    assert told(after, after) == []


def test_a_failure_says_its_reason() -> None:
    events = StatusEvents(MAP)
    events.of(status(deletion("n1", State.DRAINING)))
    code = reason_pb2.DeletionReason.Code.values()[1]
    (event,) = events.of(status(deletion("n1", State.FAILED, reason=code, detail="took an hour")))
    assert reason_pb2.DeletionReason.Code.Name(code) in event.message
    assert "took an hour" in event.message


@pytest.fixture
def server() -> Iterator[FakeApiServer]:
    with FakeApiServer() as started:
        yield started


def test_events_are_written_in_the_background_and_failures_counted(server: FakeApiServer) -> None:
    path = "/api/v1/namespaces/default/events"
    server.fail(path, Fault(status=500))
    writer = EventWriter(Api(Connection(server.url, urllib3.PoolManager(), lambda: "")), "loop-1")
    node = Subject("Node", "n1", uid="n1")
    writer.put([ClusterEvent(node, NORMAL, SCALE_DOWN, "one"), ClusterEvent(node, WARNING, SCALE_DOWN_FAILED, "two")])
    writer.start()
    writer.stop()
    (written,) = server.documents.values()
    assert writer.dropped == 1
    assert written["involvedObject"] == {"kind": "Node", "name": "n1", "apiVersion": "v1", "uid": "n1"}
    assert (written["type"], written["reason"], written["message"]) == (WARNING, SCALE_DOWN_FAILED, "two")
    assert written["source"]["component"] == "trimtab"
