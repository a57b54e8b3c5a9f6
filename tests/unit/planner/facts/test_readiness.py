"""A node is ready by its condition and by its taints; a cluster is healthy unless too many nodes are not."""

from datetime import UTC, datetime

import numpy as np
import pytest

from tests.builders import kubernetes as k8s
from tests.builders.rows import NodeRow
from tests.builders.snapshots import Cluster, write
from trimtab.planner.facts.readiness import AwaitedResource, awaited_resources, is_ready, starting, unhealthy
from trimtab.planner.model.settings import Readiness, ScaleDownSettings, TaintNames
from trimtab.planner.model.values import TaintSpec
from trimtab.planner.snapshot.columns import Snapshot
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import snapshot_pb2

RULES = Readiness(status=TaintNames(frozenset({"example.org/not-ready"}), ("checks.example.org/",)))
NOW_NS = 10**18


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
    assert is_ready(snapshot, RULES, NOW_NS).tolist() == [ready, True, False]


@pytest.mark.parametrize(
    ("unready", "total", "told"),
    [(3, 3, ""), (4, 8, "4 of 8 nodes are unready"), (4, 9, ""), (45, 100, ""), (46, 100, "46 of 100"), (0, 0, "")],
)
def test_more_than_three_and_more_than_their_share_are_too_many(unready: int, total: int, told: str) -> None:
    snapshot = canonicalize(write(Cluster(nodes={f"n{at}": NodeRow() for at in range(total)})))
    ready, leaving = np.arange(total) >= unready, np.zeros(total, bool)
    found = unhealthy(snapshot, ready, leaving, RULES, ScaleDownSettings(), NOW_NS)
    assert found.startswith(told)
    assert bool(found) == bool(told)


MINUTE_NS = 60 * 10**9
GPU = "nvidia.com/gpu"


def resources(*nodes: tuple[int, int], template: int | None = None, label: bool = False) -> Snapshot:
    """Return a group with nodes given as (age in minutes, number of GPUs). label : they have the label of GPU nodes."""
    objects = [
        k8s.node(
            f"n{at}",
            labels={"pool": "a"} | ({Readiness().gpu_label: "h100"} if label else {}),
            extra={GPU: str(gpus)} if gpus else {},
            created=datetime.fromtimestamp(NOW_NS // 10**9 - 60 * age, UTC).isoformat(),
        )
        for at, (age, gpus) in enumerate(nodes)
    ]
    of_template = {} if template is None else {"template": k8s.node("t", extra={GPU: str(template)})}
    return canonicalize(k8s.snapshot_of([*objects, k8s.node_group("g", selector={"pool": "a"}, **of_template)]))


@pytest.mark.parametrize(
    ("given", "ready"),
    [
        pytest.param(resources((1, 0), template=8), [False], id="the template offers GPUs"),
        pytest.param(resources((1, 4), template=8), [False], id="some are offered"),
        pytest.param(resources((1, 8), template=8), [True], id="all are offered"),
        pytest.param(resources((16, 0), template=8), [True], id="the time for a start is over"),
        pytest.param(resources((1, 0), (99, 8)), [False, True], id="half of the nodes offer GPUs"),
        pytest.param(resources((1, 0), (99, 8), (99, 0), (99, 0)), [True] * 4, id="fewer do"),
        pytest.param(resources((1, 1), (99, 4), (99, 4), (99, 1)), [True] * 4, id="a group of two sizes"),
        pytest.param(resources((1, 0), label=True), [False], id="the label promises a GPU"),
        pytest.param(resources((1, 0)), [True], id="nobody offers GPUs"),
    ],
)
def test_a_young_node_without_what_its_group_offers_is_starting(given: Snapshot, ready: list[bool]) -> None:
    rules = Readiness()
    assert is_ready(given, rules, NOW_NS).tolist() == ready
    assert starting(given, NOW_NS, rules).tolist() == [not one for one in ready]
    assert [one.row for one in awaited_resources(given, rules, NOW_NS)] == [
        at for at, one in enumerate(ready) if not one
    ]


def test_the_time_for_a_start_can_be_set_and_what_is_awaited_is_told() -> None:
    given = resources((1, 4), template=8)
    assert is_ready(given, Readiness(start_ns=MINUTE_NS), NOW_NS).tolist() == [True]
    assert awaited_resources(given, Readiness(), NOW_NS) == [AwaitedResource(0, "n0", GPU, 4, 8)]
