"""Go durations and Kubernetes times as integers."""

from datetime import UTC, datetime

import pytest

from trimtab.common.kubernetes.object_errors import FieldError
from trimtab.common.objects.times import LATEST_S, go_duration_ns, timestamp, unix_s
from trimtab.planner.snapshot.checks import MAX_TIME_S


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("90s", 90),
        ("1h30m", 5400),
        ("1.5h", 5400),
        ("1500ms", 1.5),
        ("-5m", -300),
        ("+2m", 120),
        ("1m1s1ms", 61.001),
    ],
)
def test_a_go_duration_is_read_in_nanoseconds(text: str, seconds: float) -> None:
    assert go_duration_ns(text) == round(seconds * 10**9)


@pytest.mark.parametrize("text", ["", "-", "5", "5 m", "m", "1d", "1h-5m", "PT5M", "9" * 5000 + "h", "2562048h"])
def test_an_invalid_go_duration_is_refused(text: str) -> None:
    with pytest.raises(FieldError, match="is not a duration"):
        go_duration_ns(text)


def test_times_become_unix_seconds_and_timestamps() -> None:
    time = datetime(2026, 1, 1, 0, 0, 1, 500000, tzinfo=UTC)
    stamp = timestamp(time)
    assert unix_s(time) == 1767225601
    assert stamp is not None
    assert (stamp.seconds, stamp.nanos) == (1767225601, 500000000)
    assert (unix_s(None), timestamp(None)) == (0, None)


@pytest.mark.parametrize(
    ("year", "expected"), [(1, 1), (1969, 1), (1970, 0), (2255, 8_993_721_600), (2311, LATEST_S), (9999, LATEST_S)]
)
def test_a_time_that_no_snapshot_can_hold_becomes_the_nearest_one(year: int, expected: int) -> None:
    time = datetime(year, 1, 1, tzinfo=UTC)
    stamp = timestamp(time)
    assert stamp is not None
    assert (unix_s(time), stamp.seconds) == (expected, expected)


def test_the_latest_time_is_the_planners() -> None:
    assert LATEST_S == MAX_TIME_S
