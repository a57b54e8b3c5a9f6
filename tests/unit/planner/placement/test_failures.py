"""Why nodes refuse a pod that has to leave its node: as in the naive twin, and as text for users."""

from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.columns import snapshot
from tests.builders.drain_sets import random_loop
from tests.builders.examples import examples
from tests.builders.kubernetes import labelled, node, node_group, pod, replica_set, spread
from tests.builders.random_rows import rows
from tests.builders.scale_down import plan
from tests.reference.placement.search import refusals
from trimtab.planner.placement.kernels.search import count_failures, discount_failures
from trimtab.planner.simulation.build import build_simulation
from trimtab.planner.simulation.kernels import cordon

REASONS = 32


@given(st.integers(0, 2**40))
@examples(80)
def test_nodes_refuse_a_pod_that_leaves_its_own_as_in_the_twin(seed: int) -> None:
    random, loop = Random(seed), random_loop(2 * seed)
    names, state = list(loop.cluster.nodes), build_simulation(snapshot(*rows(2 * seed))).state
    for closed in random.sample(range(len(names)), random.randrange(len(names))):
        loop.cluster.cordon(names[closed])
        cordon(state, closed)
    pods = [one for one, at in enumerate(loop.cluster.at) if at]
    chosen = np.array(pods, np.int32)
    homes = np.array([names.index(loop.cluster.at[one]) for one in pods], np.int32)
    allowed = np.array([random.random() < 0.8 for _ in names])
    counts = np.zeros((len(pods), REASONS), np.int64)
    before = state.pod_node.copy()
    count_failures(state, chosen, allowed, counts)
    inside = allowed[homes]
    own = np.ascontiguousarray(counts[inside])
    discount_failures(state, chosen[inside], homes[inside], own)
    counts[inside] = own
    assert np.array_equal(state.pod_node, before)
    twins = [refusals(loop, one, allowed.tolist()) for one in pods]
    assert [{r: int(n) for r, n in enumerate(row) if n} for row in counts] == [+reasons for reasons in twins]


def test_a_pod_does_not_count_itself_where_its_zone_would_be_too_full() -> None:
    """Each pod of n0 alone fits n1 in its zone; together they need more room than n1 has."""
    web = replica_set("web", 9)
    even = {"spread": [spread(labelled(app="web"), max_skew=1)], "labels": {"app": "web"}, "owner": web}
    objects = [
        web, node("n0", zone="u"), node("n1", cpu="1", zone="u"), node("n2", cpu="100m", zone="v"),
        pod("a", "800m", node="n0", **even), pod("b", "800m", node="n0", **even), pod("c", "10m", node="n2", **even),
        node_group("g", nodes=["n0"]),
    ]  # fmt: skip
    entry = next(one for one in plan(objects).staying if one.node == "n0")
    assert "not all at the same time" in entry.detail
