"""Which labels and requirements on them are well-formed, for the API server and for the scheduler.

Source: apimachinery labels.NewRequirement and validation, component-helpers nodeaffinity, v0.34.
"""

import re

from trimtab.planner.model.values import LabelRequirement, NodeAffinityTerm
from trimtab.v1.snapshot_pb2 import LabelOperator

NAME_FIELD = "metadata.name"
"""The only field that nodes have for selectors."""

_MOST_DIGITS = len(str(1 << 63))
"""Most digits of a 64-bit integer, leading zeros apart."""
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST_PREFIX = 253


def is_label_key(key: str) -> bool:
    """Return whether a label may have this key."""
    prefix, slash, name = key.rpartition("/")
    if slash and not (len(prefix) <= _LONGEST_PREFIX and _PREFIX.fullmatch(prefix)):
        return False
    return _NAME.fullmatch(name) is not None


def is_label_value(value: str) -> bool:
    """Return whether a label may have this value."""
    return not value or _NAME.fullmatch(value) is not None


def is_parsable(requirement: LabelRequirement) -> bool:
    """Return whether the scheduler can parse a requirement on a node's labels."""
    values = requirement.values
    if requirement.operator in (LabelOperator.IN, LabelOperator.NOT_IN):
        counted = len(values) > 0
    elif requirement.operator in (LabelOperator.EXISTS, LabelOperator.DOES_NOT_EXIST):
        counted = not values
    elif requirement.operator in (LabelOperator.GT, LabelOperator.LT):
        counted = len(values) == 1 and parse_integer(values[0]) is not None
    else:
        return False
    return counted and is_label_key(requirement.key) and all(is_label_value(value) for value in values)


def is_parsable_field(requirement: LabelRequirement) -> bool:
    """Return whether the scheduler can parse a requirement on a node's fields."""
    return requirement.operator in (LabelOperator.IN, LabelOperator.NOT_IN) and len(requirement.values) == 1


def is_alive(term: NodeAffinityTerm) -> bool:
    """Return whether a term can match any node at all."""
    if not (term.match_expressions or term.match_fields):
        return False
    return all(map(is_parsable, term.match_expressions)) and all(map(is_parsable_field, term.match_fields))


def parse_integer(text: str) -> int | None:
    """Parse as Go's ParseInt(text, 10, 64) does; None if that fails."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()):
        return None
    significant = digits.lstrip("0")
    if len(significant) > _MOST_DIGITS:
        return None
    number = int(significant or "0") * (-1 if text[0] == "-" else 1)
    return number if -(1 << 63) <= number < (1 << 63) else None
