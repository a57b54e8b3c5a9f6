"""Kernels that move eight bytes at a time agree with their naive twins."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.reference.snapshot import words
from trimtab.planner.snapshot.kernels.words import read_word, write_text, write_word


def column(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8).copy()


@given(st.binary(min_size=8, max_size=20), st.integers(0, 12), st.integers(0, 2**64 - 1))
def test_words_are_read_and_written_lowest_byte_first(data: bytes, first: int, word: int) -> None:
    first = min(first, len(data) - 8)
    assert read_word(column(data), np.uint64(first)) == words.read(data, first)
    out = column(data)
    write_word(out, np.uint64(first), np.uint64(word))
    assert out.tobytes() == words.written(data, first, word)


@given(st.binary(max_size=40), st.integers(0, 40), st.integers(0, 40), st.integers(0, 20), st.integers(0, 12))
def test_a_text_is_copied_near_every_end(data: bytes, first: int, size: int, at: int, room: int) -> None:
    first = min(first, len(data))
    text = data[first : first + size]
    out = column(bytes(range(100, 100 + at + len(text) + room)))
    before = out.tobytes()
    end = write_text(out, at, column(data), first, first + len(text))
    assert end == at + len(text)
    assert out.tobytes()[:end] == words.copied(before, at, text)
    # What is behind the text may be overwritten, up to seven bytes.
    assert out.tobytes()[end + 7 :] == before[end + 7 :]
