"""Orders of packing: the Cluster Autoscaler's first, equal pods together, and the best result is kept."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.examples import examples
from tests.builders.fitting import node
from tests.builders.growing import GrowingCluster, growing_cluster, random_growing_cluster
from tests.builders.rows import NodeRow, PodRow
from trimtab.planner.model.values import HostPort, PodRequirements
from trimtab.planner.placement.group_bounds import fresh_amounts
from trimtab.planner.placement.packing import GrowingGroups, PodsToPack, pack, pack_best, packer
from trimtab.planner.placement.waiting import boundness, by_class, orders

SEEDS = st.integers(0, 2**48)


def waiting(*requests: dict[str, int], spare_nodes: int = 9) -> GrowingCluster:
    pods = [PodRow(f"p{at}", PodRequirements(requests=tuple(sorted(one.items())))) for at, one in enumerate(requests)]
    template = NodeRow("t", {}, {"cpu": 10, "memory": 100, "x/gpu": 4, "pods": 9})
    return growing_cluster([node("n1", allocatable={})], pods, [(template, [], 0)], spare_nodes)


def found(made: GrowingCluster) -> list[list[int]]:
    pods, rows, free, *_ = asked(made)
    tries = orders(made.simulation, pods, rows, free, boundness(made.simulation.state))
    return [pods.in_order(one).tolist() for one in tries]


def asked(made: GrowingCluster, least_nodes: int = 0) -> PodsToPack:
    """Return all pending pods, to be packed onto the first group, the only one that takes them."""
    pods = by_class(made.simulation, np.array(made.pending, np.int32))
    takers = np.ones(len(made.simulation.state.local_class), np.int64)
    return PodsToPack(
        pods, np.arange(len(pods.classes)), fresh_amounts(made.simulation, made.growth)[0], takers, least_nodes
    )


def test_the_sum_of_the_shares_of_cpu_and_memory_comes_first_then_the_largest_share_of_any_resource() -> None:
    made = waiting({"cpu": 4, "memory": 40}, {"cpu": 7}, {"cpu": 1, "x/gpu": 4}, {"cpu": 4, "memory": 40})
    assert found(made) == [[0, 3, 1, 2], [2, 1, 0, 3]]


def test_equal_orders_are_tried_once() -> None:
    assert found(waiting({"cpu": 1}, {"cpu": 1}, {"cpu": 2})) == [[2, 0, 1]]


def test_pods_that_keep_apart_come_first_in_one_order() -> None:
    plain, port = (
        PodRequirements(requests=(("cpu", 4),)),
        PodRequirements(requests=(("cpu", 1),), host_ports=(HostPort("TCP", "", 80),)),
    )
    pods = [PodRow(f"p{at}", one) for at, one in enumerate((plain, port, plain))]
    made = growing_cluster([node("n1", allocatable={})], pods, [(NodeRow("t", {}, {"cpu": 10, "pods": 9}), [], 0)], 9)
    assert found(made) == [[0, 2, 1], [1, 0, 2]]


@given(SEEDS)
@examples(100)
def test_orders_keep_all_pods_and_those_of_a_class_together_in_their_order(seed: int) -> None:
    made = random_growing_cluster(seed)
    of = made.simulation.state.pod_class
    for order in found(made):
        assert sorted(order) == made.pending
        runs = [order[0]] + [b for a, b in pairwise(order) if of[a] != of[b]] if order else []
        assert len({int(of[pod]) for pod in runs}) == len(runs)
        assert all(a < b for a, b in pairwise(order) if of[a] == of[b])


@given(SEEDS)
@examples(100)
def test_the_best_packing_is_never_worse_than_first_fit_decreasing(seed: int) -> None:
    made = random_growing_cluster(seed)
    within, groups = packer(made.simulation, made.growth), GrowingGroups([0], [0], [9])
    best = pack_best(within, groups, asked(made), 9)
    rated = [(-one.placed, one.nodes) for one in (pack(within, groups, np.array(o, np.int32), 9) for o in found(made))]
    assert (-best.placed, best.nodes) == min(rated) <= rated[0]


def test_another_order_wins_where_it_needs_fewer_nodes() -> None:
    made = waiting(
        {"cpu": 2, "memory": 40}, {"cpu": 6, "memory": 10}, {"cpu": 1, "memory": 70}, {"cpu": 5, "memory": 10},
        {"cpu": 3, "memory": 50},
    )  # fmt: skip

    within = packer(made.simulation, made.growth)
    counts = [pack(within, GrowingGroups([0], [0], [9]), np.array(one, np.int32), 9).nodes for one in found(made)]
    assert counts == [3, 2]
    assert pack_best(within, GrowingGroups([0], [0], [9]), asked(made), 9).nodes == 2
    assert pack_best(within, GrowingGroups([0], [0], [9]), asked(made, least_nodes=3), 9).nodes == 3
