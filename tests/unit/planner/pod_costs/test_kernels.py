"""The kernels of pod costs agree with their naive twins."""

from itertools import accumulate, pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.columns import text
from tests.reference.pod_costs import groups as naive
from tests.reference.pod_costs import terms
from trimtab.planner.pod_costs.kernels.groups import (
    Claims,
    Compared,
    count_in_turn,
    find_claims,
    find_differing,
    sort_groups,
)
from trimtab.planner.pod_costs.kernels.terms import CountedPods, Tally, Terms, add_terms

GROUPS = st.lists(st.lists(st.integers(-3, 3) | st.integers(-(2**62), 2**62), min_size=1, max_size=60), max_size=5)
LARGE = st.tuples(st.integers(65, 300), st.integers(1, 10**6)).map(lambda of: [i * of[1] % 97 for i in range(of[0])])
"""A group that is sorted in several runs, with equal keys in it."""


def bounds_of(groups: list[list[int]]) -> np.ndarray:
    return np.array([0, *accumulate(map(len, groups))], np.int64)


@given(GROUPS, st.lists(LARGE, max_size=2))
def test_places_are_sorted_within_groups_and_counted_by_domain(groups: list[list[int]], large: list[list[int]]) -> None:
    groups = groups + large
    bounds, keys = bounds_of(groups), np.array([key for keys in groups for key in keys], np.int64)
    order = np.empty(len(keys), np.int64)
    sort_groups(keys, bounds, order, np.empty(len(keys), np.int64))
    found = [(order[a:b] - a).tolist() for a, b in pairwise(bounds)]
    assert found == naive.sort_groups(groups)
    domain = (np.arange(len(keys), dtype=np.int32) * 7 % 4) - 1
    rank, counts = np.empty(len(keys)), np.zeros(3, np.int64)
    count_in_turn(order, domain.astype(np.int32), bounds, counts, rank)
    domains = [domain[a:b].tolist() for a, b in pairwise(bounds)]
    wanted = naive.count_in_turn(found, domains)
    assert rank.tolist() == [one for ranks in wanted for one in ranks]
    assert not counts.any()


@given(st.data())
def test_pods_that_a_second_controller_claims_are_found(data: st.DataObject) -> None:
    owners, sets = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 3))
    namespace = data.draw(st.lists(st.integers(-1, 1), min_size=owners, max_size=owners))
    claimed = {one: data.draw(st.lists(st.integers(0, owners - 1), unique=True)) for one in range(sets)}
    pods = data.draw(
        st.lists(st.tuples(st.integers(0, owners - 1), st.integers(0, sets - 1), st.integers(0, 1)), max_size=8)
    )
    offsets = np.array([0, *accumulate(len(claimed[one]) for one in range(sets))], np.int64)
    listed = [owner for one in range(sets) for owner in claimed[one]]
    columns = [np.array([pod[i] for pod in pods], np.int32) for i in range(3)]
    rival = np.empty(len(pods), np.int32)
    found = Claims(offsets, np.array(listed, np.int32), np.array(namespace, np.int32))
    find_claims(found, np.arange(len(pods)), *columns, rival)
    assert rival.tolist() == naive.find_claims(pods, claimed, namespace)


TEXTS = st.sampled_from(["a", "b", "ab", "ba", "long-name-of-a-pod-0", "long-name-of-a-pod-1"])
FEW = st.integers(0, 1)
GROUP = st.lists(st.builds(naive.ComparedPod, FEW, TEXTS, FEW, FEW, FEW, st.tuples(FEW)), min_size=1, max_size=4)


def columns_of(groups: list[list[naive.ComparedPod]], rows: list[int]) -> Compared:
    """Return groups whose pods have the given rows, in order."""
    bounds = np.array([0, *accumulate(map(len, groups))], np.int64)
    pods = [pod for group in groups for pod in group]
    by_row = [pod for _, pod in sorted(zip(rows, pods, strict=True), key=lambda pair: pair[0])]
    names = text([pod.name for pod in by_row])
    return Compared(
        bounds=bounds,
        pods=np.array(rows, np.int64),
        namespace=np.array([pod.namespace for pod in by_row], np.int32),
        node=np.array([pod.node for pod in by_row], np.int32),
        spec=np.array([pod.spec for pod in by_row], np.int32),
        created_s=np.array([pod.created_s for pod in by_row], np.int64),
        names=names.data,
        name_offsets=names.offsets,
        values=np.array([[pod.values[0] for pod in pods]], np.int64),
    )


