"""A followed status: entries stay sorted, and a change costs as much as it changes."""

from hypothesis import given
from hypothesis import strategies as st

from trimtab.clients.followed_status import EntriesByTime, Instant, Key

Entry = tuple[int, str]
ENTRIES = st.lists(st.tuples(st.integers(0, 9), st.sampled_from("abc")), max_size=8)


class CountedKey:
    """A key that counts how often it is taken."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, entry: Entry) -> Key:
        self.count += 1
        return Instant(entry[0], 0), entry[1], ""


@given(ENTRIES, st.lists(st.tuples(ENTRIES, st.integers(0, 9)), max_size=5))
def test_after_each_change_the_entries_are_those_since_a_time_in_order(
    first: list[Entry], changes: list[tuple[list[Entry], int]]
) -> None:
    kept, expected = EntriesByTime(CountedKey()), sorted(first)
    kept.replace(expected)
    for added, since in changes:
        kept.change(added, Instant(since, 0))
        expected = sorted(one for one in (*expected, *added) if one[0] >= since)
        assert kept.entries == expected


def test_a_change_looks_at_no_entry_that_stays() -> None:
    key = CountedKey()
    kept = EntriesByTime(key)
    kept.replace([(at, "a") for at in range(100_000)])
    key.count = 0
    for at in range(50):
        kept.change([(100_000 + at, "b"), (99_990, "c")], Instant(at, 0))
    assert key.count == 100
    assert len(kept.entries) == 100_000 + 2 * 50 - 49
