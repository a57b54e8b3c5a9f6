"""Checks shared by all tables: lengths of columns, ranges of indices, amounts that can be summed.

Input is refused, never repaired. Every check is one pass over an array, or one row's value. Raises SnapshotError, which
names table, row, field, and the remedy. Rows count from 0, as in the message.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Final, NoReturn, TypeVar

import numpy as np
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from numpy.typing import NDArray

from trimtab.planner.model.execution import asking
from trimtab.planner.snapshot.columns import Int32
from trimtab.prices import MOST_PER_HOUR, is_price

MAX_AMOUNT: Final = 2**53
"""Maximum of one resource on one node or for one pod (8 PiB of memory). Exact as a float."""
MAX_TOTAL: Final = 2**62
"""Maximum of one resource over all nodes or all pods: sums stay within int64."""
MAX_TIME_S: Final = 9_000_000_000
"""Latest time, Unix seconds (year 2255): nanoseconds stay within int64."""
MAX_PODS: Final = 5_000_000
MAX_NODES: Final = 250_000
MAX_NODE_CELLS: Final = 64_000_000
"""Maximum of nodes times resources, 512 MB per array. Without it, a few bytes could request any amount of memory."""

WHOLE_TABLE = -1
"""As a row: the problem concerns no single row."""
M = TypeVar("M")
_Scalar = TypeVar("_Scalar", bound=np.generic)


class SnapshotError(ValueError):
    """A table breaks its contract. `row` is WHOLE_TABLE, or `field` "", if no single one is at fault."""

    def __init__(self, table: str, row: int, field: str, problem: str) -> None:
        place = table if row == WHOLE_TABLE else f"{table}[{row}]"
        super().__init__(f"{place}{'.' if field else ''}{field}: {problem}")
        self.table = table
        self.row = row
        self.field = field
        self.problem = problem


class SnapshotMalformedError(ValueError):
    """The bytes are not a message of the expected type."""


def read_column(data: bytes, dtype: type[_Scalar], count: int, table: str, field: str) -> NDArray[_Scalar]:
    """Return a little-endian column as a new array. `data` must hold exactly `count` values."""
    wire = np.dtype(dtype).newbyteorder("<")
    if len(data) != count * wire.itemsize:
        problem = (
            f"the column has {len(data)} bytes; {count} values of {wire.itemsize} bytes are {count * wire.itemsize}"
        )
        raise SnapshotError(table, WHOLE_TABLE, field, problem)
    return np.frombuffer(data, wire).astype(dtype)


def read_optional(data: bytes, dtype: type[_Scalar], count: int, table: str, field: str) -> NDArray[_Scalar]:
    """Return a column as `read_column` does, or zeros if it is empty."""
    return read_column(data, dtype, count, table, field) if data else np.zeros(count, dtype)


def check_range(values: NDArray[Any], least: int, largest: int, table: str, field: str, what: str = "") -> None:
    """Refuse the first value outside `least` to `largest`; `what` names the value, such as "index into strings"."""
    if not len(values) or (int(values.min()) >= least and int(values.max()) <= largest):
        return
    row = int(np.flatnonzero((values < least) | (values > largest))[0])
    if largest < least:
        problem = f"{int(values[row])} is no {what or 'value'}: there are none"
    else:
        problem = f"{int(values[row])} is no {what or 'value'}; use {least} to {largest}"
    raise SnapshotError(table, row, field, problem)


def check_index(values: Int32, size: int, table: str, field: str, into: str) -> None:
    """Refuse the first index outside a dictionary of `size` entries. values : int32[P]."""
    check_range(values, 0, size - 1, table, field, f"index into {into}")


class Row:
    """The current row: resolves string indices, and names the place of a bad value in errors.

    One object serves a whole table: `over` goes from row to row; or set `index`.
    """

    __slots__ = ("_count", "_strings", "index", "table")

    def __init__(self, table: str, strings: Sequence[str]) -> None:
        self.table = table
        self.index = 0
        self._strings = strings
        self._count = len(strings)

    def over(self, messages: Iterable[M]) -> Iterator[M]:
        """Yield a table's messages in their order; the current row is that of the one yielded last."""
        for self.index, message in enumerate(asking(messages)):
            yield message

    def refuse(self, field: str, problem: str) -> NoReturn:
        """Raise SnapshotError for this row."""
        raise SnapshotError(self.table, self.index, field, problem)

    def text(self, index: int, field: str) -> str:
        """Return the string of an index."""
        if not 0 <= index < self._count:
            self.refuse(field, f"{index} is not an index into strings; use 0 to {self._count - 1}")
        return self._strings[index]

    def needed_text(self, index: int, field: str) -> str:
        """Return the string of an index, which must not be empty."""
        return self.needed(self.text(index, field), field)

    def needed(self, value: str, field: str) -> str:
        """Return a string that must not be empty."""
        return value or self.refuse(field, "it is empty; give its value")

    def name(self, value: str, field: str) -> str:
        """Return a string that is part of a key "namespace/name"."""
        if "/" in value:
            self.refuse(field, f"{value!r} has a slash; names of Kubernetes objects have none")
        return self.needed(value, field)

    def at_least(self, value: int, least: int, field: str) -> int:
        """Return a number that must not be smaller than the minimum."""
        return value if value >= least else self.refuse(field, f"{value} is too small; use at least {least}")

    def amount(self, value: int, field: str) -> int:
        """Return an amount of a resource."""
        if not 0 <= value <= MAX_AMOUNT:
            self.refuse(field, f"{value} is not an amount; use 0 to 2^53 (check the unit)")
        return value

    def price(self, value: float, field: str = "price_per_hour") -> float:
        """Return the price of a node for one hour."""
        if not is_price(value):
            self.refuse(field, f"{value} is not a price; use 0 to {MOST_PER_HOUR:.0e}, or leave it out if unknown")
        return value + 0.0  # turns -0.0 into 0.0: equal content has equal bytes

    def code(self, value: int, codes: Collection[int], field: str) -> int:
        """Return the number of an enumeration's value."""
        return value if value in codes else self.refuse(field, f"{value} is no known value; use one of {sorted(codes)}")

    def time_ns(self, holder: Any, field: str) -> int:
        """Return a time as Unix nanoseconds, 0 = absent."""
        if not holder.HasField(field):
            return 0
        time: Timestamp = getattr(holder, field)
        if not (0 <= time.seconds <= MAX_TIME_S and 0 <= time.nanos < 1_000_000_000):
            self.refuse(
                field, f"{time.seconds} s and {time.nanos} ns is not a time; use 0 to {MAX_TIME_S} s since 1970"
            )
        return time.seconds * 1_000_000_000 + time.nanos

    def time_s(self, holder: Any, field: str) -> int:
        """Return a time as whole Unix seconds, 0 = absent."""
        return self.time_ns(holder, field) // 1_000_000_000

    def seconds(self, length: Duration, field: str, least: int = 0) -> int:
        """Return a duration of at least so many seconds, in whole ones; centuries count as `MAX_TIME_S`."""
        if not (length.seconds >= least and 0 <= length.nanos < 1_000_000_000):
            self.refuse(field, f"{length.seconds} s and {length.nanos} ns is too short; use at least {least} s")
        return min(length.seconds, MAX_TIME_S)


def check_unique(keys: Sequence[object], table: str, field: str) -> None:
    """Refuse the second of two equal keys."""
    if len(set(keys)) == len(keys):
        return
    first_row: dict[object, int] = {}
    for row, key in enumerate(keys):
        first = first_row.setdefault(key, row)
        if first != row:
            shown = "/".join(map(str, key)) if isinstance(key, tuple) else key
            raise SnapshotError(table, row, field, f"{shown!r} is also row {first}; give each once")