@given(st.data(), st.lists(GROUP, min_size=1, max_size=4))
def test_groups_that_differ_from_what_they_were_are_found(
    data: st.DataObject, before: list[list[naive.ComparedPod]]
) -> None:
    place = data.draw(st.lists(st.integers(-1, len(before) - 1), min_size=1, max_size=5))
    # Mostly the same group as before, else that group with other pods, or another one.
    now = [data.draw(st.just(before[at]) | st.permutations(before[at]) | GROUP) for at in place]
    rows = [list(range(sum(map(len, groups)))) for groups in (now, before)]
    if data.draw(st.booleans()):
        rows = [data.draw(st.permutations(one)) for one in rows]
    differs = np.zeros(len(place), np.bool_)
    places = np.array(place, np.int64)
    find_differing(columns_of(now, rows[0]), columns_of(before, rows[1]), places, 0, differs)
    assert differs.tolist() == naive.differing(now, before, place)
    # Everything unchanged, in the same table.
    same, where = columns_of(before, rows[1]), list(range(len(before)))
    differs = np.ones(len(before), np.bool_)
    find_differing(same, same, np.array(where, np.int64), 1, differs)
    assert differs.tolist() == naive.differing(before, before, where)


NUMBERS = st.frozensets(st.integers(0, 2), max_size=3)
TERMS = st.lists(
    st.builds(terms.Term, st.sampled_from([1, 7, 100]), FEW, st.none() | NUMBERS, NUMBERS, NUMBERS), max_size=4
)
WHERE = st.tuples(st.integers(-1, 1), st.integers(-1, 1))
PLACED = st.lists(
    st.builds(terms.CodedPod, st.integers(0, 2), st.integers(0, 2), st.integers(0, 2), WHERE, st.integers(-1, 3)),
    max_size=9,
)


def by_number(numbers: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Return rows by number, 0 to 2, and their offsets."""
    offsets = np.array([0, *accumulate(numbers.count(one) for one in range(3))], np.int64)
    return offsets, np.array(sorted(range(len(numbers)), key=numbers.__getitem__), np.int32)


def terms_of(found: list[terms.Term]) -> Terms:
    """Return the same terms as columns."""
    spaces = [one.spaces for one in found if one.spaces is not None]
    row = iter(range(len(spaces)))
    return Terms(
        weight=np.array([one.weight for one in found], np.int64),
        key=np.array([one.key for one in found], np.int64),
        scope=np.array([-1 if one.spaces is None else next(row) for one in found], np.int64),
        spaces=np.array([[space in one for space in range(3)] for one in spaces], np.bool_).reshape(-1, 3),
        spec_offsets=np.array([0, *accumulate(len(one.specs) for one in found)], np.int64),
        specs=np.array([spec for one in found for spec in sorted(one.specs)], np.int32),
        set_offsets=np.array([0, *accumulate(len(one.sets) for one in found)], np.int64),
        sets=np.array([number for one in found for number in sorted(one.sets)], np.int32),
    )


@given(TERMS, PLACED)
def test_terms_are_counted_as_by_comparing_all_pairs_of_pods(
    found: list[terms.Term], pods: list[terms.CodedPod]
) -> None:
    pods = sorted(pods, key=lambda pod: pod.namespace)
    count = len(pods)
    tally = Tally(
        rank=np.zeros(count, np.int64),
        group=np.array([pod.group for pod in pods], np.int64),
        above=np.arange(4),
        having=np.zeros(2, np.int64),
        matched=np.zeros(2, np.int64),
        has=np.zeros(count, np.int64),
        met=np.zeros(count, np.int64),
        turn=np.zeros(1, np.int64),
        pods_having=np.zeros(count, np.int32),
        pods_matched=np.zeros(count, np.int32),
    )
    placed = CountedPods(
        *by_number([pod.spec for pod in pods]),
        *by_number([pod.labels for pod in pods]),
        # A node for each pod.
        node=np.arange(count, dtype=np.int32),
        namespace=np.array([pod.namespace for pod in pods], np.int32),
        domains=np.array([[pod.domains[key] for pod in pods] for key in (0, 1)], np.int32),
    )
    half = len(found) // 2
    add_terms(terms_of(found), placed, tally, 0, half)
    add_terms(terms_of(found), placed, tally, half, len(found))
    assert tally.rank.tolist() == terms.ranks(pods, found)
    above = tally.above
    for _ in range(4):
        above = above[above]
    assert above.tolist() == terms.linked(pods, found, 4)
    assert not tally.having.any()
    assert not tally.matched.any()
