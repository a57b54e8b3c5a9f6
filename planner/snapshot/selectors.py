"""Selectors of a message as values: operators checked, values sorted and without duplicates.

Source: `protos/trimtab/v1/snapshot.proto`.
"""

from collections.abc import Iterable
from typing import Final

from trimtab.planner.model.values import LabelRequirement, NodeAffinityTerm, Selector
from trimtab.planner.snapshot.checks import Row
from trimtab.v1 import snapshot_pb2 as pb

_SETS: Final = frozenset({pb.LabelOperator.IN, pb.LabelOperator.NOT_IN})
_PRESENCE: Final = frozenset({pb.LabelOperator.EXISTS, pb.LabelOperator.DOES_NOT_EXIST})
_NUMBERS: Final = frozenset({pb.LabelOperator.GT, pb.LabelOperator.LT})
ON_PODS: Final = _SETS | _PRESENCE
ON_NODES: Final = _SETS | _PRESENCE | _NUMBERS


def read_selector(row: Row, message: pb.LabelSelector, field: str) -> Selector:
    """Return a label selector; () matches everything. The caller turns absence into None."""
    return read_requirements(row, message.requirements, f"{field}.requirements", ON_PODS)


def read_terms(row: Row, message: pb.NodeSelector, field: str) -> tuple[NodeAffinityTerm, ...]:
    """Return the alternatives of required node affinity."""
    return tuple(
        NodeAffinityTerm(
            read_requirements(row, term.match_expressions, f"{field}.terms.match_expressions", ON_NODES),
            read_requirements(row, term.match_fields, f"{field}.terms.match_fields", ON_NODES),
        )
        for term in message.terms
    )


def read_requirements(
    row: Row, messages: Iterable[pb.LabelRequirement], field: str, operators: frozenset[int]
) -> Selector:
    """Return requirements in their order."""
    return tuple(_requirement(row, message, field, operators) for message in messages)


def _requirement(row: Row, message: pb.LabelRequirement, field: str, operators: frozenset[int]) -> LabelRequirement:
    operator = row.code(message.operator, operators, f"{field}.operator")
    values = tuple(sorted({row.text(value, f"{field}.values") for value in message.values}))
    if operator in _SETS and not values:
        row.refuse(f"{field}.values", "there is none; IN and NOT_IN need at least one")
    if operator in _PRESENCE and values:
        row.refuse(f"{field}.values", "there are some; EXISTS and DOES_NOT_EXIST take none")
    if operator in _NUMBERS and len(message.values) != 1:
        row.refuse(f"{field}.values", f"there are {len(message.values)}; GT and LT take exactly one")
    return LabelRequirement(row.needed_text(message.key, f"{field}.key"), operator, values)
