"""The small kernels agree with their naive twins."""

import os
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.columns import text
from tests.reference.facts import membership
from tests.reference.placement import hints
from tests.reference.scale_down.order import sorted_uids
from trimtab.planner.facts.kernels.membership import group_by_node
from trimtab.planner.placement.kernels.hints import Remembered, digest_texts, match_hints
from trimtab.planner.scale_down.kernels.order import write_sorted_uids

NAMES = st.text("abcdefghijklmnopqrstuvwxyz-.0123456789", min_size=1, max_size=253)


@given(st.integers(0, 6), st.lists(st.integers(-2, 5)))
def test_pods_are_grouped_by_node_in_their_order(extra: int, wanted: list[int]) -> None:
    count = max([*wanted, 0]) + 1 + extra
    node = np.array(wanted, np.int32)
    offsets, members = np.zeros(count + 2, np.int64), np.empty(len(node), np.int32)
    group_by_node(node, offsets, members)
    found = [members[offsets[g] : offsets[g + 1]].tolist() for g in range(count + 1)]
    assert found == membership.group_by_node(wanted, count)


@given(st.lists(st.text(max_size=60), max_size=20))
def test_digests_of_uids_are_those_of_the_twin(uids: list[str]) -> None:
    column = text(uids)
    digests = np.empty(len(uids), np.int32)
    with np.errstate(over="ignore"):  # it wraps around; without the compiler numpy would warn about it
        digest_texts(column.data, column.offsets, digests)
    assert digests.tolist() == [hints.digest(uid.encode()) for uid in uids]


@given(st.data())
def test_hints_are_found_again_whatever_pods_came_and_went(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 4))
    remembered = {
        group: data.draw(st.lists(st.tuples(st.integers(-5, 5), st.integers(0, count - 1)), max_size=9))
        for group in data.draw(st.lists(st.integers(0, count), unique=True))
    }
    kept = [[digest for digest, _ in remembered.get(group, [])] for group in range(count + 1)]
    news = [data.draw(st.lists(st.integers(-5, 5), max_size=4)) for _ in range(count + 1)]
    present = [one + more if data.draw(st.booleans()) else more + one for one, more in zip(kept, news, strict=True)]
    digests = [digest for group in present for digest in group]
    ends = [0, *accumulate(len(group) for group in present)]
    members = [list(range(ends[g], ends[g + 1])) for g in range(count + 1)]
    hint = np.full(len(digests), -1, np.int32)
    bounds = [0, *accumulate(len(rows) for rows in remembered.values())]
    found = match_hints(
        Remembered(
            np.array(list(remembered), np.int32),
            np.array(bounds, np.int32),
            np.array([pod for rows in remembered.values() for pod, _ in rows], np.int32),
            np.array([node for rows in remembered.values() for _, node in rows], np.int32),
        ),
        np.array(ends, np.int64),
        np.arange(len(digests), dtype=np.int32),
        np.array(digests, np.int32),
        np.empty(bounds[-1], np.int32),
        hint,
    )
    expected = hints.match(remembered, members, digests)
    assert {pod: node for pod, node in enumerate(hint.tolist()) if node >= 0} == expected
    assert found == len(expected)


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="needs the compiler for so many pods")
def test_as_many_pods_as_a_cluster_has_wait_though_none_or_all_of_them_are_remembered() -> None:
    """Comparing all pairs would take about ten minutes."""
    count = 1_000_000
    old, new = np.arange(count, dtype=np.int32), np.arange(count, 2 * count, dtype=np.int32)
    source, bounds = np.zeros(1, np.int32), np.array([0, count], np.int32)
    members, ends = np.arange(count, dtype=np.int32), np.array([0, count], np.int64)
    for digests, found in ((new, 0), (old[::-1].copy(), count), (np.zeros(count, np.int32), count)):
        hint, order = np.full(count, -1, np.int32), np.empty(count, np.int32)
        assert match_hints(Remembered(source, bounds, old, old), ends, members, digests, order, hint) == found
        assert np.array_equal(hint, digests if found else np.full(count, -1))


@given(st.lists(st.lists(st.text(min_size=1, max_size=12), unique=True, max_size=6), max_size=4))
def test_uids_are_sorted_bytewise_within_their_node(groups: list[list[str]]) -> None:
    uids = text([uid for group in groups for uid in group])
    bounds = np.array([0, *accumulate(len(group) for group in groups)], np.int64)
    pods = np.arange(bounds[-1], dtype=np.int32)
    out = np.zeros(len(uids.data) + len(pods), np.uint8)
    ends = np.zeros(len(groups), np.int64)
    write_sorted_uids(uids.data, uids.offsets, pods, bounds, np.zeros((8, 2), np.int64), out, ends)
    written = out.tobytes()
    parts = [written[first:last] for first, last in zip([0, *ends[:-1]], ends, strict=True)] if len(ends) else []
    assert parts == [sorted_uids(group) for group in groups]
