"""Objects derived from a snapshot and kept between calls: no answer depends on them, and no call writes to them."""

from operator import attrgetter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.caches import KeptBytes, KeptValues
from tests.builders.examples import examples
from tests.builders.random_clusters import changes, clusters
from tests.builders.rows import NodeRow, PodRow
from tests.builders.snapshots import Cluster, write, write_delta
from trimtab.clients.cluster_generator import ClusterShape, generate, write_list
from trimtab.common.objects import read_files
from trimtab.planner.decisions.fit import check_fit
from trimtab.planner.decisions.plan import plan, plan_in_parts
from trimtab.planner.decisions.simulations import SimulationKey
from trimtab.planner.drainability.facts import DrainColumnsKey, MembershipKey, NodeUseKey, RatingsKey
from trimtab.planner.model.values import Owner
from trimtab.planner.placement.hints import PodDigestsKey, PodsByNodeKey
from trimtab.planner.round.work import Work
from trimtab.planner.scale_down.cached_plan import ChangingPodsKey
from trimtab.planner.scale_down.decision import SCALE_DOWN
from trimtab.planner.service.version_cache import CachedSnapshot
from trimtab.planner.simulation.build import Simulation
from trimtab.planner.simulation.successors import TemplateRequestsKey
from trimtab.planner.snapshot.caches import SnapshotKey
from trimtab.planner.snapshot.columns import FLAG_DAEMON, Snapshot, Text
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.planner.snapshot.delta import apply_delta
from trimtab.planner.snapshot.sharing import share
from trimtab.planner.snapshot.text_columns import take_text
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


def contents(kept: KeptValues) -> dict[SnapshotKey[Any], Any]:
    return {key: look(one) for key, one in kept.values.items()}


def look(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return (value.dtype.str, value.shape, value.tobytes())
    if isinstance(value, tuple):
        return tuple(look(item) for item in value)
    if isinstance(value, dict) or hasattr(value, "__dict__"):
        return look(tuple((value if isinstance(value, dict) else vars(value)).items()))
    return repr(value)


def ask(threshold: float, daemons: bool, spread_timeout: bool) -> plan_pb2.PlanRequest:
    request = plan_pb2.PlanRequest(decisions=[plan_pb2.Decision.SCALE_DOWN])
    request.now.seconds = NOW_S
    request.settings.scale_down.utilization_threshold = threshold
    request.settings.scale_down.ignore_daemonsets_utilization = daemons
    request.settings.simulation.topology_spread_timeout = spread_timeout
    return request


@given(
    clusters(), st.lists(st.tuples(st.sampled_from([0.5, 1.0]), st.booleans(), st.booleans()), min_size=2, max_size=4)
)
@examples(100, 10)
def test_answers_are_the_same_whether_anything_was_kept_or_not(
    cluster: Cluster, asked: list[tuple[float, bool, bool]]
) -> None:
    snapshot = canonicalize(write(cluster))
    kept, encodings = KeptValues(), KeptBytes()
    state = None
    for one in asked:
        request = ask(*one)
        afresh = plan(snapshot, request, state, Work())
        before = contents(kept)
        again = plan(snapshot, request, state, Work(cache=kept, encodings=encodings))
        assert again.SerializeToString(deterministic=True) == afresh.SerializeToString(deterministic=True)
        parsed = plan_pb2.PlanResponse.FromString(plan_in_parts(snapshot, request, state, Work()).encoded())
        assert parsed == afresh
        figures = afresh.diagnostics.decisions[0]
        assert (figures.result, dict(figures.counts)) == SCALE_DOWN.summarize(parsed.scale_down)
        fits = list(check_fit(snapshot, request, Work(cache=kept)))
        assert fits == list(check_fit(snapshot, request, Work()))
        after = contents(kept)
        assert {key: after[key] for key in before} == before
        state = afresh.state
    assert kept.values


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
        assert look(content(kept.get(key, after, not_there))) == look(content(one)), key


def not_there(snapshot: Snapshot) -> Any:
    """Stand for the computation of a value that is kept."""
    raise LookupError(snapshot.version)


def content(derived: Any) -> Any:
    """Return derived content; of a simulation, the arguments of kernels."""
    return derived.state if isinstance(derived, Simulation) else derived


@given(st.data(), clusters())
@examples(60, 8)
def test_after_a_delta_every_decision_answers_from_kept_values_as_from_new_ones(
    data: st.DataObject, cluster: Cluster
) -> None:
    request = ask(1.0, daemons=False, spread_timeout=False)
    request.decisions[:] = plan_pb2.Decision.Code.values()[1:]
    for strategy in (plan_pb2.PodCostStrategy.ANTI_AFFINITY, plan_pb2.PodCostStrategy.NODE_COST):
        request.settings.pod_costs.targets.add().strategies.add(strategy=strategy)
    kept, state = CachedSnapshot(canonicalize(write(cluster))), None
    for _ in range(3):
        fresh = KeptValues()
        again, afresh = (plan(kept.snapshot, request, state, Work(cache=cache)) for cache in (kept, fresh))
        assert again.SerializeToString(deterministic=True) == afresh.SerializeToString(deterministic=True)
        assert not any(one.failed for one in afresh.diagnostics.decisions)
        for key, one in fresh.values.items():
            assert look(content(kept.get(key, kept.snapshot, not_there))) == look(content(one)), key
        state, following = again.state, data.draw(changes(cluster))
        snapshot = apply_delta(kept.snapshot, write_delta(cluster, following), kept)
        kept, cluster = CachedSnapshot(snapshot, kept), following


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
    assert lost["pods.node"] == {simulation, by_node, use}
    assert lost["nodes.unschedulable"] == {simulation}
    assert membership in lost["pods.flags"]
