"""One row of the registry of signals: a key, where it stands, the values that are understood, and what decisions do."""

import re
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

LABEL, ANNOTATION, TAINT = "label", "annotation", "taint"
CONDITION, FINALIZER, FIELD = "condition", "finalizer", "field"
KINDS: Final = (ANNOTATION, LABEL, TAINT, CONDITION, FINALIZER, FIELD)


class SignalValues(NamedTuple):
    """The values of a key that are understood. text : for people; is_understood : None = every value is."""

    text: str
    is_understood: Callable[[str], bool] | None = None


class Signal(NamedTuple):
    """A key that decides something. key : ends with "/" or "-" if it is what keys begin with; kind : of `KINDS`; on :
    kinds of objects, with commas; effect : what decisions do with it; source : whose rule it is."""

    key: str
    kind: str
    on: str
    values: SignalValues
    effect: str
    source: str

    @property
    def is_prefix(self) -> bool:
        """Whether every key that begins like this counts."""
        return self.key.endswith(("/", "-"))

    def is_understood(self, value: str) -> bool:
        """Return whether a value means something; if not, people are told."""
        return self.values.is_understood is None or self.values.is_understood(value)


def matches(pattern: str) -> Callable[[str], bool]:
    """Return a check that a value has a form, or is empty."""
    compiled = re.compile(pattern, re.ASCII)
    return lambda value: value == "" or compiled.fullmatch(value) is not None


def exactly(*values: str) -> SignalValues:
    """Return that only these values mean something; the empty one means that the key is absent."""
    return SignalValues(", ".join(f"`{value}`" for value in values), {"", *values}.__contains__)


ANY: Final = SignalValues("any")
PRESENT: Final = SignalValues("presence counts, not the value")
TRUE: Final = SignalValues("`true`; `false` as if absent", {"", "true", "false"}.__contains__)
TRUE_OR_FALSE: Final = exactly("true", "false")
NUMBER: Final = SignalValues("a whole number of 32 bits, with a sign", matches(r"[+-]?[0-9]{1,10}"))

LEAVING: Final = (
    "the node is leaving: no candidate, no destination, no room for pods that wait; its pods need places; sizes and "
    "limits count without it"
)
OF_MACHINES: Final = "labels that the machine decides, not the pool"

annotation, label, taint, condition, finalizer, field_of = (
    partial(lambda kind, key, on, values, effect, source: Signal(key, kind, on, values, effect, source), kind)
    for kind in (ANNOTATION, LABEL, TAINT, CONDITION, FINALIZER, FIELD)
)
