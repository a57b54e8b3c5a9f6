"""The numbers of a recording that tell when it was made and what its owner pays. Each is replaced in a way that does
not change any decision:
- times are shifted such that the first request is made at `FIRST_NOW_S`. They keep their distances, including fractions
  of seconds, since timers compare them.
- prices are multiplied by a random power of two: sums of them are rounded as before. Those that the planner assumes
  where none is known stay: they follow from amounts.

All other numbers stay: amounts, ports, counts, priorities, settings, and the values in answers that follow from them.
Which pods fit where follows from the ratios of amounts, and these would tell the types of the machines in any unit.

Why it is worth a module: prices and dates tell an account and a cluster even where names are replaced, and a replay of
the redacted file still has the same plans. It takes 15 % of the CPU time of a redaction.

An integer in a string keeps its sign, length and leading zeros, and each digit becomes the lowest one that keeps all
integers distinct and in order, by value and bytewise; digits survive only if so many integers begin alike that no
others are left.
"""

import math
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, Self

import numpy as np
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from trimtab.clients.cli.live.redaction.tokens import redaction
from trimtab.prices import is_price
from trimtab.v1 import plan_pb2
from trimtab.v1 import snapshot_pb2 as pb
from trimtab.v1.options_pb2 import Redaction

FIRST_NOW_S: Final = 1_000_000_000
"""The new time of the first request, within a second."""
_SECOND_NS: Final = 10**9
_FACTORS: Final = tuple(math.ldexp(1.0, exponent) for exponent in (*range(-12, 0), *range(1, 13)))
"""Prices are multiplied by one of these."""
_BY_ASSUMED_RATES: Final = ("summary", "nodes")
"""Parts of an answer whose prices are by assumed rates if its summary says so."""


def price_factor(highest: float) -> float:
    """Return a random power of two, other than 1, by which the highest price of a recording stays a price."""
    return random.SystemRandom().choice([factor for factor in _FACTORS if is_price(highest * factor)])


def highest_price(snapshot: pb.ClusterSnapshot) -> float:
    """Return the highest price of a node in a snapshot, or in the changed half of a delta; 0 = there is none."""
    nodes, groups = snapshot.nodes, snapshot.node_groups
    return max((0.0, *(node.price_per_hour for node in nodes), *(group.price_per_hour for group in groups)))


class Replacements(NamedTuple):
    """price_factor : a power of two; earlier_s : how much earlier all times become."""

    price_factor: float
    earlier_s: int

    def visit(self, message: Message) -> None:
        """Replace all prices and times of a frame's content, in place."""
        special = _SPECIAL.get(message.DESCRIPTOR.name)
        if special is not None:
            special(message, self)
        for field, value in message.ListFields():
            inner, treatment = field.message_type, redaction(field)
            if inner is None:
                if treatment in _PER_SECOND:
                    setattr(message, field.name, self.column(value, _PER_SECOND[treatment]))
                elif treatment == Redaction.PRICE or field.name.endswith(("per_hour", "per_month")):
                    setattr(message, field.name, value * self.price_factor)
            elif not inner.GetOptions().map_entry:
                inside = self._inside(message, field.name)
                for one in value if field.is_repeated else (value,):
                    if isinstance(one, Timestamp):
                        self._shift(one)
                    else:
                        inside.visit(one)

    def column(self, times: bytes, per_second: int) -> bytes:
        """Return a column of times shifted : int64, in units of which a second has so many; 0 = unknown stays."""
        values = np.frombuffer(times, "<i8")
        moved = np.maximum(values - self.earlier_s * per_second, 1)
        return np.where(values > 0, moved, values).astype("<i8").tobytes()

    def moment(self, time: datetime) -> datetime:
        """Return the shifted time of a header."""
        return datetime.fromtimestamp(max(time.timestamp() - self.earlier_s, 0), UTC)

    def _inside(self, message: Message, field: str) -> Self:
        """Return what replaces the numbers in a field of a message."""
        if isinstance(message, plan_pb2.PlanResponse) and message.summary.assumption and field in _BY_ASSUMED_RATES:
            return self._replace(price_factor=1.0)
        return self

    def _shift(self, time: Timestamp) -> None:
        if time.ToNanoseconds():
            time.FromNanoseconds(max(time.ToNanoseconds() - self.earlier_s * _SECOND_NS, 1))


def _visit_score(score: plan_pb2.ExpanderScore, new: Replacements) -> None:
    # That of PRICE is a ratio of prices, which stays.
    if score.expander == plan_pb2.Expander.CHEAPEST_PLAN:
        score.score *= new.price_factor


def _visit_cost_term(term: plan_pb2.PodCostTerm, new: Replacements) -> None:
    if term.strategy == plan_pb2.PodCostStrategy.NODE_COST and term.threshold:
        term.threshold *= new.price_factor


_SPECIAL: Final[dict[str, Callable[[Any, Replacements], None]]] = {
    "ExpanderScore": _visit_score,
    "PodCostTerm": _visit_cost_term,
}
"""Messages with a number that is a price only with some values of another field."""
_PER_SECOND: Final[dict[int, int]] = {Redaction.UNIX_SECONDS: 1, Redaction.UNIX_NANOSECONDS: _SECOND_NS}


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
