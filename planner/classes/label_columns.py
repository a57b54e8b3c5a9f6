"""Label sets as a matrix with one column for each label key that some selector uses.

Contract: two label sets have equal rows if and only if no selector noted in `LookedAt` distinguishes them. A value that
no selector names is "other"; if no selector tests presence, "other" equals "absent". Knows nothing of pods, nodes or
namespaces. Source: apimachinery labels.Requirement.Matches, v0.34.

Equal rows are numbered equally, vectorised; all classes are built on this. Exact (every hash is verified); numbers
follow first appearance or the key, never a hash.
"""

from collections.abc import Hashable
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from trimtab.planner.model.execution import UNLIMITED, RequestLimits
from trimtab.planner.model.label_syntax import parse_integer
from trimtab.planner.model.values import LabelRequirement
from trimtab.planner.snapshot.columns import Bool, Int32, Int64, LabelSets
from trimtab.planner.snapshot.dictionaries import entries_of, places_in
from trimtab.planner.snapshot.texts import string_index
from trimtab.v1.snapshot_pb2 import LabelOperator

_LARGEST_KEY = 1 << 62
_TABLE_FLOOR = 1 << 20
"""Up to this range of keys (or four times the rows) a table is faster than sorting."""


class Grouping(NamedTuple):
    """`of` : int32[rows] group of each row; `first` : int64[groups] first row of each group, the representative."""

    of: Int32
    first: Int64

    @property
    def size(self) -> int:
        """The number of groups."""
        return len(self.first)


def group_keys(keys: Int64, size: int) -> Grouping:
    """Number distinct keys in ascending order. keys : int64[rows], 0 <= key < size. O(rows) or O(rows log rows)."""
    rows = len(keys)
    if size > max(_TABLE_FLOOR, 4 * rows):
        _, first, of = np.unique(keys, return_index=True, return_inverse=True)
        return Grouping(of.astype(np.int32).reshape(-1), first.astype(np.int64))
    is_used = np.zeros(size, np.bool_)
    is_used[keys] = True
    present = np.flatnonzero(is_used)
    number = np.empty(size, np.int32)
    number[present] = np.arange(len(present), dtype=np.int32)
    group = number[keys]
    return Grouping(group, first_rows(group, len(present)))


def first_rows(group: Int32, count: int) -> Int64:
    """Return the first row of each group : int64[count]. group : int32[rows]."""
    first = np.empty(count, np.int64)
    # If an index repeats, numpy keeps the last value written: in reverse order, that is the first row.
    first[group[::-1]] = np.arange(len(group) - 1, -1, -1, dtype=np.int64)
    return first


def group_columns(columns: list[tuple[NDArray[np.int_] | Int32 | Int64, int]]) -> Grouping:
    """Number distinct rows of several columns. columns : (int[rows], size) with 0 <= value < size, at least one.

    Groups ascend by the columns, the first one leading.
    """
    key = columns[0][0].astype(np.int64)
    size = max(columns[0][1], 1)
    for values, range_size in columns[1:]:
        if size * max(range_size, 1) >= _LARGEST_KEY:
            groups = group_keys(key, size)
            key, size = groups.of.astype(np.int64), max(groups.size, 1)
        key = key * max(range_size, 1) + values
        size *= max(range_size, 1)
    return group_keys(key, size)


def group_rows(matrix: Int32) -> Grouping:
    """Number distinct rows of a matrix in order of first appearance. matrix : int32[rows, columns]."""
    rows, width = matrix.shape
    if width == 0 or rows == 0:
        return Grouping(np.zeros(rows, np.int32), np.zeros(min(rows, 1), np.int64))
    # Odd multipliers of a fixed sequence: a row's hash is its dot product, wrapping at 64 bits.
    steps = np.arange(1, width + 1, dtype=np.uint64)
    multipliers = (steps * np.uint64(0x9E3779B97F4A7C15)) ^ (steps << np.uint64(31)) | np.uint64(1)
    hashes = np.zeros(rows, np.uint64)
    for column in range(width):
        hashes += (matrix[:, column].astype(np.int64).view(np.uint64) + np.uint64(1)) * multipliers[column]
    _, first, of = np.unique(hashes, return_index=True, return_inverse=True)
    of = of.reshape(-1)
    if not np.array_equal(matrix[first[of]], matrix):  # hash collision: sort the rows
        _, first, of = np.unique(matrix, axis=0, return_index=True, return_inverse=True)
        of = of.reshape(-1)
    order = np.argsort(first, kind="stable")
    return Grouping(places_in(order)[of], first[order].astype(np.int64))


