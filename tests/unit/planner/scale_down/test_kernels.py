"""The small kernels answer as their naive twins."""

from itertools import accumulate

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from trimtab.v1 import plan_pb2

from planner.scale_down.kernels.grouping import group_by_node
from planner.scale_down.kernels.hints import digest_texts, match_hints
from planner.scale_down.kernels.wire import Names, write_destinations, write_sorted_uids
from tests.builders.columns import text
from tests.reference.scale_down import grouping, hints, wire

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
    digest_texts(column.data, column.offsets, digests)
    assert digests.tolist() == [hints.digest(uid.encode()) for uid in uids]


@given(st.data())
def test_hints_are_found_again_whatever_pods_came_and_went(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 4))
    remembered = {
        group: data.draw(st.dictionaries(st.integers(-5, 5), st.integers(0, count - 1), max_size=6))
        for group in data.draw(st.lists(st.integers(0, count), unique=True))
    }
    present = [data.draw(st.lists(st.integers(-5, 5), unique=True, max_size=6)) for _ in range(count + 1)]
    digests = [digest for group in present for digest in group]
    ends = [0, *accumulate(len(group) for group in present)]
    members = [list(range(ends[g], ends[g + 1])) for g in range(count + 1)]
    hint = np.full(len(digests), -1, np.int32)
    bounds = [0, *accumulate(len(rows) for rows in remembered.values())]
    found = match_hints(
        np.array(list(remembered), np.int32),
        np.array(bounds, np.int32),
        np.array([pod for rows in remembered.values() for pod in rows], np.int32),
        np.array([node for rows in remembered.values() for node in rows.values()], np.int32),
        np.array(ends, np.int64),
        np.arange(len(digests), dtype=np.int32),
        np.array(digests, np.int32),
        hint,
    )
    expected = hints.match(remembered, members, digests)
    assert {pod: node for pod, node in enumerate(hint.tolist()) if node >= 0} == expected
    assert found == len(expected)


@given(st.data())
def test_destinations_written_by_hand_parse_to_the_same_map(data: st.DataObject) -> None:
    nodes = data.draw(st.lists(NAMES, min_size=1, max_size=3))
    pods = data.draw(st.lists(NAMES, unique=True, max_size=8))
    where = [data.draw(st.integers(0, len(nodes) - 1)) for _ in pods]
    spaces = text(["default", "x" * 63])
    namespace = np.array([data.draw(st.integers(0, 1)) for _ in pods], np.int32)
    pod_text, node_text = text(pods), text(nodes)
    names = Names(
        namespace, spaces.data, spaces.offsets, pod_text.data, pod_text.offsets, node_text.data, node_text.offsets
    )
    cut = data.draw(st.integers(0, len(pods)))
    columns = (np.arange(len(pods), dtype=np.int32), np.array(where, np.int32), np.array([0, cut, len(pods)], np.int64))
    ends = np.zeros(2, np.int64)
    out = np.zeros(write_destinations(names, *columns, np.zeros(0, np.uint8), ends), np.uint8)
    size = write_destinations(names, *columns, out, ends) if len(out) else 0
    assert size == len(out)
    written = out.tobytes()
    keys = [f"{('default', 'x' * 63)[namespace[i]]}/{pod}" for i, pod in enumerate(pods)]
    entries = [(key, nodes[node]) for key, node in zip(keys, where, strict=True)]
    for part, first, last in ((entries[:cut], 0, ends[0]), (entries[cut:], ends[0], ends[1])):
        parsed = plan_pb2.UnneededNode.FromString(written[first:last])
        assert dict(parsed.destinations) == wire.destinations(part)


@given(st.lists(st.lists(st.text(min_size=1, max_size=12), unique=True, max_size=6), max_size=4))
def test_uids_are_sorted_bytewise_within_their_node(groups: list[list[str]]) -> None:
    uids = text([uid for group in groups for uid in group])
    bounds = np.array([0, *accumulate(len(group) for group in groups)], np.int64)
    pods = np.arange(bounds[-1], dtype=np.int32)
    out = np.zeros(len(uids.data) + len(pods), np.uint8)
    ends = np.zeros(len(groups), np.int64)
    write_sorted_uids(uids.data, uids.offsets, pods, bounds, np.zeros(8, np.int32), out, ends)
    written = out.tobytes()
    parts = [written[first:last] for first, last in zip([0, *ends[:-1]], ends, strict=True)] if len(ends) else []
    assert parts == [wire.sorted_uids(group) for group in groups]
