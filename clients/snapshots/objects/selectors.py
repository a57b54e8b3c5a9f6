"""Label and node selectors, checked as the API server checks them, as tuples of plain values.

A requirement is (key, `LabelOperator.Code`, values). Values of In and NotIn keep no order and no duplicates: they are
sorted. Errors: FieldError with the path below the selector.

Source: apimachinery meta/v1 validation ValidateLabelSelector; core/v1 validation ValidateNodeSelector.
"""

from collections.abc import Iterable

from trimtab.clients.snapshots.objects.errors import FieldError, below
from trimtab.clients.snapshots.objects.kinds.metadata import (
    LabelSelector,
    LabelSelectorRequirement,
    NodeSelector,
    NodeSelectorTerm,
)
from trimtab.clients.snapshots.objects.kinds.storage import TopologyTerm
from trimtab.v1.snapshot_pb2 import LabelOperator

Requirement = tuple[str, int, tuple[str, ...]]
Requirements = tuple[Requirement, ...]
Terms = tuple[tuple[Requirements, Requirements], ...]
"""Alternatives: (requirements on labels, requirements on fields)."""

IN, NOT_IN = int(LabelOperator.IN), int(LabelOperator.NOT_IN)
EXISTS, DOES_NOT_EXIST = int(LabelOperator.EXISTS), int(LabelOperator.DOES_NOT_EXIST)
GT, LT = int(LabelOperator.GT), int(LabelOperator.LT)

_LABEL_OPERATORS = {"In": IN, "NotIn": NOT_IN, "Exists": EXISTS, "DoesNotExist": DOES_NOT_EXIST}
_NODE_OPERATORS = _LABEL_OPERATORS | {"Gt": GT, "Lt": LT}
_FIELD_OPERATORS = {"In": IN, "NotIn": NOT_IN}
NODE_NAME_FIELD = "metadata.name"


def label_selector(selector: LabelSelector | None) -> Requirements | None:
    """Return the requirements of a label selector; None for none, which matches nothing; () matches everything."""
    if selector is None:
        return None
    with below("matchLabels"):
        exact = tuple((_key(key), IN, (value,)) for key, value in sorted((selector.match_labels or {}).items()))
    return exact + _expressions("matchExpressions", selector.match_expressions, _LABEL_OPERATORS)


def node_selector_terms(selector: NodeSelector) -> Terms:
    """Return the alternatives of a node selector; without any, as for the scheduler, no node matches."""
    return tuple(_term(i, term) for i, term in enumerate(selector.node_selector_terms or ()))


def topology_terms(topologies: list[TopologyTerm] | None) -> Terms | None:
    """Return allowed topologies of a storage class as alternatives; None when every topology is allowed."""
    if not topologies:
        return None
    out = []
    for i, term in enumerate(topologies):
        expressions = []
        for j, one in enumerate(term.match_label_expressions or ()):
            with below(f"[{i}].matchLabelExpressions[{j}]"):
                expressions.append((_key(one.key), IN, _values(one.values or (), IN)))
        out.append((tuple(expressions), ()))
    return tuple(out)


def matches(requirements: Requirements | None, labels: dict[str, str]) -> bool:
    """Return whether labels match a label selector (operators In, NotIn, Exists, DoesNotExist)."""
    if requirements is None:
        return False
    return all(_meets(operator, labels.get(key), values) for key, operator, values in requirements)


def _meets(operator: int, value: str | None, values: tuple[str, ...]) -> bool:
    if operator == IN:
        return value is not None and value in values
    if operator == NOT_IN:
        return value is None or value not in values
    return (value is not None) == (operator == EXISTS)


def _term(index: int, term: NodeSelectorTerm) -> tuple[Requirements, Requirements]:
    with below(f"nodeSelectorTerms[{index}]"):
        labels = _expressions("matchExpressions", term.match_expressions, _NODE_OPERATORS)
        fields = _expressions("matchFields", term.match_fields, _FIELD_OPERATORS)
        for i, (key, _, values) in enumerate(fields):
            if key != NODE_NAME_FIELD:
                raise FieldError(f"matchFields[{i}].key", f"{key!r} is not a field of nodes", f"use {NODE_NAME_FIELD}")
            if len(values) != 1:
                raise FieldError(f"matchFields[{i}].values", "there must be exactly one value", "give one node name")
    return labels, fields


def _expressions(
    field: str, expressions: Iterable[LabelSelectorRequirement] | None, operators: dict[str, int]
) -> Requirements:
    out = []
    for i, one in enumerate(expressions or ()):
        with below(f"{field}[{i}]"):
            operator = operators.get(one.operator or "")
            if operator is None:
                names = ", ".join(operators)
                raise FieldError("operator", f"{one.operator!r} is not an operator here", f"use one of {names}")
            out.append((_key(one.key), operator, _values(one.values or (), operator)))
    return tuple(out)


def _key(key: str | None) -> str:
    if not key:
        raise FieldError("key", "it is missing", "name the label")
    return key


def _values(values: Iterable[str], operator: int) -> tuple[str, ...]:
    out = tuple(sorted(set(values)))
    if operator in (IN, NOT_IN) and not out:
        raise FieldError("values", "there must be at least one value with In and NotIn", "give the values")
    if operator in (EXISTS, DOES_NOT_EXIST) and out:
        raise FieldError("values", "there must be none with Exists and DoesNotExist", "drop the values")
    if operator in (GT, LT) and len(out) != 1:
        raise FieldError("values", "there must be exactly one value with Gt and Lt", "give one integer")
    return out
