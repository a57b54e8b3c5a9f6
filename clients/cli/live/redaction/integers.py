"""Integers in strings that selectors compare: finds them, and replaces them by others in the same order. Decides the
new digits: an integer keeps its sign, length and leading zeros, and each digit becomes the lowest one that keeps all
integers distinct and in order, by value and bytewise. A single integer becomes 1, 10, 100, …; digits survive only if so
many integers begin alike that no others are left.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from google.protobuf.message import Message

from trimtab.v1 import snapshot_pb2 as pb

_COMPARING = (pb.LabelOperator.GT, pb.LabelOperator.LT)
_TOLERATING = (pb.TolerationOperator.GT, pb.TolerationOperator.LT)
_BOUND = 1 << 63


class ComparedIntegers:
    """Collects the integers that selectors or tolerations compare, over all snapshots of a recording."""

    def __init__(self) -> None:
        self._keys: set[str] = set()
        self._operands: set[str] = set()
        self._values: dict[str, set[str]] = defaultdict(set)

    def see(self, snapshot: pb.ClusterSnapshot) -> None:
        """Take the labels, taints, selectors and tolerations of a snapshot, or of the changed half of a delta."""
        strings = snapshot.strings
        for key, value in _label_pairs(snapshot.label_sets):
            self._add(strings[key], strings[value])
        for one in _inner(snapshot):
            if isinstance(one, pb.Taint):
                self._add(strings[one.key], strings[one.value])
            elif isinstance(one, pb.LabelRequirement) and one.operator in _COMPARING:
                self._keys.add(strings[one.key])
                self._operands.update(strings[value] for value in one.values)
            elif isinstance(one, pb.Toleration) and one.operator in _TOLERATING:
                self._keys.add(strings[one.key])
                self._operands.add(strings[one.value])

    def tokens(self) -> dict[str, str]:
        """Return the replacement of each compared integer."""
        compared = {text for text in self._operands if _is_integer(text)}
        return in_order(compared.union(*(self._values[key] for key in self._keys if key in self._values)))

    def _add(self, key: str, value: str) -> None:
        if _is_integer(value):
            self._values[key].add(value)


def in_order(texts: Iterable[str]) -> dict[str, str]:
    """Return other integers in the same order, by value and bytewise; different texts stay different."""
    parts = {text: _parts(text) for text in texts}
    following: dict[str, set[str]] = defaultdict(set)
    for _, digits in parts.values():
        for at, digit in enumerate(digits):
            following[digits[:at]].add(digit)
    rank = {start: {digit: i for i, digit in enumerate(sorted(found))} for start, found in following.items()}
    return {
        text: start + "".join(str(rank[digits[:at]][digit] + (at == 0)) for at, digit in enumerate(digits))
        for text, (start, digits) in parts.items()
    }


def _parts(text: str) -> tuple[str, str]:
    """Return sign and leading zeros, and the digits after them."""
    digits = text.lstrip("+-").lstrip("0")
    return text[: len(text) - len(digits)], digits


def _is_integer(text: str) -> bool:
    """Return whether Go's ParseInt(text, 10, 64) accepts a text."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    return len(text) < 400 and digits.isascii() and digits.isdigit() and -_BOUND <= int(text) < _BOUND


def _label_pairs(sets: pb.LabelSets) -> Iterator[tuple[int, int]]:
    """Yield the distinct (key, value) string indices of label sets."""
    pairs = np.stack([np.frombuffer(column, "<i4") for column in (sets.keys, sets.values)], axis=1)
    yield from np.unique(pairs, axis=0).tolist()


def _inner(message: Message) -> Iterator[Any]:
    """Yield all messages in a message."""
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        for one in value if field.is_repeated else (value,):
            yield one
            yield from _inner(one)
