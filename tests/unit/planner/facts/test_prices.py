"""Sums of prices: one order of addition on every machine."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.examples import examples
from tests.builders.rows import NodeRow
from tests.builders.snapshots import Cluster, Group, write
from trimtab.planner.facts.nodes import prices, savings, total
from trimtab.planner.snapshot.decode import canonicalize


def one_after_the_other(numbers: list[float]) -> float:
    found = 0.0
    for one in numbers:
        found += one
    return found


@given(st.lists(st.floats(0, 1e6), max_size=400))
@examples(100)
def test_floats_are_added_one_after_the_other(numbers: list[float]) -> None:
    assert total(np.array(numbers)) == one_after_the_other(numbers)


def test_the_sum_differs_from_one_by_blocks_and_leaves_out_what_is_not_known() -> None:
    numbers = np.random.default_rng(1).random(999)
    assert total(numbers) != numbers.sum()
    assert total(np.array([0.25, np.nan, 0.5])) == 0.75
    assert total(np.zeros(0)) == 0.0


def test_the_price_of_a_node_is_its_own_else_that_of_its_group() -> None:
    nodes = {
        "both": NodeRow(group="dear", price=0.0),
        "group": NodeRow(group="dear"),
        "neither": NodeRow(group="free"),
        "own": NodeRow(price=3.0),
        "unknown": NodeRow(group="missing"),
    }
    groups = {"dear": Group(price=2.0), "free": Group()}
    found = prices(canonicalize(write(Cluster(nodes=nodes, groups=groups))))
    assert found.tolist()[:2] + found.tolist()[3:4] == [0.0, 2.0, 3.0]
    assert np.isnan(found[[2, 4]]).all()


def test_a_node_of_unknown_price_saves_the_mean_price() -> None:
    numbers = np.random.default_rng(1).random(999)
    assert savings(np.append(numbers, np.nan))[-1] == one_after_the_other(numbers.tolist()) / 999
    assert savings(np.array([np.nan, 2.0, 4.0])).tolist() == [3.0, 2.0, 4.0]
    assert savings(np.array([np.nan])).tolist() == [1.0]


@pytest.mark.parametrize("count", [9, 100])
def test_of_equal_prices_the_sum_is_that_of_a_loop(count: int) -> None:
    assert total(np.full(count, 0.1)) == one_after_the_other([0.1] * count)
