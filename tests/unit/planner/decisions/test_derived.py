"""Objects derived from a snapshot and kept between calls: no answer depends on them, and no call writes to them."""

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.examples import examples
from tests.builders.random_clusters import clusters
from tests.builders.snapshots import Cluster, Node, Pod, write
from trimtab.clients.cluster_generator import ClusterShape, generate, write_list
from trimtab.clients.snapshots.objects import read_files
from trimtab.planner.decisions.fit import check_fit
from trimtab.planner.decisions.plan import plan, plan_in_parts
from trimtab.planner.model.values import Owner
from trimtab.planner.round.work import Work
from trimtab.planner.scale_down.decision import SCALE_DOWN
from trimtab.planner.service.version_cache import CachedSnapshot, LatestObjects
from trimtab.planner.simulation.build import Simulation
from trimtab.planner.snapshot.columns import FLAG_DAEMON, Snapshot, Text
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.planner.snapshot.pods import take_text
from trimtab.planner.snapshot.sharing import share
from trimtab.v1 import plan_pb2
from trimtab.v1.snapshot_pb2 import ClusterSnapshot, PodPhase

NOW_S = 1_700_000_600
SMALL = Cluster(
    nodes={"a": Node(), "b": Node(unschedulable=True)},
    pods={
        ("default", "one"): Pod(uid="1", owner="x", node="a", flags=1, deletion_cost=1),
        ("default", "two"): Pod(uid="2", owner="y", node="b", flags=0, deletion_cost=2),
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


class DerivedObjects:
    """Keeps derived objects, and returns their content."""

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {}

    def derive(self, name: str, build: Callable[[], Any], of: tuple[str, ...] = ()) -> Any:
        if name not in self.objects:
            self.objects[name] = build()
        return self.objects[name]

    def look(self) -> dict[str, Any]:
        return {name: look(one) for name, one in self.objects.items()}


def look(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return (value.dtype.str, value.shape, value.tobytes())
    if isinstance(value, tuple):
        return tuple(look(item) for item in value)
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
    kept = DerivedObjects()
    state = None
    for one in asked:
        request = ask(*one)
        afresh = plan(snapshot, request, state, Work())
        before = kept.look()
        again = plan(snapshot, request, state, Work(derive=kept.derive, reuse=kept.derive))
        assert again.SerializeToString(deterministic=True) == afresh.SerializeToString(deterministic=True)
        parsed = plan_pb2.PlanResponse.FromString(plan_in_parts(snapshot, request, state, Work()).encoded())
        assert parsed == afresh
        figures = afresh.diagnostics.decisions[0]
        assert (figures.result, dict(figures.counts)) == SCALE_DOWN.summarize(parsed.scale_down)
        fits = list(check_fit(snapshot, request, Work(derive=kept.derive)))
        assert fits == list(check_fit(snapshot, request, Work()))
        after = kept.look()
        assert {name: after[name] for name in before} == before
        state = afresh.state
    assert kept.objects


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
    state = plan(base.snapshot, request, None, Work(derive=base.derive, latest=base.latest)).state
    after = with_one_change(base.snapshot, field)
    assert attrgetter(field)(after) is not attrgetter(field)(base.snapshot)
    kept, fresh = CachedSnapshot(after, base), DerivedObjects()
    afresh = plan(after, request, state, Work(derive=fresh.derive, latest=LatestObjects()))
    again = plan(after, request, state, Work(derive=kept.derive, latest=kept.latest))
    assert again.SerializeToString(deterministic=True) == afresh.SerializeToString(deterministic=True)
    for name, one in fresh.objects.items():
        assert look(content(kept.derive(name, list))) == look(content(one)), name


def content(derived: Any) -> Any:
    """Return derived content; of a simulation, the arguments of kernels."""
    return derived.state if isinstance(derived, Simulation) else derived


def test_a_delta_keeps_what_it_does_not_touch() -> None:
    base = CachedSnapshot(canonicalize(write(SMALL)))
    work = Work(derive=base.derive, latest=base.latest)
    plan(base.snapshot, ask(1.0, daemons=True, spread_timeout=False), None, work)
    known = set(base.derived_of_same(base.snapshot))
    facts = {"budgets of pods", "what rules see of pods", "ratings of evictions", "requests on nodes"}
    assert {"simulation ", "pods by node", "digests of pods", *facts} <= known
    lost = {field: known - set(base.derived_of_same(with_one_change(base.snapshot, field))) for field in CHANGING}
    assert lost["pods.uid"] == {"digests of pods"}
    assert lost["pods.deletion_cost"] == {"ratings of evictions"}
    assert lost["owners"] == {"what rules see of pods", "pods that time makes a difference to"}
    assert lost["pods.node"] == {"simulation ", "pods by node", "requests on nodes"}
    assert lost["nodes.unschedulable"] == {"simulation "}
    assert "budgets of pods" in lost["pods.flags"]
