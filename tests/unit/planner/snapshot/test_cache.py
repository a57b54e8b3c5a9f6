"""The cache keeps the most recently used objects within its memory limit."""

import tracemalloc
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.planner.service.warm_up import small_cluster
from trimtab.planner.snapshot.caches import LeastRecentlyUsed, Sizes, size_of
from trimtab.planner.snapshot.decode import canonicalize


def filled(*sizes: int, limit: int) -> LeastRecentlyUsed[str]:
    cache: LeastRecentlyUsed[str] = LeastRecentlyUsed(limit)
    for key, size in enumerate(sizes):
        cache.put(key, f"value {key}", size)
    return cache


def test_what_was_not_used_for_longest_goes_first() -> None:
    cache = filled(4, 4, limit=10)
    assert cache.get(0) == "value 0"
    cache.put(2, "value 2", 4)
    assert [cache.get(key) for key in (0, 1, 2)] == ["value 0", None, "value 2"]
    assert cache.size == 8


def test_several_go_where_one_needs_the_room() -> None:
    cache = filled(3, 3, 3, limit=10)
    cache.put(3, "large", 9)
    assert [cache.get(key) for key in range(4)] == [None, None, None, "large"]


def test_a_value_larger_than_the_whole_cache_is_not_kept_and_replaces_the_old_one() -> None:
    cache = filled(4, 4, limit=10)
    cache.put(1, "too large", 11)
    assert [cache.get(key) for key in (0, 1)] == ["value 0", None]
    assert cache.size == 4


def test_a_value_put_again_counts_once() -> None:
    cache = filled(4, limit=10)
    cache.put(0, "new", 6)
    assert (cache.get(0), cache.size, len(cache)) == ("new", 6, 1)


def test_without_memory_nothing_is_kept() -> None:
    assert filled(1, 1, limit=0).get(0) is None


def test_arrays_and_texts_count_with_their_bytes() -> None:
    assert size_of(np.zeros(1000, np.int64)) == 8000
    assert size_of("x" * 10_000_000) > 10_000_000
    snapshot = canonicalize(small_cluster())
    assert size_of(snapshot) > sum(array.nbytes for array in snapshot.pods if isinstance(array, np.ndarray))


def test_what_is_held_twice_counts_once() -> None:
    array, names = np.zeros(10_000, np.int64), tuple(f"name-{i}" for i in range(10_000))
    assert size_of((array, array)) < 1.1 * size_of((array,))
    assert size_of((array[:10], array, array.view(np.uint8), array.reshape(100, 100))) < 1.1 * size_of((array,))
    assert size_of((names, {"again": names})) < 1.1 * size_of((names,))


def test_a_part_of_an_array_keeps_all_of_it() -> None:
    assert size_of(np.zeros(10_000, np.int64)[:10]) == 80_000
    assert size_of(np.frombuffer(b"x" * 10_000, np.uint8)) == 10_000


def test_what_is_made_only_to_be_counted_is_not_taken_for_something_else() -> None:
    """Python reuses the address of a deleted object for the next one."""
    tables = tuple({f"{table} {i}": f"{table} value {i}" for i in range(100)} for table in range(50))
    assert size_of(tables) > 40 * size_of(tables[:1])


class Holder:
    """An object that is not a tuple."""

    def __init__(self) -> None:
        self.found = {("a", i): np.zeros(1000, np.bool_) for i in range(100)}


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: tuple(f"{i:>1000}" for i in range(1000)), id="many long texts"),
        pytest.param(lambda: tuple(f"{i:>1000}" for i in range(10)), id="few long texts"),
        pytest.param(lambda: tuple(f"name-{i}" for i in range(50_000)), id="names"),
        pytest.param(lambda: {f"name-{i}": i + 1000 for i in range(20_000)}, id="names by number"),
        pytest.param(lambda: tuple(((f"key-{i}", "v"), (f"other-{i}", "w")) for i in range(10_000)), id="labels"),
        pytest.param(Holder, id="arrays by key within an object"),
    ],
)
def test_what_is_kept_counts_as_what_it_takes_within_a_factor(make: Callable[[], object]) -> None:
    tracemalloc.start()
    try:
        kept = make()
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert taken / 2 < size_of(kept) < taken * 5


class Pair(NamedTuple):
    """Two things."""

    first: object
    second: object


ARRAY, ROWS = np.zeros(1000, np.int64), tuple(f"name-{i}" for i in range(100))
POOL: list[object] = [
    ARRAY, ARRAY[:5], ROWS, "text", b"bytes", 7, None, (), [ARRAY, ROWS], {"rows": ROWS}, Holder(),
    tuple(np.zeros(i, np.int8) for i in range(70)),
]  # fmt: skip
for _one in tuple(POOL):
    POOL += [Pair(_one, ROWS), (_one, Pair(ARRAY, _one))]
POOL += [Pair(one, {"again": one}) for one in POOL[-4:]]


@given(st.lists(st.lists(st.sampled_from(POOL), max_size=6), min_size=1, max_size=4), st.booleans())
def test_what_was_measured_before_has_the_same_size(rounds: list[list[object]], are_handed_on: bool) -> None:
    sizes = Sizes()
    for values in rounds:
        sizes = Sizes(sizes) if are_handed_on else sizes
        assert sizes.size_of(*values) == size_of(*values)
