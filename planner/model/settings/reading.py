"""Reads single settings from a message: the default if a field is absent, an error if a value is invalid.

Durations become integers in nanoseconds.
"""

import math
from typing import Final

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message

SECOND_NS: Final = 1_000_000_000


class SettingsError(ValueError):
    """A setting has an unusable value. `field` is its path in `PlanSettings`, `problem` states which
    values are usable.
    """

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


def flag(given: Message, name: str, default: bool) -> bool:
    """Return a boolean setting."""
    return bool(getattr(given, name)) if given.HasField(name) else default


def count(given: Message, name: str, default: int, path: str, least: int = 0) -> int:
    """Return an integer of at least `least`."""
    value = int(getattr(given, name)) if given.HasField(name) else default
    if value < least:
        raise SettingsError(f"{path}.{name}", f"{value} is below the minimum {least}")
    return value


def number(given: Message, name: str, default: float, path: str) -> float:
    """Return a finite number of at least 0."""
    value = float(getattr(given, name)) if given.HasField(name) else default
    if not math.isfinite(value) or value < 0:
        raise SettingsError(f"{path}.{name}", f"{value} is not a finite number of at least 0")
    return value


def share(given: Message, name: str, default: float, path: str) -> float:
    """Return a number from 0 to 1."""
    value = number(given, name, default, path)
    if value > 1:
        raise SettingsError(f"{path}.{name}", f"{value} is above 1; utilization is a share of the allocatable amount")
    return value


def duration_ns(given: Message, name: str, default_ns: int, path: str) -> int:
    """Return a duration in nanoseconds."""
    if not given.HasField(name):
        return default_ns
    value: Duration = getattr(given, name)
    total_ns = value.seconds * SECOND_NS + value.nanos
    if total_ns < 0:
        raise SettingsError(f"{path}.{name}", f"{value.seconds} s is negative; a duration is at least 0 s")
    if total_ns > 2**62:
        raise SettingsError(f"{path}.{name}", f"{value.seconds} s is too long; use at most 100 years")
    return total_ns
