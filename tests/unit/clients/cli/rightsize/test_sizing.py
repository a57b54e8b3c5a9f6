"""Pools by price: the optimum of small problems, limits on pools and nodes, headroom."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.right_sizes import SmallOffer, SmallPod, least_price, sized
from trimtab.clients.cli.planners import PlannerAccess, open_planner

PRICE = st.integers(1, 20).map(lambda tenths: tenths / 10)
OFFERS = st.lists(
    st.builds(SmallOffer, st.integers(1, 8), st.integers(1, 16), st.sampled_from([2, 4, 110]), PRICE),
    min_size=1,
    max_size=4,
)
POD = st.builds(SmallPod, st.integers(1, 30).map(lambda n: n * 100), st.integers(1, 5))


@pytest.fixture(scope="module")
def planner() -> Iterator[PlannerAccess]:
    with open_planner(None) as opened:
        yield opened


def check_optimum(planner: PlannerAccess, offers: list[SmallOffer], pods: list[SmallPod]) -> None:
    left, price = least_price(offers, pods)
    found = sized(planner, offers, pods)
    assert (len(found.unplaced), found.is_verified) == (left, True)
    assert found.price == pytest.approx(price)


@settings(max_examples=20, deadline=None)
@given(offers=OFFERS, pods=st.lists(POD, min_size=1, max_size=7))
def test_pools_of_small_problems_cost_the_least_that_is_possible(
    planner: PlannerAccess, offers: list[SmallOffer], pods: list[SmallPod]
) -> None:
    check_optimum(planner, offers, pods)


@pytest.mark.nightly
@settings(max_examples=60, deadline=None)
@given(offers=OFFERS, pods=st.lists(POD, min_size=8, max_size=12))
def test_pools_of_larger_problems_cost_the_least_that_is_possible(
    planner: PlannerAccess, offers: list[SmallOffer], pods: list[SmallPod]
) -> None:
    check_optimum(planner, offers, pods)
