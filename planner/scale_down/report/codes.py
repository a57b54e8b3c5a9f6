"""Conversion of numbers in arrays to members of the contract's enumerations. Unknown numbers become the fallback."""

from typing import Final, cast

import numpy as np

from trimtab.planner.snapshot.columns import UInt8
from trimtab.v1 import plan_pb2, reason_pb2

_BLOCKING: Final = frozenset(reason_pb2.BlockingPodReason.Code.values())
_BLOCKING_CODE: Final = np.full(256, reason_pb2.BlockingPodReason.UNEXPECTED_ERROR, np.uint8)
_BLOCKING_CODE[list(_BLOCKING)] = list(_BLOCKING)
_ORDERS: Final = frozenset(plan_pb2.CandidateOrder.Code.values())
_UNREMOVABLE: Final = {number: name for name, number in reason_pb2.UnremovableReason.Code.items()}
_PREDICATES: Final = {number: name for name, number in reason_pb2.PredicateReason.Code.items()}


def blocking_code(number: int) -> "reason_pb2.BlockingPodReason.Code.ValueType":
    """Return a `BlockingPodReason.Code`; UNEXPECTED_ERROR for a number that is none."""
    if number not in _BLOCKING:
        return reason_pb2.BlockingPodReason.UNEXPECTED_ERROR
    return cast("reason_pb2.BlockingPodReason.Code.ValueType", number)


def blocking_codes(numbers: UInt8) -> UInt8:
    """Return the same for an array. uint8."""
    return _BLOCKING_CODE[numbers]


def order_code(number: int) -> "plan_pb2.CandidateOrder.Code.ValueType":
    """Return a `CandidateOrder.Code`; UNSPECIFIED for a number that is none."""
    if number not in _ORDERS:
        return plan_pb2.CandidateOrder.UNSPECIFIED
    return cast("plan_pb2.CandidateOrder.Code.ValueType", number)


def unremovable_name(number: int) -> str:
    """Return the name of an `UnremovableReason.Code`; "UNSPECIFIED" for a number that is none."""
    return _UNREMOVABLE.get(cast("reason_pb2.UnremovableReason.Code.ValueType", number), "UNSPECIFIED")


def predicate_name(number: int) -> str:
    """Return the name of a `PredicateReason.Code`; "UNSPECIFIED" for a number that is none."""
    return _PREDICATES.get(cast("reason_pb2.PredicateReason.Code.ValueType", number), "UNSPECIFIED")
