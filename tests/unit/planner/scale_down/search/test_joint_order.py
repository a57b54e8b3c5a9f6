"""The scheduler can place a plan's pods in some order after all of them are evicted at the same time."""

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.columns import snapshot
from tests.builders.drain_sets import problem_of, random_loop
from tests.builders.examples import examples
from tests.builders.kubernetes import Json, labelled, node, node_group, pod, pod_affinity, replica_set
from tests.builders.random_rows import rows
from tests.builders.scale_down import plan
from tests.reference.scale_down.search.waves import without_order
from trimtab.planner.scale_down.search.kernels.drain_sets import TAKEN
from trimtab.planner.scale_down.search.kernels.waves import mark_without_order
from trimtab.planner.simulation.build import build_simulation
from trimtab.planner.simulation.kernels import cordon, place, remove

ZONE = "topology.kubernetes.io/zone"


def marked_by_both(seed: int) -> tuple[dict[int, int], int]:
    """Return the marks of kernel and twin in a random plan, valid or not, and the number of nodes that it removes."""
    loop = random_loop(2 * seed)
    random, names = Random(seed), list(loop.cluster.nodes)
    simulation = build_simulation(snapshot(*rows(2 * seed)))
    state, problem = simulation.state, problem_of(loop, len(simulation.state.local_class))
    loop.accepted = random.sample(range(len(names)), random.randrange(len(names)))
    staying = [node for node in range(len(names)) if node not in loop.accepted]
    problem.accepted[: len(loop.accepted)] = loop.accepted
    problem.counts[TAKEN] = len(loop.accepted)
    for going in loop.accepted:
        loop.cluster.cordon(names[going])
        cordon(state, going)
        for moved in loop.moving[going]:
            loop.destination[moved] = problem.destination[moved] = random.choice(staying)
            loop.cluster.place(moved, names[loop.destination[moved]])
            remove(state, moved)
            place(state, moved, loop.destination[moved])
    unbound_pods = [p for p in range(len(loop.cluster.pods)) if p not in loop.destination and random.random() < 0.2]
    already = [going for going in loop.accepted if random.random() < 0.1]
    unplaceable = np.zeros(len(names), bool)
    unplaceable[already] = True
    at = state.pod_node.copy()
    number = mark_without_order(state, problem, np.array(unbound_pods, np.int32), unplaceable)
    assert np.array_equal(state.pod_node, at), "the simulation is left as it was"
    found = without_order(loop, unbound_pods, already)
    assert number == len(found)
    assert set(np.flatnonzero(unplaceable).tolist()) == {*found, *already}
    assert {going: int(problem.blocking_pod[going]) for going in found} == found
    return found, len(loop.accepted)


@given(st.integers(0, 2**40))
@examples(100)
def test_the_same_nodes_stay_for_want_of_an_order_as_in_the_twin(seed: int) -> None:
    marked_by_both(seed)


@pytest.mark.ci
def test_random_plans_lack_an_order_now_and_then() -> None:
    found = [marked_by_both(seed) for seed in range(300)]
    assert sum(bool(marked) for marked, _ in found) > 3
    assert sum(not marked and accepted > 1 for marked, accepted in found) > 30


def together(big: str) -> list[Json]:
    """Return pods of one workload with affinity to it in their zone; zone b has room next to the big pod only if that
    is small.
    """
    web = replica_set("web", 3)
    near = pod_affinity(labelled(app="web"), topology_key=ZONE)
    where = {"web-0": "a1", "web-1": "b1", "web-2": "b2"}
    return [
        *(node(name, zone=name[0]) for name in ("a1", "a2", "b1", "b2")), node_group("g", nodes=["a1", "b1"], target=2),
        web, pod("big", big, node="b2"),
        *(pod(name, "500m", node=at, owner=web, labels={"app": "web"}, affinity=near) for name, at in where.items()),
    ]  # fmt: skip


def test_of_two_pods_that_fit_only_beside_each_other_one_stays() -> None:
    found = plan(*together("3400m"))
    assert found.unneeded == ["a1"]
    assert found.reasons["b1"] == "DESTINATION_OF_MOVED_PODS"


def test_pods_that_have_one_of_theirs_where_they_go_all_move() -> None:
    assert plan(*together("1")).unneeded == ["a1", "b1"]
