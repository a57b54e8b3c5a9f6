"""`--now`: converts a time from text to a protobuf timestamp."""

import re
from datetime import UTC, datetime
from decimal import Decimal

from google.protobuf.timestamp_pb2 import Timestamp

from trimtab.clients.cli.failures import UsageError

_LARGEST = 253_402_300_799
"""9999-12-31T23:59:59Z, the last second that a Timestamp holds."""


def read_now(text: str | None) -> Timestamp:
    """Read RFC 3339 ("2026-01-31T12:00:00Z") or Unix seconds ("1769860800.5"); None gives the current time."""
    moment = Timestamp()
    if text is None:
        moment.FromDatetime(datetime.now(UTC))
        return moment
    text = text.strip()
    if re.fullmatch(r"\d+(\.\d+)?", text):
        seconds = Decimal(text)
        if seconds > _LARGEST:
            raise UsageError(f"--now {text}: this is past the year 9999; Unix time is given in seconds")
        moment.seconds = int(seconds)
        moment.nanos = int((seconds - int(seconds)) * 1_000_000_000)
        return moment
    try:
        moment.FromJsonString(text)
    except ValueError:
        example = "2026-01-31T12:00:00Z"
        raise UsageError(f'--now {text}: neither RFC 3339 (such as "{example}") nor Unix seconds') from None
    return moment
