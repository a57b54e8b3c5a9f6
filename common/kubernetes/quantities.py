"""Kubernetes quantities to integers.

A quantity is an exact number of nano-units until all additions are done.

Source: apimachinery, api/resource: ParseQuantity, Value, MilliValue. Unlike those, this does not wrap around on
overflow but stops at the largest int64, and it refuses a suffix without digits, which they read as 0.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from trimtab.common.kubernetes.object_errors import FieldError, below

NANO = 1_000_000_000
"""Nano-units in one unit."""
MILLI = 1_000_000
"""Nano-units in one milli-unit."""
MAX_INT64 = 2**63 - 1
MOST_REQUESTED = 2**50
"""Most of one resource that counts for a pod: 1 PiB of memory, 10^12 cores. A larger request fits nowhere.

A planner takes amounts as long as all pods together stay below 2^62, so a few thousand such pods do no harm."""
MOST_OF_A_NODE = MOST_REQUESTED - 1
"""Most of one resource that counts for a node."""

_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_FORM = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?([numkMGTPE]?|[KMGTPE]i|[eE][+-]?\d+)\Z", re.ASCII)
_LONGEST = 300
"""Longest text of a quantity; Kubernetes prints far shorter ones."""
_REMEDY = 'write it as Kubernetes does, such as "250m", "1.5", "64Mi" or "1e3"'


@lru_cache(maxsize=1 << 16)
def parse_quantity(text: str) -> int:
    """Return a quantity in nano-units, rounded away from zero and cut at ±(2**63 - 1) units.

    Raises FieldError, without a path, for text that is not a quantity.
    """
    nano = _exact(text)
    return max(min(nano, MAX_INT64 * NANO), -MAX_INT64 * NANO)


def is_beyond_int64(value: str | int | float) -> bool:
    """Return whether a quantity is larger than any that Kubernetes stores. Raises as `parse_quantity`."""
    return abs(_exact(value if isinstance(value, str) else repr(value))) > MAX_INT64 * NANO


def _exact(text: str) -> int:
    """Return a quantity in nano-units, not cut; one far beyond int64 is some number beyond int64."""
    stripped = text.strip()
    match = _FORM.match(stripped) if len(stripped) <= _LONGEST else None
    if match is None or not (match[2] or match[3]):
        raise FieldError("", f"{text[:60]!r} is not a quantity", _REMEDY)
    sign, whole, fraction, suffix = match[1], match[2], match[3] or "", match[4]
    digits, exponent, factor = int(whole + fraction), -len(fraction), 1
    if suffix in _BINARY:
        factor = 1 << _BINARY[suffix]
    else:
        exponent += _DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:])
    magnitude = _scaled(digits * factor, exponent + 9)
    return -magnitude if sign == "-" else magnitude


def quantity(value: str | int | float) -> int:
    """Return a quantity of JSON or YAML, text or number, in nano-units. Raises as `parse_quantity`."""
    return parse_quantity(value if isinstance(value, str) else repr(value))


def whole_units(nano: int) -> int:
    """Return nano-units in units, rounded away from zero, within int64."""
    return _rounded(nano, NANO)


def milli_units(nano: int) -> int:
    """Return nano-units in milli-units, rounded away from zero, within int64."""
    return _rounded(nano, MILLI)


def _rounded(nano: int, unit: int) -> int:
    return min(-(-nano // unit), MAX_INT64) if nano >= 0 else max(nano // unit, -MAX_INT64)


def amount_of(resource: str, nano: int) -> int:
    """Return what the scheduler counts of a resource: milli-cores of cpu, whole units of all others."""
    return milli_units(nano) if resource == "cpu" else whole_units(nano)


def counted_amount(resource: str, value: object) -> int:
    """Return what the scheduler counts of a quantity, given as text or number. Raises as `parse_quantity`."""
    return amount_of(resource, parse_quantity(str(value)))


def counted_amounts(quantities: Mapping[str, Any] | None) -> dict[str, int]:
    """Return what the scheduler counts of each resource. Raises FieldError with the resource as path."""
    out = {}
    for name, value in (quantities or {}).items():
        with below(name):
            out[name] = counted_amount(name, value)
    return out


def _scaled(digits: int, exponent: int) -> int:
    """Return digits * 10**exponent, rounded up; exponents beyond any quantity's range are cut, not computed."""
    if digits == 0:
        return 0
    if exponent >= 0:
        return digits * int(10 ** min(exponent, 40))
    return -(-digits // int(10 ** min(-exponent, 2 * _LONGEST)))
