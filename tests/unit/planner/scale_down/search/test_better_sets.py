"""Sets that save more than a plan: the search by branches finds the same as trying every set, the easiest first; too
many are told apart from none."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.examples import examples
from tests.reference.scale_down.search.better_sets import better_sets
from trimtab.planner.scale_down.search.better_sets import MOST_SETS, sets_that_save_more

EIGHTHS = st.integers(0, 8).map(lambda one: one / 8)


@given(st.lists(st.tuples(st.integers(0, 9), EIGHTHS, EIGHTHS, EIGHTHS), max_size=8), st.integers(0, 30))
@examples(200)
def test_branches_find_every_set_that_saves_more_and_that_the_shares_allow(
    candidates: list[tuple[int, float, float, float]], floor: int
) -> None:
    saving = np.array([one[0] for one in candidates], np.float64)
    share = np.array([one[1:] for one in candidates]).reshape(-1, 3).T
    found, branches = sets_that_save_more(saving, share, float(floor))
    assert found is not None
    assert branches > 0
    assert len(found) == len({tuple(one) for one in found.tolist()})
    assert {tuple(one) for one in found.tolist()} == better_sets(saving.tolist(), share.tolist(), float(floor))
    takes = (share @ found.T).max(axis=0)
    assert (np.diff(takes) >= -1e-12).all()


def test_more_sets_than_are_few_are_not_returned() -> None:
    count = int(np.log2(MOST_SETS)) + 1
    found, _ = sets_that_save_more(np.ones(count), np.full((1, count), 1.0 / count), 0.0)
    assert found is None


def test_branches_are_bounded_although_few_sets_save_more() -> None:
    saving, share = np.ones(40), np.full((1, 40), 1.0 / 20.5)
    share[0] += np.linspace(0.0, 1e-3, 40)
    found, _ = sets_that_save_more(saving, share, 19.5)
    assert found is None
