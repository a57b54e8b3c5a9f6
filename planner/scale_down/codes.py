"""Numbers out of arrays as members of the wire's enumerations. Numbers that no member has become the fallback."""

from typing import cast

from trimtab.v1 import plan_pb2, reason_pb2


def blocking_code(number: int) -> "reason_pb2.BlockingPodReason.Code.ValueType":
    """Return a `BlockingPodReason.Code`; UNEXPECTED_ERROR for a number that is none."""
    codes = reason_pb2.BlockingPodReason
    known = number in codes.Code.values()
    return cast("reason_pb2.BlockingPodReason.Code.ValueType", number) if known else codes.UNEXPECTED_ERROR


def order_code(number: int) -> "plan_pb2.CandidateOrder.Code.ValueType":
    """Return a `CandidateOrder.Code`; UNSPECIFIED for a number that is none."""
    codes = plan_pb2.CandidateOrder
    known = number in codes.Code.values()
    return cast("plan_pb2.CandidateOrder.Code.ValueType", number) if known else codes.UNSPECIFIED


def unremovable_name(number: int) -> str:
    """Return the name of an `UnremovableReason.Code`."""
    return _name(dict(reason_pb2.UnremovableReason.Code.items()), number)


def predicate_name(number: int) -> str:
    """Return the name of a `PredicateReason.Code`."""
    return _name(dict(reason_pb2.PredicateReason.Code.items()), number)


def _name(members: dict[str, int], number: int) -> str:
    return next((name for name, value in members.items() if value == number), "UNSPECIFIED")
