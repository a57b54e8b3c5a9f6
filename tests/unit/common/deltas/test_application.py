"""Deltas applied as messages, compared with the planner's method."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.examples import examples
from tests.builders.random_clusters import changes, clusters
from tests.builders.rows import PodRow
from tests.builders.snapshots import Cluster, write, write_delta
from trimtab.common.deltas import Application
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.planner.snapshot.delta import apply_delta
from trimtab.v1 import snapshot_pb2 as pb


@given(
    clusters()
    .flatmap(lambda one: st.tuples(st.just(one), changes(one)))
    .flatmap(lambda pair: st.tuples(st.just(pair[0]), st.just(pair[1]), changes(pair[1]))),
    st.integers(0, 99),
)
@examples(40, 10)
def test_deltas_lead_where_the_planner_goes(line: tuple[Cluster, Cluster, Cluster], seed: int) -> None:
    base = write(line[0], seed)
    application, snapshot = Application(base), canonicalize(base)
    for before, after in pairwise(line):
        delta = write_delta(before, after, seed + 1)
        application.add(delta)
        snapshot = apply_delta(snapshot, delta)
    assert canonicalize(application.result()).version == snapshot.version


@pytest.mark.parametrize(
    ("field", "key"),
    [
        ("deleted_pods", "default/gone"),
        ("deleted_nodes", "gone"),
        ("deleted_node_groups", "gone"),
        ("deleted_owners", "gone"),
        ("deleted_pod_disruption_budgets", "default/gone"),
        ("deleted_namespaces", "gone"),
    ],
)
def test_a_key_that_is_not_there_cannot_be_deleted(field: str, key: str) -> None:
    application = Application(write(Cluster(pods={("default", "a"): PodRow()})))
    delta = pb.SnapshotDelta()
    getattr(delta, field).append(key)
    with pytest.raises(ValueError, match=f"{field}: there is no '{key}'"):
        application.add(delta)
