"""Pods that are alike exchange destinations: each destination is taken once, and as many pods as possible stay in their
domain."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.examples import examples
from trimtab.planner.scale_down.search.waves import partners

DOMAINS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=30)


@given(DOMAINS)
@examples(200)
def test_each_destination_is_taken_once_and_as_many_pods_as_possible_stay_in_their_domain(
    pods: list[tuple[int, int]],
) -> None:
    here, there = (np.array([one[side] for one in pods], np.int64) for side in range(2))
    found = partners(here, there)
    assert sorted(found.tolist()) == list(range(len(pods)))
    both = Counter(here.tolist()) & Counter(there.tolist())
    assert int((here == there[found]).sum()) == both.total()
