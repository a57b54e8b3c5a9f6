"""Rows of pods that differ little are joined, and pods and requests stay the same in sum."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.examples import examples
from tests.unit.planner.cheapest.pending_problems import random_problem
from trimtab.planner.cheapest.portfolio import mean_demand, similar_rows, with_similar_rows_joined

ROW = st.tuples(st.integers(0, 500), st.integers(0, 500), st.integers(0, 1), st.booleans())


@given(st.lists(ROW, min_size=1, max_size=40), st.integers(1, 20))
@examples(100)
def test_only_rows_of_one_kind_that_may_be_joined_are(rows: list[tuple[int, int, int, bool]], most: int) -> None:
    one, two, kind, alone = (np.array(column) for column in zip(*rows, strict=True))
    joined = similar_rows(np.stack([one, two], 1), kind, alone, most)
    assert sorted(set(joined.tolist())) == list(range(int(joined.max()) + 1))
    for at in range(len(rows)):
        others = [other for other in range(len(rows)) if joined[other] == joined[at] and other != at]
        assert all(kind[other] == kind[at] and not alone[at] and not alone[other] for other in others)
        assert all((one[other] > 0) == (one[at] > 0) and (two[other] > 0) == (two[at] > 0) for other in others)
        assert all(one[other] <= 2.1 * max(one[at], 2) and two[other] <= 2.1 * max(two[at], 2) for other in others)
    if len(rows) <= most:
        assert joined.tolist() == list(range(len(rows)))


def test_joined_rows_request_in_sum_what_their_rows_do() -> None:
    demand, pods = np.array([[10, 100], [11, 100], [400, 3]]), np.array([1, 3, 2])
    assert mean_demand(demand, pods, np.array([0, 0, 1])).tolist() == [[11, 100], [400, 3]]
    assert mean_demand(demand.astype(float), pods, np.array([0, 0, 1])).tolist() == [[10.75, 100.0], [400.0, 3.0]]


def test_a_problem_with_joined_rows_has_as_many_pods_and_at_least_their_requests() -> None:
    given_problem = random_problem(3, groups=10, pods=2_000)
    fewer, row_of = with_similar_rows_joined(given_problem, 12)
    assert len(fewer.pods) < len(given_problem.pods) == len(row_of)
    assert int(fewer.pods.sum()) == int(given_problem.pods.sum())
    before = (given_problem.demand * given_problem.pods[:, None]).sum(axis=0)
    assert ((fewer.demand * fewer.pods[:, None]).sum(axis=0) >= before).all()
    assert (fewer.allowed[row_of] == given_problem.allowed).all()
