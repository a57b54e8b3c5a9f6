"""Objects derived from a snapshot and kept between calls: no answer depends on them, and no call writes to them."""

from operator import attrgetter
from typing import Any

import numpy as np
import pytest

from tests.builders.caches import KeptValues, look, not_there
from tests.builders.rows import NodeRow, PodRow
from tests.builders.snapshots import Cluster, write
from trimtab.clients.cluster_generator import ClusterShape, generate, write_list
from trimtab.common.objects import read_files
from trimtab.planner.decisions.plan import plan
from trimtab.planner.decisions.simulations import SimulationKey
from trimtab.planner.decisions.summary import PodCountsKey
from trimtab.planner.drainability.pod_columns import DrainColumnsKey, MembershipKey, NodeUseKey, RatingsKey
from trimtab.planner.model.values import Owner
from trimtab.planner.placement.hints import PodDigestsKey, PodsByNodeKey
from trimtab.planner.round.round import Work
from trimtab.planner.scale_down.cached_plan import ChangingPodsKey
from trimtab.planner.service.version_cache import CachedSnapshot
from trimtab.planner.simulation.inputs import TemplateRequestsKey
from trimtab.planner.snapshot.columns import FLAG_DAEMON, Snapshot, Text
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.planner.snapshot.sealing import share
from trimtab.planner.snapshot.texts import take_text
from trimtab.v1 import plan_pb2
from trimtab.v1.snapshot_pb2 import ClusterSnapshot, PodPhase

NOW_S = 1_700_000_600
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
"""No two rows are equal."""
SHAPE = ClusterShape(nodes=12, pods=150, spread_share=0.2, anti_affinity_share=0.2, budget_share=0.5, pending_pods=4)
SET: dict[str, int] = {
    "pods.pinned": 1,
    "pods.nominated": 1,
    "pods.created_s": NOW_S - 60,
    "pods.deletion_s": NOW_S - 5,
    "pods.phase": PodPhase.SUCCEEDED,
    "pods.flags": FLAG_DAEMON,
    "pods.deletion_cost": 1 << 27,
    "nodes.unschedulable": True,
    "nodes.ready": False,
    "nodes.own_price": 0.5,
}
"""Columns in which every third row gets a value."""
CHANGING = (
    "specs",
    "owners",
    "budgets",
    "namespaces",
    "label_sets.values",
    *(f"pods.{column}" for column in ("namespace", "name", "uid", "spec", "label_set", "node", "owner")),
    *(f"nodes.{column}" for column in ("label_set", "taint_set", "allocatable", "capacity", "group")),
    *SET,
)
"""Fields that change: those of `SET`, and others in which each row takes the value of the next."""


def ask(threshold: float, daemons: bool, spread_timeout: bool) -> plan_pb2.PlanRequest:
    request = plan_pb2.PlanRequest(decisions=[plan_pb2.Decision.SCALE_DOWN])
    request.now.seconds = NOW_S
    request.settings.scale_down.utilization_threshold = threshold
    request.settings.scale_down.ignore_daemonsets_utilization = daemons
    request.settings.simulation.topology_spread_timeout = spread_timeout
    return request


def moved_up(value: Any) -> Any:
    """Give each row the value of the next."""
    if isinstance(value, Text):
        rows = np.arange(len(value.offsets) - 1)
        return take_text(value, moved_up(rows))
    if isinstance(value, np.ndarray):
        return np.concatenate((value[1:], value[-1:]))
    return value[1:] + value[-1:]


def changed(column: Any, field: str) -> Any:
    """Change a column."""
    if field not in SET:
        return moved_up(column)
    new = column.copy()
    new[::3] = SET[field]
    return new


def with_one_change(snapshot: Snapshot, field: str) -> Snapshot:
    """Return the snapshot after a change of one field, the rest of it shared, as after a delta."""
    table, _, column = field.partition(".")
    old: Any = getattr(snapshot, table)
    new = old._replace(**{column: changed(getattr(old, column), field)}) if column else moved_up(old)
    return share(snapshot, snapshot._replace(version="after", **{table: new}))


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> ClusterSnapshot:
    file = tmp_path_factory.mktemp("generated") / "cluster.json"
    write_list(generate(SHAPE), file)
    return read_files([file]).snapshot


@pytest.mark.parametrize("field", CHANGING)
def test_what_is_kept_after_a_change_of_one_field_is_what_would_be_built(
    generated: ClusterSnapshot, field: str
) -> None:
    request = ask(1.0, daemons=True, spread_timeout=False)
    base = CachedSnapshot(canonicalize(generated))
    state = plan(base.snapshot, request, None, Work(cache=base)).state
    after = with_one_change(base.snapshot, field)
    assert attrgetter(field)(after) is not attrgetter(field)(base.snapshot)
    kept, fresh = CachedSnapshot(after, base), KeptValues()
    afresh = plan(after, request, state, Work(cache=fresh))
    again = plan(after, request, state, Work(cache=kept))
    assert again.SerializeToString(deterministic=True) == afresh.SerializeToString(deterministic=True)
    for key, one in fresh.values.items():
        assert look(kept.get(key, after, not_there)) == look(one), key


def test_a_delta_keeps_what_it_does_not_touch() -> None:
    base = CachedSnapshot(canonicalize(write(SMALL)))
    work = Work(cache=base)
    plan(base.snapshot, ask(1.0, daemons=True, spread_timeout=False), None, work)
    known = set(base.values_of_same(base.snapshot))
    simulation, membership, columns = SimulationKey("", "", -10), MembershipKey(), DrainColumnsKey()
    rating, use, by_node = RatingsKey(), NodeUseKey(), PodsByNodeKey()
    assert {simulation, by_node, PodDigestsKey(), membership, columns, rating, use} <= known
    lost = {field: known - set(base.values_of_same(with_one_change(base.snapshot, field))) for field in CHANGING}
    assert lost["pods.uid"] == {PodDigestsKey()}
    assert lost["pods.deletion_cost"] == {rating}
    assert lost["owners"] == {columns, ChangingPodsKey(), TemplateRequestsKey()}
    assert lost["pods.node"] == {simulation, by_node, use, PodCountsKey()}
    assert lost["nodes.unschedulable"] == {simulation}
    assert membership in lost["pods.flags"]