_Value = TypeVar("_Value", bound=Hashable)


def number_values(values: list[_Value]) -> tuple[Int32, list[_Value]]:
    """Number distinct values in order of first appearance: (int32[len(values)], distinct values)."""
    numbers: dict[_Value, int] = {}
    of = np.fromiter((numbers.setdefault(value, len(numbers)) for value in values), np.int32, len(values))
    return of, list(numbers)


ABSENT, OTHER = 0, 1
"""Codes of a column; a value that selectors name has its code from `FIRST_NAMED` on."""
FIRST_NAMED = 2
UNSEEN = -1
"""In place of a code, if every value counts: a value that no label set has."""

_BYTES_OF_LABEL = 48
"""Memory of a label while labels are sorted by column."""
_PRESENCE = (LabelOperator.EXISTS, LabelOperator.DOES_NOT_EXIST)
_ORDER = (LabelOperator.GT, LabelOperator.LT)


class LookedAt:
    """Collects what selectors use: for each key the named values, and whether presence or every value counts."""

    def __init__(self) -> None:
        self.keys: dict[str, int] = {}
        self.named: list[set[str]] = []
        self.presence: list[bool] = []
        self.every_value: list[bool] = []

    def _column(self, key: str) -> int:
        column = self.keys.setdefault(key, len(self.keys))
        if column == len(self.named):
            self.named.append(set())
            self.presence.append(False)
            self.every_value.append(False)
        return column

    def requirement(self, requirement: LabelRequirement) -> None:
        """Note a requirement."""
        column = self._column(requirement.key)
        self.named[column].update(requirement.values)
        if requirement.operator in _PRESENCE:
            self.presence[column] = True
        elif requirement.operator in _ORDER:
            self.every_value[column] = True

    def value(self, key: str, value: str) -> None:
        """Note that one value of a key counts."""
        self.named[self._column(key)].add(value)

    def all_values(self, key: str) -> None:
        """Note that every value of a key counts."""
        self.every_value[self._column(key)] = True

    def fallback(self, column: int) -> int:
        """Return the code of a value that is not named."""
        return OTHER if self.presence[column] else ABSENT


class LabelMatrix(NamedTuple):
    """Rows of label sets reduced to the keys and values in use.

    columns : key -> column; codes : int32[groups, columns]; groups : group of each given row;
    code_of : string -> code, for each column; value_of : code -> string, for each column; other : the code of a value
    that `code_of` lacks, for each column, UNSEEN if every value counts.
    """

    columns: dict[str, int]
    codes: Int32
    groups: Grouping
    code_of: list[dict[str, int]]
    value_of: list[dict[int, str]]
    other: list[int]

    def matches(self, requirement: LabelRequirement) -> Bool:
        """Return which groups meet a requirement : bool[groups]. The key must have been noted."""
        column = self.columns[requirement.key]
        codes = self.codes[:, column]
        operator = requirement.operator
        if operator in (LabelOperator.IN, LabelOperator.NOT_IN):
            wanted = [code for value in requirement.values if (code := self.code_of[column].get(value, -1)) >= 0]
            inside = codes == wanted[0] if len(wanted) == 1 else np.isin(codes, wanted)
            return inside if operator == LabelOperator.IN else ~inside
        if operator in _PRESENCE:
            present: Bool = codes != ABSENT
            return present if operator == LabelOperator.EXISTS else ~present
        return self._compares(requirement, column, codes)

    def _compares(self, requirement: LabelRequirement, column: int, codes: Int32) -> Bool:
        bound = parse_integer(requirement.values[0]) if len(requirement.values) == 1 else None
        if bound is None or requirement.operator not in _ORDER:
            return np.zeros(len(codes), np.bool_)
        greater = requirement.operator == LabelOperator.GT
        wanted = []
        for code, text in self.value_of[column].items():
            number = parse_integer(text)
            if number is not None and (number > bound if greater else number < bound):
                wanted.append(code)
        return np.isin(codes, wanted)

    def value(self, group: int, key: str) -> str | None:
        """Return the value of a key all of whose values count, or None where the label is absent."""
        column = self.columns[key]
        return self.value_of[column].get(int(self.codes[group, column]))


