"""`--now` as users write it."""

import time

import pytest

from trimtab.clients.cli.documents import read_now
from trimtab.clients.cli.failures import UsageError


@pytest.mark.parametrize(
    ("text", "seconds", "nanos"),
    [
        pytest.param("2026-01-31T12:00:00Z", 1_769_860_800, 0, id="RFC 3339"),
        pytest.param("2026-01-31T13:00:00.25+01:00", 1_769_860_800, 250_000_000, id="with zone and fraction"),
        pytest.param("1769860800", 1_769_860_800, 0, id="Unix seconds"),
        pytest.param(" 1769860800.000000001 ", 1_769_860_800, 1, id="Unix seconds to the nanosecond"),
        pytest.param("0", 0, 0, id="the beginning"),
    ],
)
def test_moments_are_read_exactly(text: str, seconds: int, nanos: int) -> None:
    moment = read_now(text)
    assert (moment.seconds, moment.nanos) == (seconds, nanos)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("yesterday", id="a word"),
        pytest.param("2026-01-31", id="a day"),
        pytest.param("-5", id="negative"),
        pytest.param("", id="nothing"),
        pytest.param("1769860800000000", id="microseconds"),
        pytest.param("2026-13-31T12:00:00Z", id="a month too many"),
    ],
)
def test_anything_else_is_refused_by_name(text: str) -> None:
    with pytest.raises(UsageError, match="--now"):
        read_now(text)


def test_without_the_option_it_is_the_real_now() -> None:
    earliest = time.time()
    assert earliest - 1 <= read_now(None).ToNanoseconds() / 1e9 <= time.time() + 1
