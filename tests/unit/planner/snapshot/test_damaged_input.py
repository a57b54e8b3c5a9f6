"""Some of the inputs of `python -m tests.fuzz`: any input is read or refused."""

from random import Random

import pytest

from tests.fuzz.readers import READERS, refused
from tests.fuzz.targets import TARGETS


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_input_is_read_or_refused(name: str) -> None:
    for number in range(10 if name in ("plan", "shape") else 150):
        TARGETS[name](Random(f"{name}/{number}"))


@pytest.mark.parametrize("name", READERS)
def test_what_the_guided_fuzzing_begins_with_is_read_and_anything_else_refused(name: str) -> None:
    reader = READERS[name]
    for seed in reader.seeds():
        assert not refused(reader.read, seed)
    assert refused(reader.read, b"\xff\xff\xff")
