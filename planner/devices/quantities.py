"""Kubernetes quantities as exact integers of nano-units, parsed as the API machinery parses them.

Source: k8s.io/apimachinery/pkg/api/resource, ParseQuantity, v0.36: what is finer than nano is rounded away from zero,
and binary quantities end at 2**63 - 1.
"""

import re
from fractions import Fraction

NANO = 10**9
_TEXT = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(.*)", re.DOTALL)
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]+)")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_LARGEST = 2**63 - 1
_MAX_DIGITS = 100


def parse_quantity(text: str) -> int | None:
    """Return the nano-units of a quantity such as "1.5Gi" or "100m"; None if it is none. Without digits it is 0."""
    match = _TEXT.fullmatch(text)
    if match is None or not text or len(text) > _MAX_DIGITS:
        return None
    sign, whole, fraction, suffix = match.group(1), match.group(2), match.group(3) or "", match.group(4)
    number = Fraction(int(whole + fraction or "0"), 10 ** len(fraction))
    if suffix in _BINARY:
        nano = min(_rounded_up(number * 2 ** _BINARY[suffix] * NANO), _LARGEST * NANO)
    elif suffix in _DECIMAL:
        nano = _rounded_up(number * Fraction(10) ** (_DECIMAL[suffix] + 9))
    else:
        exponent = _EXPONENT.fullmatch(suffix)
        if exponent is None or abs(int(exponent.group(1))) > _MAX_DIGITS:
            return None
        nano = _rounded_up(number * Fraction(10) ** (int(exponent.group(1)) + 9))
    return -nano if sign == "-" else nano


def whole_units(nano: int) -> int:
    """Return the whole units of an amount, rounded away from zero, as `Quantity.Value` does."""
    return -(-nano // NANO) if nano >= 0 else nano // NANO


def _rounded_up(amount: Fraction) -> int:
    return -(-amount.numerator // amount.denominator)
