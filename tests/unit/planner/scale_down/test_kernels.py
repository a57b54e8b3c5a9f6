"""The small kernels agree with their naive twins."""

import os
from itertools import accumulate
from math import inf, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trimtab.planner.scale_down.report.kernels.wire import (
    Names,
    StayingRows,
    UnneededRows,
    write_sorted_uids,
    write_staying,
    write_unneeded,
)

from tests.builders.columns import text
from tests.reference.facts import grouping
from tests.reference.placement import hints
from tests.reference.scale_down.report import wire
from trimtab.planner.facts.kernels.grouping import group_by_node
from trimtab.planner.placement.kernels.hints import Remembered, digest_texts, match_hints
from trimtab.planner.snapshot.texts import joined
from trimtab.v1 import plan_pb2

NAMES = st.text("abcdefghijklmnopqrstuvwxyz-.0123456789", min_size=1, max_size=253)


@given(st.integers(0, 6), st.lists(st.integers(-2, 5)))
def test_pods_are_grouped_by_node_in_their_order(extra: int, wanted: list[int]) -> None:
    count = max([*wanted, 0]) + 1 + extra
    node = np.array(wanted, np.int32)
    offsets, members = np.zeros(count + 2, np.int64), np.empty(len(node), np.int32)
    group_by_node(node, offsets, members)
    found = [members[offsets[g] : offsets[g + 1]].tolist() for g in range(count + 1)]
    assert found == grouping.group_by_node(wanted, count)


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


TEXTS = st.one_of(st.just(""), NAMES, st.text(max_size=200))
FAILED = st.dictionaries(NAMES, st.integers(0, 5000), max_size=3)


@given(st.data())
def test_nodes_written_by_hand_parse_to_the_same_message(data: st.DataObject) -> None:
    nodes = data.draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))
    pods = data.draw(st.lists(NAMES, unique=True, max_size=8))
    where = [data.draw(st.integers(0, len(nodes) - 1)) for _ in pods]
    spaces, pod_text, node_text = text(["default", "x" * 63]), text(pods), text(nodes)
    namespace = [data.draw(st.integers(0, 1)) for _ in pods]
    names = Names(
        np.array(namespace, np.int32), spaces.data, spaces.offsets,
        pod_text.data, pod_text.offsets, node_text.data, node_text.offsets,
    )  # fmt: skip
    cuts = sorted(data.draw(st.integers(0, len(pods))) for _ in nodes[1:])
    bounds = [0, *cuts, len(pods)]
    count = len(nodes)
    doubles = [[data.draw(st.floats(0, 1e9)) for _ in nodes] for _ in range(3)]
    doubles[1] = [data.draw(st.floats(0, 1e9) | st.just(nan)) for _ in nodes]
    seconds, nanos = ([data.draw(st.integers(0, most)) for _ in nodes] for most in (2**40, 10**9 - 1))
    reasons = [data.draw(st.integers(0, 20)) for _ in nodes]
    waves = [data.draw(st.integers(0, 2**31 - 1)) for _ in nodes]
    digests = [f"{data.draw(st.integers(0, 2**64 - 1)):016x}" for _ in nodes]
    details, gangs = ([data.draw(TEXTS) for _ in nodes] for _ in range(2))
    rows = UnneededRows(
        np.arange(count, dtype=np.int32), np.array(seconds, np.int64), np.array(nanos, np.int64),
        np.array(reasons, np.uint8), *(np.array(column).view(np.uint8) for column in doubles),
        np.array(waves, np.int64), np.frombuffer("".join(digests).encode(), np.uint8).copy(),
        np.arange(len(pods), dtype=np.int32), np.array(where, np.int32), np.array(bounds, np.int64),
        *joined(details), *joined(gangs),
    )  # fmt: skip
    sizes = np.zeros(count, np.int64)
    out = np.zeros(write_unneeded(names, rows, sizes, np.zeros(0, np.uint8)), np.uint8)
    assert write_unneeded(names, rows, sizes, out) == len(out)
    keys = [f"{('default', 'x' * 63)[namespace[i]]}/{pod}" for i, pod in enumerate(pods)]
    entries = [(key, nodes[node]) for key, node in zip(keys, where, strict=True)]
    expected = plan_pb2.ScaleDownDecision(
        unneeded=[
            wire.unneeded_node(
                nodes[i], (seconds[i], nanos[i]), reasons[i], tuple(column[i] for column in doubles),
                (digests[i], details[i], gangs[i]), entries[bounds[i] : bounds[i + 1]], waves[i],
            )
            for i in range(count)
        ]
    )  # fmt: skip
    assert plan_pb2.ScaleDownDecision.FromString(out.tobytes()) == expected


@given(
    st.lists(
        st.tuples(
            NAMES,
            st.integers(0, 20),
            st.integers(0, 20),
            TEXTS,
            TEXTS,
            st.none() | st.floats(0, 1e9) | st.just(inf),
            FAILED,
        ),
        unique_by=lambda row: row[0],
        max_size=5,
    )
)
def test_staying_nodes_written_by_hand_parse_to_the_same_message(rows: list[wire.Stay]) -> None:
    nodes, nothing = text([row[0] for row in rows]), text([])
    maps = [plan_pb2.UnremovableNode(predicate_failure_counts=row[6]).SerializeToString() for row in rows]
    ends = np.array([0, *accumulate(map(len, maps))], np.int64)
    names = Names(np.zeros(0, np.int32), *nothing, *nothing, *nodes)
    columns = StayingRows(
        np.arange(len(rows), dtype=np.int32), np.array([row[1] for row in rows], np.uint8),
        np.array([row[2] for row in rows], np.uint8), np.array([row[5] for row in rows], np.float64).view(np.uint8),
        *joined([row[3] for row in rows]), *joined([row[4] for row in rows]),
        np.frombuffer(b"".join(maps), np.uint8).copy(), ends,
    )  # fmt: skip
    sizes = np.zeros(len(rows), np.int64)
    out = np.zeros(write_staying(names, columns, sizes, np.zeros(0, np.uint8)), np.uint8)
    assert write_staying(names, columns, sizes, out) == len(out)
    expected = plan_pb2.ScaleDownDecision(unremovable=[wire.unremovable_node(row) for row in rows])
    assert plan_pb2.ScaleDownDecision.FromString(out.tobytes()) == expected


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
    assert parts == [wire.sorted_uids(group) for group in groups]
