"""Which pods belong to which budgets: selected label sets and the resulting pairs, compared with naive twins."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference.facts.membership import budgets_by_pod
from trimtab.planner.facts.kernels.membership import write_membership
from trimtab.planner.facts.labels import LabelIndex
from trimtab.planner.model.values import LabelRequirement
from trimtab.planner.snapshot.columns import LabelSets
from trimtab.v1 import snapshot_pb2 as pb

TEXTS = ("a", "app", "b", "c", "zone")
Operator = pb.LabelOperator
LABELS = st.dictionaries(st.sampled_from(["app", "zone"]), st.sampled_from(["a", "b", "c"]))
VALUES = st.lists(st.sampled_from(["a", "b", "c", "nowhere"]), min_size=1, max_size=3).map(tuple)
KEYS = st.sampled_from(["app", "zone", "absent"])
REQUIREMENTS = st.builds(LabelRequirement, KEYS, st.sampled_from([Operator.IN, Operator.NOT_IN]), VALUES) | st.builds(
    LabelRequirement, KEYS, st.sampled_from([Operator.EXISTS, Operator.DOES_NOT_EXIST]), st.just(())
)


def met(requirement: LabelRequirement, labels: dict[str, str]) -> bool:
    value = labels.get(requirement.key)
    return {
        Operator.IN: value in requirement.values,
        Operator.NOT_IN: value not in requirement.values,
        Operator.EXISTS: value is not None,
        Operator.DOES_NOT_EXIST: value is None,
    }[requirement.operator]


def index_of(sets: list[dict[str, str]]) -> LabelIndex:
    rows = [sorted(labels.items()) for labels in sets]
    offsets = np.cumsum([0, *map(len, rows)], dtype=np.int32)
    keys = np.array([TEXTS.index(key) for row in rows for key, _ in row], np.int32)
    values = np.array([TEXTS.index(value) for row in rows for _, value in row], np.int32)
    return LabelIndex(TEXTS, LabelSets(offsets, keys, values))


@given(st.lists(LABELS, max_size=6), st.lists(st.lists(REQUIREMENTS, max_size=3).map(tuple), max_size=4))
def test_a_selector_selects_the_label_sets_that_meet_all_it_requires(
    sets: list[dict[str, str]], selectors: list[tuple[LabelRequirement, ...]]
) -> None:
    sets = [{}, *sets]
    index = index_of(sets)
    for selector in selectors:
        expected = [row for row, labels in enumerate(sets) if all(met(one, labels) for one in selector)]
        assert index.sets_matching(selector).tolist() == expected
        assert np.flatnonzero(index.matching(selector)).tolist() == expected


@pytest.mark.parametrize("selector", [None, (LabelRequirement("app", Operator.GT, ("1",)),)], ids=["none", "of nodes"])
def test_no_selector_and_operators_of_nodes_select_nothing(selector: tuple[LabelRequirement, ...] | None) -> None:
    assert index_of([{}, {"app": "a"}]).sets_matching(selector).tolist() == []


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3)), max_size=12),
    st.lists(st.tuples(st.sampled_from("abd"), st.sets(st.integers(0, 3))), max_size=5),
)
def test_pairs_of_pod_and_budget_are_those_of_the_twin(
    pods: list[tuple[str, int]], budgets: list[tuple[str, set[int]]]
) -> None:
    pods = sorted(pods)
    namespaces = sorted({space for space, _ in budgets})
    selected = {
        space: [(one, row) for row, (of, sets) in reversed(list(enumerate(budgets))) if of == space for one in sets]
        for space in namespaces
    }
    names = [space for space, _ in pods]
    spaces = [(sum(n < space for n in names), sum(n <= space for n in names)) for space in namespaces]
    entries = [pair for space in namespaces for pair in selected[space]]
    bounds = np.cumsum([0, *(len(selected[space]) for space in namespaces)], dtype=np.int64)
    offsets, head = np.zeros(len(pods) + 1, np.int64), np.full(4, -1, np.int32)
    given_columns = (
        np.array([label_set for _, label_set in pods], np.int32),
        np.array(spaces, np.int64).reshape(-1, 2),
        np.array(entries, np.int32).reshape(-1, 2),
        bounds, head, np.zeros(len(entries), np.int32), offsets,
    )  # fmt: skip
    found = np.full(write_membership(*given_columns, np.zeros(0, np.int32)), -1, np.int32)
    if len(found):
        assert write_membership(*given_columns, found) == len(found)
    assert head.tolist() == [-1] * 4
    by_pod = [found[first:last].tolist() for first, last in pairwise(offsets)]
    assert by_pod == budgets_by_pod(pods, selected)
