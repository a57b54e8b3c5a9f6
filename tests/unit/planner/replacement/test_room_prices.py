"""The least cost of room is a bound: no way to place the pods costs less."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.examples import examples
from trimtab.planner.replacement.cluster_bound import RoomProblem, room_prices


def problem(seed: int) -> RoomProblem:
    rng = np.random.default_rng(seed)
    rows, offers, kinds = int(rng.integers(1, 6)), int(rng.integers(1, 5)), int(rng.integers(0, 3))
    return RoomProblem(
        demand=rng.integers(0, 5, (rows, 2)).astype(float),
        pods=rng.integers(1, 9, rows).astype(float),
        price=rng.integers(0, 9, offers).astype(float),
        capacity=rng.integers(4, 17, (offers, 2)).astype(float),
        allowed=rng.random((rows, offers)) < 0.8,
        free=rng.integers(0, 12, (kinds, 2)).astype(float),
        free_allowed=rng.random((rows, kinds)) < 0.7,
    )


@given(st.integers(0, 2**32))
@examples(60)
def test_no_placement_costs_less_than_the_bound(seed: int) -> None:
    """Pods of each row all go to one offer, in fractions of nodes, or nowhere if nothing takes them."""
    made, rng = problem(seed), np.random.default_rng(seed + 1)
    used = np.zeros(made.capacity.shape)
    for row in range(len(made.pods)):
        offers = np.flatnonzero(made.allowed[row])
        if len(offers):
            used[rng.choice(offers)] += made.demand[row] * made.pods[row]
        elif made.free_allowed[row].any():
            return
    price = float((made.price * (used / made.capacity).max(axis=1)).sum())
    assert room_prices(made).bound <= price + 1e-9


def test_one_kind_of_node_that_one_amount_fills_costs_its_share() -> None:
    made = RoomProblem(
        demand=np.array([[1.0, 1.0]]), pods=np.array([8.0]), price=np.array([2.0]), capacity=np.array([[4.0, 100.0]]),
        allowed=np.array([[True]]), free=np.zeros((0, 2)), free_allowed=np.zeros((1, 0), bool),
    )  # fmt: skip
    found = room_prices(made)
    assert found.bound == pytest.approx(4.0, rel=1e-3)
    assert found.value == pytest.approx([0.5], rel=1e-3)
