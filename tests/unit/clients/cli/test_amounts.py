"""Amounts and times as people read them."""

import pytest

from trimtab.clients.cli import amounts


@pytest.mark.parametrize(
    ("resource", "value", "text"),
    [
        pytest.param("cpu", 250, "0.25 cores", id="milli-cores"),
        pytest.param("cpu", 1000, "1 core", id="one core"),
        pytest.param("cpu", 3500, "3.5 cores", id="three cores and a half"),
        pytest.param("cpu", 1_234_567, "1,234.6 cores", id="many cores"),
        pytest.param("cpu", 12_345_678_000, "12,345,678 cores", id="very many cores"),
        pytest.param("memory", 512, "512 B", id="bytes"),
        pytest.param("memory", 1536 << 20, "1.5 GiB", id="gibibytes"),
        pytest.param("memory", 5 << 50, "5120.0 TiB", id="beyond the largest unit"),
        pytest.param("nvidia.com/gpu", 4, "4", id="a count"),
    ],
)
def test_amounts_carry_their_unit(resource: str, value: int, text: str) -> None:
    assert amounts.amount(resource, value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59.6, "1 min"), (90, "1 min 30 s"), (3600, "1 h"), (90_061, "1 d 1 h"), (0.2, "0 s")],
)
def test_durations_are_shown_in_their_two_largest_units(seconds: float, text: str) -> None:
    assert amounts.duration(seconds) == text


def test_long_lists_are_cut_and_say_so() -> None:
    assert amounts.some(["a", "b", "c"]) == "a, b, c"
    assert amounts.some(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"


def test_plurals_are_right() -> None:
    assert [amounts.counted(*one) for one in ((1, "node"), (2, "node"), (0, "class"))] == [
        "1 node",
        "2 nodes",
        "0 classes",
    ]
