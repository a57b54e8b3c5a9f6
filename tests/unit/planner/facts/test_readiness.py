"""A node is ready by its condition and by its taints; a cluster is healthy unless too many nodes are not."""

import numpy as np
import pytest

from tests.builders.rows import NodeRow
from tests.builders.snapshots import Cluster, write
from trimtab.planner.facts.nodes import is_ready, unhealthy
from trimtab.planner.model.settings import TaintNames
from trimtab.planner.model.values import TaintSpec
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import snapshot_pb2

NAMES = TaintNames(frozenset({"example.org/not-ready"}), ("checks.example.org/",))


@pytest.mark.parametrize(
    ("key", "ready"),
    [
        ("example.org/not-ready", False),
        ("checks.example.org/disk", False),
        ("startup-taint.cluster-autoscaler.kubernetes.io/cni", False),
        ("ignore-taint.cluster-autoscaler.kubernetes.io/cni", False),
        ("status-taint.cluster-autoscaler.kubernetes.io/full", False),
        ("node.kubernetes.io/not-ready", False),
        ("example.org/not-ready-at-all", True),
        ("team", True),
    ],
)
def test_a_taint_of_start_or_status_makes_a_node_not_ready(key: str, ready: bool) -> None:
    taint = TaintSpec(key, "", snapshot_pb2.TaintEffect.NO_SCHEDULE)
    snapshot = canonicalize(
        write(Cluster(nodes={"n0": NodeRow(taints=(taint,)), "n1": NodeRow(), "n2": NodeRow(ready=False)}))
    )
    assert is_ready(snapshot, NAMES).tolist() == [ready, True, False]


@pytest.mark.parametrize(
    ("unready", "total", "told"),
    [(3, 3, ""), (4, 8, "4 of 8 nodes are unready"), (4, 9, ""), (45, 100, ""), (46, 100, "46 of 100"), (0, 0, "")],
)
def test_more_than_three_and_more_than_their_share_are_too_many(unready: int, total: int, told: str) -> None:
    found = unhealthy(np.arange(total) < unready, 0.45, 3)
    assert found.startswith(told)
    assert bool(found) == bool(told)
