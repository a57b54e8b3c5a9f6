"""The loops of the cheapest plan do what their naive twins do, bit by bit."""

from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.scale_up.cheapest.kernels.build import Batches, build
from planner.scale_up.cheapest.kernels.fill import Bench, Rest, Shapes, fill_node
from planner.scale_up.cheapest.problem import Problem
from planner.scale_up.cheapest.work import batches_for, bench_for, shapes_of
from tests.builders.small_problems import small_problem
from tests.reference.scale_up.cheapest.build import Batch, built
from tests.reference.scale_up.cheapest.fill import Market, filled


def twins(seed: int) -> tuple[Problem, Shapes, Rest, Bench, Market, list[float]]:
    """A small problem for kernel and twin, and what pods are worth."""
    asked, random = small_problem(seed), Random(seed)
    shapes = shapes_of(asked, asked.price)
    rest = Rest(asked.pods.copy(), asked.most.copy(), asked.zone_most.copy())
    market = Market(
        asked.demand.tolist(), asked.capacity.tolist(), asked.allowed.tolist(), asked.per_node.tolist(),
        asked.zone.tolist(), asked.price.tolist(), asked.pods.tolist(), asked.most.tolist(), asked.zone_most.tolist(),
    )  # fmt: skip
    value = [random.choice([0.0, 1.0, random.random()]) for _ in asked.pods]
    return asked, shapes, rest, bench_for(asked), market, value


def batches_in(made: Batches) -> list[Batch]:
    rows = []
    for at in range(int(made.counts[0])):
        entries = slice(made.offsets[at], made.offsets[at + 1])
        fill = dict(zip(made.classes[entries].tolist(), made.pods[entries].tolist(), strict=True))
        rows.append((int(made.group[at]), int(made.nodes[at]), fill))
    return rows


@given(st.integers(0, 2**40), st.integers(1, 4))
@settings(max_examples=200, deadline=None)
def test_a_node_is_filled_as_by_the_twin(seed: int, ways: int) -> None:
    asked, shapes, rest, bench, market, value = twins(seed)
    for group in range(len(asked.capacity)):
        worth = fill_node(shapes, rest, np.array(value), bench, group, ways)
        expected, fill = filled(market, value, group, ways)
        assert worth == expected
        assert {at: int(pods) for at, pods in enumerate(bench.best) if pods} == fill


@given(st.integers(0, 2**40), st.integers(1, 4))
@settings(max_examples=200, deadline=None)
def test_nodes_are_planned_as_by_the_twin(seed: int, ways: int) -> None:
    asked, shapes, rest, bench, market, value = twins(seed)
    groups = Random(seed).sample(range(len(asked.capacity)), len(asked.capacity))
    made = batches_for(asked)
    build(shapes, rest, np.array(value), bench, np.array(groups, np.int32), np.zeros(len(groups)), ways, made)
    assert batches_in(made) == built(market, value, groups, ways)
    assert (rest.pods.tolist(), rest.nodes.tolist()) == (market.pods, market.nodes)
    assert rest.zone_pods.tolist() == market.zone_pods
