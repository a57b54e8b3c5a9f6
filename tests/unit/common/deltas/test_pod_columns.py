"""Columns of a reader that has read other tables, against those of one that has read nothing."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trimtab.common.deltas.pod_columns import InternedDictionaries, PodTableColumns, PodTableReader
from trimtab.v1 import snapshot_pb2 as pb

REFERENCES = ("namespace", "spec", "label_set", "node", "owner", "pinned_node", "pod_group", "nominated_node")
PLAIN = {"created": "<i8", "deletion": "<i8", "phase": "u1", "flags": "u1", "deletion_cost": "<i4"}
PODS = 3
INDICES = st.lists(st.integers(-1, 2), min_size=PODS, max_size=PODS)
FIELDS = st.one_of(
    st.tuples(st.sampled_from(REFERENCES), INDICES.map(lambda found: np.array(found, "<i4").tobytes())),
    st.tuples(
        st.sampled_from(sorted(PLAIN)),
        st.lists(st.integers(0, 1), max_size=PODS).map(bytes),
    ),
    st.tuples(st.sampled_from(("names", "uids")), st.sampled_from((b"aabbcc", b"aabbcd", b"aabbc"))),
    st.tuples(
        st.sampled_from(("name_lengths", "uid_lengths")),
        st.sampled_from(([2, 2, 2], [1, 3, 2], [2, 2, 1], [-1, 5, 2])).map(lambda one: np.array(one, "<i4").tobytes()),
    ),
    st.tuples(
        st.sampled_from(("volume_pod", "volume", "number_pod", "number_key")),
        st.lists(st.integers(0, 1), max_size=2).map(lambda found: np.array(found, "<i4").tobytes()),
    ),
    st.tuples(st.just("number"), st.lists(st.floats(), max_size=2).map(lambda found: np.array(found).tobytes())),
    st.tuples(st.just("count"), st.sampled_from((PODS, PODS - 1))),
)
GROWN = st.tuples(*[st.permutations(range(4)).map(lambda found: found[:3])] * 4)
"""The numbers of a message's dictionaries: new ones, or as many more of the same."""


def first_table() -> pb.PodTable:
    table = pb.PodTable(count=PODS, names=b"aabbcc", uids=b"aabbcc", phase=bytes(PODS))
    for field in ("namespace", "spec", "node"):
        setattr(table, field, np.arange(PODS, dtype="<i4").tobytes())
    table.name_lengths = table.uid_lengths = np.full(PODS, 2, "<i4").tobytes()
    return table


def content(pods: PodTableColumns) -> list[Any]:
    texts = [one for text in (pods.names, pods.uids) for one in (text.data, text.lengths, text.offsets)]
    arrays = [pods.namespace, *pods.columns, pods.mounts, pods.number_places, pods.number_bits, *texts]
    found = [(one.dtype, one.tolist()) if isinstance(one, np.ndarray) else one for one in arrays]
    return [*found, dict(pods.received)]


def read(reader: PodTableReader, table: pb.PodTable, dictionaries: InternedDictionaries) -> Any:
    try:
        return content(reader.read(table, dictionaries))
    except (ValueError, IndexError) as error:
        return str(error)


@given(st.lists(st.tuples(st.lists(FIELDS, max_size=2), st.none() | st.integers(0, 1) | GROWN), max_size=6))
def test_columns_do_not_depend_on_what_was_read_before(line: list[tuple[list[tuple[str, Any]], Any]]) -> None:
    reader, table = PodTableReader(), first_table()
    dictionaries = InternedDictionaries(*(np.arange(3, dtype=np.int32) for _ in range(4)))
    read(reader, table, dictionaries)
    for fields, numbers in line:
        for field, value in fields:
            setattr(table, field, value)
        if isinstance(numbers, tuple):
            dictionaries = InternedDictionaries(*(np.array(one, np.int32) for one in numbers))
        elif numbers:
            dictionaries = InternedDictionaries(*(np.append(one, np.int32(len(one))) for one in dictionaries))
        assert read(reader, table, dictionaries) == read(PodTableReader(), table, dictionaries)


def test_a_column_of_equal_bytes_is_the_same_object() -> None:
    reader, table = PodTableReader(), first_table()
    dictionaries = InternedDictionaries(*(np.arange(3, dtype=np.int32) for _ in range(4)))
    before = reader.read(table, dictionaries)
    table.uids = b"aabbcd"
    after = reader.read(table, InternedDictionaries(*(np.append(one, np.int32(9)) for one in dictionaries)))
    assert after.names is before.names
    assert after.uids.offsets is before.uids.offsets
    assert after.uids.data != before.uids.data
    assert all(one is other for one, other in zip(before.columns, after.columns, strict=True))
