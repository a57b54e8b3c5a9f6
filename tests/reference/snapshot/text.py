"""Naive twin of `trimtab.planner.snapshot.kernels.text`: keys are pairs of (namespace rank, bytes)."""

from collections.abc import Sequence

Key = tuple[int, bytes]


def first_not_ascending(keys: Sequence[Key]) -> int:
    """Return the first key that is not greater than the one before, or -1."""
    return next((i for i in range(1, len(keys)) if keys[i] <= keys[i - 1]), -1)


def sort(keys: Sequence[Key]) -> list[int]:
    """Return the rows by ascending key; the order of equal ones is kept."""
    return sorted(range(len(keys)), key=lambda row: keys[row])


def locate(keys: Sequence[Key], wanted: Sequence[Key]) -> list[tuple[int, bool]]:
    """Return, for each wanted key, the first row that is not smaller, and whether it is equal."""
    return [(sum(key < one for key in keys), one in keys) for one in wanted]


def gather(first: Sequence[bytes], second: Sequence[bytes], source: Sequence[int]) -> list[bytes]:
    """Return the texts of the rows; rows of `second` are counted after those of `first`."""
    both = [*first, *second]
    return [both[row] for row in source]
