"""Columns of a returned state: the names that its strings refer to."""

import pytest

from trimtab.planner.placement.hints import numbers_of

NAMES = [f"node-{number:03}" for number in range(200)]


@pytest.mark.parametrize("count", [1, 3, 150, 200], ids=str)
def test_strings_stand_for_the_names_that_they_are_however_few_there_are(count: int) -> None:
    strings = ["", *NAMES[-count:][::-1], "node-0000", "zone"]
    expected = [-1, *range(199, 199 - count, -1), -1, -1]
    assert numbers_of(strings, NAMES).tolist() == expected


def test_no_string_stands_for_nothing() -> None:
    assert numbers_of([], NAMES).tolist() == [-1]
    assert numbers_of(["a"], []).tolist() == [-1]
