"""Annotations written to an API server: by server-side apply, rate-limited, none twice, others' never overwritten."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.builders.clouds import Clock
from tests.builders.json_api import Fault, JsonApiServer
from trimtab.clients.steering.marks import NodeMarks, Write, ours, writes
from trimtab.clients.steering.writer import UNSEEN_S, MarkWriter
from trimtab.common.kubernetes.errors import ApiError
from trimtab.common.kubernetes.signals.cluster_autoscaler import SCALE_DOWN_DISABLED
from trimtab.common.kubernetes.signals.ours import STEERED

KEY = SCALE_DOWN_DISABLED.key


@pytest.fixture
def server() -> Iterator[JsonApiServer]:
    with JsonApiServer() as started:
        for i in range(3):
            started.put("/api/v1/nodes", {"metadata": {"name": f"n{i}"}})
        yield started


def nodes(server: JsonApiServer) -> list[NodeMarks]:
    found = [one["metadata"] for path, one in server.objects.items() if path.startswith("/api/v1/nodes/")]
    return [NodeMarks(meta["name"], meta["uid"], dict(meta.get("annotations", {}))) for meta in found]


def annotations(server: JsonApiServer, name: str) -> dict[str, Any]:
    return dict(server.objects[f"/api/v1/nodes/{name}"]["metadata"].get("annotations", {}))


def patches(server: JsonApiServer) -> int:
    return sum(one.startswith("PATCH") for one in server.requests)


def always() -> bool:
    return True


def steer(server: JsonApiServer, writer: MarkWriter, stay: set[str], within_s: float = 60.0) -> Any:
    before = nodes(server)
    return writer.write(writer.unseen(writes(before, stay, KEY), before), before, always, within_s)


def test_nodes_are_protected_released_and_then_nothing_is_written(server: JsonApiServer) -> None:
    writer = MarkWriter(server.http(), 1000)
    server.put("/api/v1/nodes", {"metadata": {"name": "n2", "annotations": {"mine": "1"}}})
    assert steer(server, writer, {"n0", "n2"}).done == ["n0", "n2"]
    assert annotations(server, "n2") == ours(KEY) | {"mine": "1"}
    assert steer(server, writer, {"n2"}).done == ["n0"]
    assert annotations(server, "n0") == {}
    count = patches(server)
    assert steer(server, writer, {"n2"}).done == []
    assert patches(server) == count


def test_writes_keep_to_their_pace_and_the_rest_waits(server: JsonApiServer) -> None:
    clock = Clock()
    writer = MarkWriter(server.http(), 2.0, clock, clock.sleep)
    result = steer(server, writer, {"n0", "n1", "n2"}, within_s=0.75)
    assert (result.done, result.left) == (["n0", "n1"], 1)
    assert clock.slept == [0.5]
    assert steer(server, writer, {"n0", "n1", "n2"}, within_s=0.75).done == ["n2"]


def test_a_process_that_must_not_continue_writes_nothing(server: JsonApiServer) -> None:
    before = nodes(server)
    result = MarkWriter(server.http(), 10).write(writes(before, {"n0"}, KEY), before, lambda: False, 60.0)
    assert (result.done, result.left, patches(server)) == ([], 1, 0)


def test_what_is_not_seen_yet_is_not_written_again_for_a_while(server: JsonApiServer) -> None:
    clock = Clock()
    writer = MarkWriter(server.http(), 10, clock, clock.sleep)
    before = nodes(server)
    wanted = writes(before, {"n0"}, KEY)
    writer.write(wanted, before, always, 60.0)
    assert writer.unseen(wanted, before) == []
    assert writer.unseen(writes(before, {"n1"}, KEY), before) == [Write("n1", "uid-n1", ours(KEY))]
    clock.now_s += UNSEEN_S + 1
    assert writer.unseen(wanted, before) == wanted


def test_annotations_set_by_others_meanwhile_and_deleted_nodes_are_left_alone(server: JsonApiServer) -> None:
    before = nodes(server)
    server.put("/api/v1/nodes", {"metadata": {"name": "n0", "annotations": {KEY: "false"}}})
    del server.objects["/api/v1/nodes/n1"]
    wanted = writes(before, {"n0", "n1", "n2"}, KEY)
    result = MarkWriter(server.http(), 1000).write(wanted, before, always, 60.0)
    assert (result.done, sorted(result.failed)) == (["n2"], ["n0", "n1"])
    assert annotations(server, "n0") == {KEY: "false"}
    assert "/api/v1/nodes/n1" not in server.objects


def test_a_server_that_fails_ends_the_round(server: JsonApiServer) -> None:
    server.fail("PATCH", Fault(500))
    with pytest.raises(ApiError):
        steer(server, MarkWriter(server.http(), 10), {"n0"})


def test_a_later_node_of_the_same_name_is_left_alone(server: JsonApiServer) -> None:
    before = nodes(server)
    server.put("/api/v1/nodes", {"metadata": {"name": "n0", "uid": "another"}})
    result = MarkWriter(server.http(), 10).write(writes(before, {"n0"}, KEY), before, always, 60.0)
    assert list(result.failed) == ["n0"]
    assert STEERED.key not in annotations(server, "n0")
