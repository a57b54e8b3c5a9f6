"""What new nodes of a NodePool with `minValues` may hold, compared with the plain way to find it."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trimtab.common.objects.karpenter.min_values import _held_by

OFFERS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(-1, 3)), min_size=1, max_size=12)


def plain(own: list[int], offers: list[tuple[int, int, int]], count: int) -> list[int]:
    def share(offer: tuple[int, int, int]) -> float:
        return min([min(offer[at] / own[at], 1.0) for at in range(2) if own[at]], default=1.0)

    best: dict[int, tuple[int, int, int]] = {}
    for offer in sorted((one for one in offers if one[2] >= 0), key=lambda one: -share(one)):
        best.setdefault(offer[2], offer)
    taken = list(best.values())[:count]
    return [min([own[at], *(one[at] for one in taken)]) for at in range(2)]


@given(offers=OFFERS, count=st.integers(1, 3))
def test_amounts_are_those_that_enough_values_of_the_label_have(offers: list[tuple[int, int, int]], count: int) -> None:
    if len({code for _, _, code in offers if code >= 0}) < count:
        return
    amounts = np.array([one[:2] for one in offers], np.int64)
    held = _held_by(amounts, np.array([one[2] for one in offers], np.int64), count)
    assert held.tolist() == [plain(list(one[:2]), offers, count) for one in offers]
