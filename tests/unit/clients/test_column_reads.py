"""A message copies a column each time it is read: what looks at every pod reads each column once, not once a pod."""

from collections import Counter
from typing import Any

import pytest
from google.protobuf.message import Message

from tests.benchmarks.tiles import _uids, tiled
from tests.builders.kubernetes import node, pod, snapshot_of
from trimtab.clients.cluster_view import ClusterView
from trimtab.clients.simulation.recorded_rounds import _RoundsReader, _rows
from trimtab.common.objects.pod_spec_exporter import PodSpecExporter
from trimtab.v1 import snapshot_pb2 as pb


class CountedColumns:
    """A message that counts how often each of its fields of bytes is read."""

    def __init__(self, message: Message, reads: Counter[str]) -> None:
        self._message, self._reads = message, reads

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._message, name)
        if isinstance(value, bytes):
            self._reads[name] += 1
        return CountedColumns(value, self._reads) if isinstance(value, Message) else value


def look_up(snapshot: Any, _: pb.ClusterSnapshot) -> None:
    view = ClusterView(snapshot)
    for key in view.pod_keys:
        assert view.pod(key) is not None


def read_labels(snapshot: Any, _: pb.ClusterSnapshot) -> None:
    reader = PodSpecExporter(snapshot)
    assert [reader.labels(at) for at in (0, 1, 1, 1)] == [{}, {"a": "b"}, {"a": "b"}, {"a": "b"}]


def make_items(snapshot: Any, plain: pb.ClusterSnapshot) -> None:
    rounds, reader = _RoundsReader(), PodSpecExporter(plain)
    for row in _rows(snapshot):
        assert rounds._item(row, snapshot, reader)["metadata"]["labels"] == {"a": "b"}


def tile(snapshot: Any, plain: pb.ClusterSnapshot) -> None:
    uids, _ = _uids(snapshot.pods, 3)
    assert uids == tiled(plain, 3).pods.uids


@pytest.mark.parametrize("use", [look_up, read_labels, make_items, tile], ids=lambda use: use.__name__)
def test_each_column_is_read_a_few_times_for_any_number_of_pods(use: Any) -> None:
    pods = [pod(f"p{i}", node="n1", labels={"a": "b"}) for i in range(20)]
    snapshot = snapshot_of([node("n1"), *pods])
    reads: Counter[str] = Counter()
    use(CountedColumns(snapshot, reads), snapshot)
    assert reads
    assert max(reads.values()) <= 3, reads
