"""Objects derived from a snapshot and kept between calls: a delta takes away those alone that read what it touches.
`test_same_answers.py` proves that no answer depends on them.
"""

from dataclasses import replace
from typing import Any

from tests.builders.rows import NodeRow, PodRow
from tests.builders.snapshots import Cluster, write
from trimtab.planner.decisions.plan import plan
from trimtab.planner.decisions.simulations import SimulationKey
from trimtab.planner.decisions.summary import PodCountsKey
from trimtab.planner.drainability.pod_columns import DrainColumnsKey, MembershipKey, NodeUseKey, RatingsKey
from trimtab.planner.model.values import Owner
from trimtab.planner.placement.hints import PodDigestsKey, PodsByNodeKey
from trimtab.planner.round.round import Work
from trimtab.planner.service.session import CachedSnapshot
from trimtab.planner.simulation.inputs import TemplateRequestsKey
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.planner.snapshot.sealing import share
from trimtab.v1 import plan_pb2

SMALL = Cluster(
    nodes={"a": NodeRow(), "b": NodeRow(unschedulable=True)},
    pods={
        ("default", "one"): PodRow(uid="1", owner="x", node="a", flags=1, deletion_cost=1),
        ("default", "two"): PodRow(uid="2", owner="y", node="b", flags=0, deletion_cost=2),
    },
    owners={
        "x": Owner("x", "ReplicaSet", "x", "default", 1, 1, "apps/v1"),
        "y": Owner("y", "Job", "y", "default", 2, 2, "batch/v1"),
    },
)


def with_pods(**fields: Any) -> Cluster:
    """Return the cluster with other values of its first pod."""
    (key, row), *others = SMALL.pods.items()
    return replace(SMALL, pods=dict([(key, row._replace(**fields)), *others]))


def test_a_delta_keeps_what_it_does_not_touch() -> None:
    base = CachedSnapshot(canonicalize(write(SMALL)))
    request = plan_pb2.PlanRequest(decisions=[plan_pb2.Decision.SCALE_DOWN])
    request.now.seconds = 1_700_000_600
    request.settings.scale_down.ignore_daemonsets_utilization = True
    plan(base.snapshot, request, None, Work(cache=base))
    known = set(base.values_of_same(base.snapshot))
    simulation, membership, columns = SimulationKey("", "", -10), MembershipKey(), DrainColumnsKey()
    rating, use, by_node = RatingsKey(), NodeUseKey(), PodsByNodeKey()
    assert {simulation, by_node, PodDigestsKey(), membership, columns, rating, use} <= known

    def lost(after: Cluster) -> set[Any]:
        return known - set(base.values_of_same(share(base.snapshot, canonicalize(write(after)))))

    owners = {**SMALL.owners, "x": SMALL.owners["x"]._replace(kind="Job")}
    assert lost(with_pods(uid="3")) == {PodDigestsKey()}
    assert lost(with_pods(deletion_cost=3)) == {rating}
    assert lost(replace(SMALL, owners=owners)) == {columns, TemplateRequestsKey()}
    assert lost(with_pods(node="b")) == {simulation, by_node, use, PodCountsKey()}
    assert lost(replace(SMALL, nodes=SMALL.nodes | {"a": NodeRow(unschedulable=True)})) == {simulation}
    assert membership in lost(with_pods(flags=4))
