"""Times that an API server stores and a snapshot cannot hold."""

import json

import pytest

from tests.builders import kubernetes as k8s
from tests.builders.kubernetes_protobuf import encoded
from trimtab.common.objects import decode_objects
from trimtab.common.objects.pod_rows import pod_row
from trimtab.common.objects.times import LATEST_S
from trimtab.common.watched.pod_reader import PodRowBuilder
from trimtab.common.watched.structs import json_object


@pytest.mark.parametrize(
    ("time", "expected"),
    [("2311-01-01T00:00:00Z", LATEST_S), ("0001-01-01T00:00:00Z", 1), ("2026-01-01T00:00:00Z", 1_767_225_600)],
)
def test_a_pod_deleted_with_a_grace_period_of_centuries_is_read_from_files_and_watches_alike(
    time: str, expected: int
) -> None:
    item = k8s.pod("slow", node="n1", deletion=time)
    [from_file] = decode_objects([item]).of("Pod")
    watched = PodRowBuilder().read(encoded(item).SerializeToString())
    assert [pod_row(from_file).deletion_s, watched.deletion_s] == [expected, expected]


def test_a_node_whose_condition_changed_in_the_year_0_is_read() -> None:
    node = k8s.node("n1")
    node["status"]["conditions"][0]["lastTransitionTime"] = "0000-01-01T00:00:00Z"
    found = json_object("Node", json.dumps(node).encode())
    [condition] = found.status.conditions
    assert condition.last_transition_time.year == 1
