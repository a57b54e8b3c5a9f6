"""The win of each mode of the scale-down search, on recorded clusters and on generated ones with constraints.

A mode that loses nodes fails; one that wins none here is noted: without a win elsewhere it does not stay in the search.
Upstream: the recorded answers of the real Cluster Autoscaler, several for each cluster as its order of nodes is random.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.builders.notes import Note
from tests.builders.scale_down import NOW_S, scale_down_request
from tests.parity.cluster_autoscaler_answers import UNLIMITED, lasting, recorded, settings_of
from trimtab.clients.cluster_generator import ClusterShape, generate, write_list
from trimtab.common.objects import build_snapshot, decode_objects, read_files
from trimtab.planner.scale_down.decision import decide_scale_down
from trimtab.planner.scale_down.search import drain_sets, portfolio
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2, snapshot_pb2

pytestmark = pytest.mark.nightly
COUNT = plan_pb2.Objective.COUNT
EVERY_NODE = plan_pb2.PlanSettings(scale_down=plan_pb2.ScaleDownSettings(utilization_threshold=1.0, objective=COUNT))


class Recorded(NamedTuple):
    """A recorded cluster; upstream : the most nodes that one of the real autoscaler's runs removes."""

    message: snapshot_pb2.ClusterSnapshot
    document: dict[str, Any]
    upstream: int

    def freed(self) -> int:
        now_s = int(datetime.fromisoformat(self.document["now"]).timestamp())
        return freed(self.message, settings_of(self.document, UNLIMITED | {"objective": "COUNT"}), now_s)


def freed(message: snapshot_pb2.ClusterSnapshot, settings: plan_pb2.PlanSettings, now_s: int) -> int:
    request = scale_down_request(canonicalize(message), settings, now_s)
    return len(decide_scale_down(request).result.unneeded)


@pytest.fixture(scope="module")
def clusters() -> list[Recorded]:
    return [
        Recorded(
            build_snapshot(decode_objects(document["items"])).snapshot,
            document,
            max(lasting(document, run) for run in runs),
        )
        for document, runs in recorded("generated")
    ]


def test_shuffled_orders_free_no_fewer_nodes_of_any_small_cluster(
    clusters: list[Recorded], monkeypatch: pytest.MonkeyPatch, note: Note
) -> None:
    with_them = [one.freed() for one in clusters]
    monkeypatch.setattr(portfolio, "SHUFFLES", 0)
    without = [one.freed() for one in clusters]
    assert all(more >= fewer for more, fewer in zip(with_them, without, strict=True))
    if sum(with_them) == sum(without):
        note("shuffled orders free no more nodes of the recorded clusters")


def test_trying_nodes_that_received_pods_once_more_frees_no_fewer_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, note: Note
) -> None:
    found = []
    for seed in range(4):
        file = tmp_path / f"{seed}.json"
        shape = ClusterShape(nodes=100, pods=2_000, spread_share=0.5, anti_affinity_share=0.2, seed=seed)
        write_list(generate(shape), file)
        found.append(read_files([file]).snapshot)
    with_it = sum(freed(message, EVERY_NODE, NOW_S) for message in found)
    monkeypatch.setattr(drain_sets, "_is_more_than_a_repetition", lambda *_: False)
    without = sum(freed(message, EVERY_NODE, NOW_S) for message in found)
    assert with_it >= without
    if with_it == without:
        note("trying nodes that received pods once more frees no more nodes of the generated clusters")
