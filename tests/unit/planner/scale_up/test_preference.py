"""Which of two plans is better."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference.scale_up.preference import PlannedNode, WholePlan, price, unknown
from tests.reference.scale_up.preference import is_better as naive
from trimtab.planner.scale_up.variants import Worth, is_better
from trimtab.v1.plan_pb2 import Expander

BY_NODES, BY_GROUP = (Expander.LEAST_NODES, Expander.RANDOM), (Expander.PRIORITY, Expander.RANDOM)
CHEAPEST, MOST_PODS = (Expander.CHEAPEST_PLAN, Expander.RANDOM), (Expander.MOST_PODS, Expander.RANDOM)
BY_PRICE, BY_WASTE = (Expander.PRICE, Expander.RANDOM), (Expander.LEAST_WASTE, Expander.RANDOM)


def worth(*growth: int, price: float = 0.0, left: tuple[int, ...] = (), **more: Any) -> Worth:
    others = {"unknown": 0, "expanders": MOST_PODS} | more
    return Worth(left, growth=np.array(growth, np.int64), nodes=sum(growth), price_per_hour=price, **others)


@pytest.mark.parametrize(
    ("one", "other", "expanders"),
    [
        pytest.param(worth(2, 2, price=9), worth(1, 0, left=(0,)), BY_GROUP, id="no pod is left"),
        pytest.param(worth(2, 2, left=(0,)), worth(1, 0, left=(0, 0)), BY_NODES, id="fewer pods are left"),
        pytest.param(worth(2, left=(0, 0)), worth(1, left=(5,)), BY_NODES, id="less important pods are left"),
        pytest.param(
            worth(2, price=99),
            worth(1, price=10, left=(5,), expanders=BY_NODES),
            BY_NODES,
            id="more pods are served for more money",
        ),
        pytest.param(
            worth(2, unknown=2),
            worth(1, price=10, left=(5,), expanders=BY_NODES),
            BY_NODES,
            id="more pods are served for what is not known",
        ),
        pytest.param(
            worth(2, price=9, expanders=BY_PRICE),
            worth(1, left=(5,)),
            BY_PRICE,
            id="the price has chosen what serves more",
        ),
        pytest.param(
            worth(2, price=1), worth(1, price=2, left=(5,)), BY_PRICE, id="more pods are served for less money"
        ),
        pytest.param(worth(2, 1), worth(2, 2), BY_GROUP, id="fewer nodes of one group"),
        pytest.param(worth(2, 1, unknown=1), worth(2, 2, unknown=1), BY_NODES, id="fewer nodes of unknown price"),
        pytest.param(worth(0, 3, price=3), worth(4, 0, price=3), BY_NODES, id="fewer nodes for the same money"),
        pytest.param(worth(0, 4, price=3), worth(4, 0, price=4), BY_NODES, id="as many nodes for less money"),
        pytest.param(worth(0, 3, price=5), worth(4, 0, price=4), BY_NODES, id="fewer nodes, and their number decides"),
        pytest.param(
            worth(0, 3, unknown=3), worth(4, 0), BY_NODES, id="fewer nodes of unknown price, and their number decides"
        ),
        pytest.param(worth(0, 5, price=3), worth(4, 0, price=4), CHEAPEST, id="more nodes for less money"),
        pytest.param(worth(4, 0, price=3), worth(0, 5, price=3), CHEAPEST, id="fewer nodes, and price decides"),
        pytest.param(worth(9, 0, price=3), worth(0, 1, unknown=1), CHEAPEST, id="a known price"),
    ],
)
def test_a_plan_is_better(one: Worth, other: Worth, expanders: tuple[int, ...]) -> None:
    assert is_better(one, other, expanders)
    assert not is_better(other, one, expanders)


@pytest.mark.parametrize(
    ("one", "other", "expanders"),
    [
        pytest.param(worth(2, 1), worth(2, 1), BY_NODES, id="equal"),
        pytest.param(
            worth(2, price=9), worth(1, price=1, left=(5,)), BY_PRICE, id="more pods, and the price is to decide"
        ),
        pytest.param(worth(0, 3, price=5), worth(4, 0, price=4), BY_WASTE, id="fewer nodes for more money"),
        pytest.param(
            worth(0, 4, price=3, expanders=(Expander.CHEAPEST_PLAN, *BY_NODES)),
            worth(4, 0, price=4, expanders=BY_NODES),
            BY_NODES,
            id="as many nodes for less money, in groups chosen otherwise than configured",
        ),
        pytest.param(worth(0, 3), worth(4, 0), BY_GROUP, id="other groups, which are not as good"),
        pytest.param(worth(0, 3, unknown=3), worth(4, 0), BY_WASTE, id="the price is not known"),
    ],
)
def test_of_these_neither_is_better(one: Worth, other: Worth, expanders: tuple[int, ...]) -> None:
    assert not is_better(one, other, expanders)
    assert not is_better(other, one, expanders)


PRICES = (1.0, 1.0, 3.0, None)
"""Of the groups; small integers, so sums are exact."""
CHAINS = (BY_NODES, BY_GROUP, CHEAPEST, MOST_PODS, BY_PRICE)
plans = st.builds(
    WholePlan,
    st.lists(
        st.builds(lambda group: PlannedNode(group, PRICES[group]), st.integers(0, 3)),
        max_size=5,
    ),
    st.lists(st.integers(0, 2), max_size=3),
    st.sampled_from(CHAINS),
)


def worth_of(plan: WholePlan) -> Worth:
    return Worth(
        waiting=tuple(sorted(plan.left, reverse=True)),
        growth=np.bincount(np.array([node.group for node in plan.nodes], np.int64), minlength=len(PRICES)),
        nodes=len(plan.nodes),
        price_per_hour=price(plan),
        unknown=unknown(plan),
        expanders=plan.expanders,
    )


@given(plans, plans, st.sampled_from(CHAINS))
def test_plans_compare_as_in_the_naive_reference(one: WholePlan, other: WholePlan, expanders: tuple[int, ...]) -> None:
    assert is_better(worth_of(one), worth_of(other), expanders) == naive(one, other, expanders)


@given(plans, plans, st.sampled_from(CHAINS))
def test_of_two_plans_no_more_than_one_is_better(one: WholePlan, other: WholePlan, expanders: tuple[int, ...]) -> None:
    first, second = worth_of(one), worth_of(other)
    assert not (is_better(first, second, expanders) and is_better(second, first, expanders))
    assert not is_better(first, first, expanders)
