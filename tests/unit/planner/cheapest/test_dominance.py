"""Offers that no plan needs."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.examples import examples
from trimtab.planner.cheapest.portfolio import alike, undominated

OFFER = st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3), st.integers(0, 1), st.booleans())


@given(st.lists(OFFER, min_size=1, max_size=12))
@examples(50)
def test_an_offer_is_left_out_exactly_if_one_that_stays_is_as_good(
    offers: list[tuple[int, int, int, int, bool]],
) -> None:
    price, one, two, kind, wins = (np.array(column) for column in zip(*offers, strict=True))
    stays = set(undominated(price.astype(float), np.stack([one, two], 1), kind, wins).tolist())

    def serves(other: int, at: int) -> bool:
        same = kind[other] == kind[at] and wins[other] and other != at
        return bool(same and price[other] <= price[at] and one[other] >= one[at] and two[other] >= two[at])

    for at in range(len(offers)):
        if at not in stays:
            assert any(serves(other, at) for other in stays)
    assert not any(
        serves(other, at) and (price[other], one[other], two[other]) != (price[at], one[at], two[at])
        for at in stays
        for other in stays
    )


def test_rows_are_alike_if_all_their_columns_are() -> None:
    rows = np.array([[True, False], [False, False], [True, False]])
    assert alike(rows)[0] == alike(rows)[2] != alike(rows)[1]
    assert alike(np.zeros((2, 0), bool)).tolist() == [0, 0]
