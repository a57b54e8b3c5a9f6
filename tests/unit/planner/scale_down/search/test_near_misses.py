"""Sets to begin with, and those that differ from one by a node: all keep to the linear bound and save more."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.examples import examples
from trimtab.planner.scale_down.search.near_misses import Candidates, differing_by_a_node, filled, noise

SETS = st.integers(0, 2**32 - 1)


def some(seed: int) -> tuple[Candidates, np.random.Generator]:
    """Return up to nine candidates, of which some are alike."""
    random = np.random.default_rng(seed)
    count, kinds = int(random.integers(1, 10)), random.integers(1, 4, (4, 3)) / 8
    of = random.integers(0, 4, count)
    return Candidates(kinds[of, 0], kinds[of, 1:].T.copy(), random.integers(0, 5, count)), random


@given(SETS, st.integers(0, 5))
@examples(300)
def test_a_set_to_begin_with_saves_more_and_would_not_without_any_of_its_last_node(seed: int, number: int) -> None:
    candidates, random = some(seed)
    floor = float(random.choice(candidates.saving)) * int(random.integers(0, 4))
    chosen = filled(candidates, floor, number)
    if chosen is None:
        return
    assert (candidates.share[:, chosen].sum(axis=1) <= 1 + 1e-6).all()
    assert candidates.saving[chosen].sum() > floor
    assert candidates.saving[chosen].sum() - candidates.saving[chosen].max() <= floor + 1e-6


def test_of_candidates_that_are_alike_those_with_most_pods_begin() -> None:
    alike = Candidates(np.ones(6), np.full((2, 6), 0.3), np.array([0, 9, 0, 9, 0, 9]))
    found = [filled(alike, 2.5, number) for number in range(20)]
    with_pods = [int(one[1::2].sum()) for one in found if one is not None]
    assert len(with_pods) == 20
    assert min(with_pods) >= 2
    assert with_pods.count(3) > 10
    assert filled(alike, 3.5, 0) is None


@given(SETS, st.integers(0, 5))
@examples(300)
def test_exactly_the_sets_that_differ_by_a_node_that_comes_back_and_save_more_are_tried(seed: int, number: int) -> None:
    candidates, random = some(seed)
    count = len(candidates.saving)
    chosen = random.random(count) < 0.5
    floor = float(candidates.saving[chosen].sum()) - int(random.integers(-1, 4)) / 8
    found = [tuple(one.tolist()) for one in differing_by_a_node(candidates, chosen, floor, number)]
    expected = set()
    for back in np.flatnonzero(chosen).tolist():
        for go in [-1, *np.flatnonzero(~chosen).tolist()]:
            other = chosen.copy()
            other[back] = False
            if go >= 0:
                other[go] = True
            # Shares of a set that takes too much already may only become less where it does.
            if candidates.saving[other].sum() > floor + 1e-6 and (go < 0 or candidates.fits(other)):
                expected.add(tuple(other.tolist()))
    assert len(found) == len(set(found))
    assert set(found) == expected


def test_nodes_with_many_pods_go_for_nodes_with_few_before_others() -> None:
    alike = Candidates(np.ones(4), np.full((1, 4), 0.4), np.array([0, 9, 0, 9]))
    chosen = np.array([True, False, False, True])
    first = [next(differing_by_a_node(alike, chosen, 1.5, number)).tolist() for number in range(5)]
    assert first == [[False, True, False, True]] * 5


def test_arbitrary_orders_depend_on_their_number_only() -> None:
    assert noise(20, 3).tolist() == noise(20, 3).tolist()
    assert noise(20, 3).tolist() != noise(20, 4).tolist()
    assert sorted(noise(20, 3).tolist()) == [number / 20 for number in range(20)]
