"""Times and durations of Kubernetes objects as integers. Reads no clock.

A time before 1970 counts as its first second, one that a snapshot cannot hold as the latest that it can: a pod deleted
with a grace period of centuries has such a time, and a zero time of Go, in the year 1, is sometimes written out.
"""

import re
from datetime import UTC, datetime

from google.protobuf.timestamp_pb2 import Timestamp

from trimtab.common.kubernetes.object_errors import FieldError
from trimtab.common.kubernetes.quantities import MAX_INT64

LATEST_S = 9_000_000_000
"""The latest time of a snapshot, Unix seconds (year 2255)."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS_NS = {
    "ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9,
}  # fmt: skip
_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_LONGEST = 100
"""Longest text of a duration; Go prints far shorter ones."""
_REMEDY = 'write it as Go does, such as "90s", "1h30m"'


def unix_s(time: datetime | None) -> int:
    """Return whole Unix seconds, cut; 0 for no time."""
    return 0 if time is None else usable_s(int((time - _EPOCH).total_seconds() // 1))


def usable_s(seconds: int) -> int:
    """Return Unix seconds within the times of a snapshot; 0, no time, stays 0."""
    return seconds if 0 <= seconds <= LATEST_S else 1 if seconds < 0 else LATEST_S


def timestamp(time: datetime | None) -> Timestamp | None:
    """Return a protobuf timestamp; None for no time."""
    if time is None:
        return None
    delta = time - _EPOCH
    seconds = delta.days * 86400 + delta.seconds
    usable = usable_s(seconds)
    return Timestamp(seconds=usable, nanos=delta.microseconds * 1000 if usable == seconds else 0)


def go_duration_ns(text: str) -> int:
    """Return a Go duration in nanoseconds, cut towards zero; negative ones too.

    Errors: FieldError, without a path, for what is not a Go duration, or longer than Go's longest, 292 years.
    Source: Go, time.ParseDuration.
    """
    rest = text[1:] if text[:1] in ("+", "-") else text
    if len(text) > _LONGEST:
        raise FieldError("", f"{text[:60]!r} is not a duration", _REMEDY)
    if rest == "0":
        return 0
    total_ns, position = 0, 0
    while match := _PART.match(rest, position):
        whole, _, fraction = match[1].partition(".")
        scale = 10 ** len(fraction)
        total_ns += int((whole or "0") + fraction) * _UNITS_NS[match[2]] // scale
        position = match.end()
    if not rest or position != len(rest) or total_ns > MAX_INT64:
        raise FieldError("", f"{text[:60]!r} is not a duration", _REMEDY)
    return -total_ns if text[0] == "-" else total_ns
