"""Some of the inputs of `python -m tests.fuzz`: whatever arrives is read or refused."""

from random import Random

import pytest

from tests.fuzz.targets import TARGETS


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_input_is_read_or_refused(name: str) -> None:
    for number in range(20 if name == "plan" else 300):
        TARGETS[name](Random(f"{name}/{number}"))