def label_entries(sets: LabelSets, rows: Int32) -> tuple[Int64, Int32, Int32]:
    """Return (row, key, value) of every label of the sets `rows` : row : int64[entries], key, value :
    int32[entries]."""
    entry = entries_of(sets.offsets, rows)
    row = np.repeat(np.arange(len(rows), dtype=np.int64), sets.offsets[rows + 1] - sets.offsets[rows])
    return row, sets.keys[entry], sets.values[entry]


def label_matrix(
    strings: tuple[str, ...], sets: LabelSets, rows: Int32, looked_at: LookedAt, limits: RequestLimits = UNLIMITED
) -> LabelMatrix:
    """Reduce the label sets `rows` : int32[rows] to the keys and values in use. O(labels of the rows), vectorised."""
    width = len(looked_at.keys)
    lengths = (sets.offsets[1:] - sets.offsets[:-1])[rows]
    limits.reserve(
        _BYTES_OF_LABEL * int(lengths.sum(dtype=np.int64)) + 9 * len(rows) * width, "labels that are looked at"
    )
    row, key, value = label_entries(sets, rows)
    column_of = np.full(len(strings) + 1, -1, np.int32)
    for text, number in looked_at.keys.items():
        column_of[string_index(strings, text)] = number  # a key that no set has goes to the spare last place
    column_of[-1] = -1
    column = column_of[key]
    counts = column >= 0
    row, column, value = row[counts], column[counts], value[counts]
    # Labels of one column lie together.
    order = np.argsort(column, kind="stable")
    row, value = row[order], value[order]
    bounds = np.searchsorted(column[order], np.arange(width + 1)).tolist()
    codes = np.zeros((len(rows), width), np.int32)
    code_of: list[dict[str, int]] = []
    value_of: list[dict[int, str]] = []
    for at in range(width):
        limits.check()
        mine = slice(bounds[at], bounds[at + 1])
        names, texts = _codes(strings, looked_at, at, value[mine])
        codes[row[mine], at] = _encode(strings, looked_at, at, value[mine], names)
        code_of.append(names)
        value_of.append(texts)
    groups = group_rows(codes)
    other = [UNSEEN if looked_at.every_value[at] else looked_at.fallback(at) for at in range(width)]
    distinct = np.ascontiguousarray(codes[groups.first])
    return LabelMatrix(dict(looked_at.keys), distinct, groups, code_of, value_of, other)


def _codes(
    strings: tuple[str, ...], looked_at: LookedAt, column: int, values: Int32
) -> tuple[dict[str, int], dict[int, str]]:
    if looked_at.every_value[column]:
        texts = {strings[v] for v in np.unique(values).tolist()} | looked_at.named[column]
    else:
        texts = looked_at.named[column]
    names = {text: FIRST_NAMED + i for i, text in enumerate(sorted(texts))}
    return names, {code: text for text, code in names.items()}


def _encode(strings: tuple[str, ...], looked_at: LookedAt, column: int, values: Int32, names: dict[str, int]) -> Int32:
    codes = sorted((index, code) for text, code in names.items() if (index := string_index(strings, text)) >= 0)
    fallback = looked_at.fallback(column)
    if not codes:
        return np.full(len(values), fallback, np.int32)
    indices = np.array([index for index, _ in codes], np.int32)
    numbers = np.array([code for _, code in codes], np.int32)
    at = np.minimum(np.searchsorted(indices, values), len(indices) - 1)
    return np.where(indices[at] == values, numbers[at], np.int32(fallback))
