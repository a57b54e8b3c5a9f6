"""The kernels for texts, compared with their naive twin."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.reference.snapshot import text as naive
from trimtab.planner.snapshot.columns import Text
from trimtab.planner.snapshot.kernels import text as kernels

TEXTS = st.lists(st.sampled_from([b"", b"a", b"aa", b"ab", b"b", b"\xff", b"a" * 300]), max_size=12)
KEYS = st.lists(st.tuples(st.integers(-1, 2), st.sampled_from([b"", b"a", b"aa", b"ab", b"\xff"])), max_size=12)


def text_of(texts: list[bytes]) -> Text:
    offsets = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    return Text(np.frombuffer(b"".join(texts), np.uint8).copy(), offsets)


def keys_of(keys: list[naive.Key]) -> kernels.Keys:
    text = text_of([name for _, name in keys])
    return kernels.Keys(np.array([rank for rank, _ in keys], np.int32), text.data, text.offsets)


@given(KEYS)
def test_the_first_row_out_of_order_is_found(keys: list[naive.Key]) -> None:
    assert kernels.first_not_ascending(keys_of(keys)) == naive.first_not_ascending(keys)


@given(KEYS)
def test_rows_are_sorted_by_key_and_equal_ones_keep_their_order(keys: list[naive.Key]) -> None:
    order, scratch = np.empty(len(keys), np.int64), np.empty(len(keys), np.int64)
    assert kernels.sort(keys_of(keys), order, scratch) == len(keys)
    assert order.tolist() == naive.sort(keys)


@given(KEYS, KEYS)
def test_wanted_keys_are_located_among_sorted_ones(keys: list[naive.Key], wanted: list[naive.Key]) -> None:
    ascending = sorted(set(keys))
    position, found = np.empty(len(wanted), np.int64), np.empty(len(wanted), np.bool_)
    count = kernels.locate(keys_of(ascending), keys_of(wanted), position, found)
    assert list(zip(position.tolist(), found.tolist(), strict=True)) == naive.locate(ascending, wanted)
    assert count == found.sum()


@given(TEXTS, TEXTS, st.data())
def test_texts_are_gathered_from_two_sources(first: list[bytes], second: list[bytes], data: st.DataObject) -> None:
    rows = st.integers(0, max(0, len(first) + len(second) - 1))
    source = data.draw(st.lists(rows, max_size=20 if first or second else 0))
    expected = naive.gather(first, second, source)
    out = text_of(expected)
    out.data[:] = 0
    kernels.gather(text_of(first), text_of(second), np.array(source, np.int64), out)
    assert out.data.tobytes() == b"".join(expected)
