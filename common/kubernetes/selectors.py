"""Label selectors, node selectors and tolerations.

Two forms with one meaning. Structs are checked as the API server checks them, and become tuples of plain values: a
requirement is (key, `LabelOperator.Code`, values). Values of In and NotIn keep no order and no duplicates: they are
sorted. Raises FieldError with the path below the selector. JSON objects of a cluster, which an API server has checked,
are matched as they are; an operator that does not belong there never matches.

Source: apimachinery meta/v1 validation ValidateLabelSelector, labels Requirement.Matches; core/v1 validation
ValidateNodeSelector; component-helpers nodeaffinity, core/v1 Toleration.ToleratesTaint.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from trimtab.common.kubernetes.kinds.metadata import (
    LabelSelector,
    LabelSelectorRequirement,
    NodeSelector,
    NodeSelectorTerm,
)
from trimtab.common.kubernetes.kinds.storage import TopologyTerm
from trimtab.common.kubernetes.object_errors import FieldError, below
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
_INTEGER = re.compile(r"[+-]?[0-9]+")
_LONGEST_INTEGER = 63
"""Most characters of a label's value."""


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
        for j, expression in enumerate(term.match_label_expressions or ()):
            with below(f"[{i}].matchLabelExpressions[{j}]"):
                expressions.append((_key(expression.key), IN, _values(expression.values or (), IN)))
        out.append((tuple(expressions), ()))
    return tuple(out)


def matches(requirements: Requirements | None, labels: Mapping[str, str]) -> bool:
    """Return whether labels match a label selector (operators In, NotIn, Exists, DoesNotExist)."""
    if requirements is None:
        return False
    return all(_meets(operator, labels.get(key), values) for key, operator, values in requirements)


def selects(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Return whether a label selector, as JSON, matches. An absent one matches nothing, an empty one everything."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return _all_hold(selector.get("matchExpressions"), _LABEL_OPERATORS, labels)


def selects_node(spec: Mapping[str, Any], name: str, labels: Mapping[str, str]) -> bool:
    """Return whether `nodeSelector` and required node affinity of a pod's spec, as JSON, allow a node."""
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    if affinity is None:
        return True
    return any(_term_holds(term, name, labels) for term in affinity.get("nodeSelectorTerms") or ())


def preference(spec: Mapping[str, Any], name: str, labels: Mapping[str, str]) -> int:
    """Return the sum of the weights of a pod's preferred node affinity, as JSON, that a node matches.

    Source: component-helpers nodeaffinity, PreferredSchedulingTerms.Score: a term without requirements matches nothing.
    """
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms = affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    return sum(int(one.get("weight") or 0) for one in terms if _term_holds(one.get("preference") or {}, name, labels))


def tolerates(tolerations: Sequence[Mapping[str, Any]], taint: Mapping[str, Any]) -> bool:
    """Return whether one of the tolerations, as JSON, covers a taint."""
    return any(_covers(toleration, taint) for toleration in tolerations)


def _covers(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    effect, key = toleration.get("effect"), toleration.get("key")
    if effect and effect != taint.get("effect"):
        return False
    if key and key != taint.get("key"):
        return False
    operator = toleration.get("operator") or "Equal"
    if operator == "Exists":
        return True
    return bool(key) and operator == "Equal" and (toleration.get("value") or "") == (taint.get("value") or "")


def _term_holds(term: Mapping[str, Any], name: str, labels: Mapping[str, str]) -> bool:
    expressions, fields = term.get("matchExpressions"), term.get("matchFields")
    if not expressions and not fields:
        return False
    own_fields = {NODE_NAME_FIELD: name}
    return _all_hold(expressions, _NODE_OPERATORS, labels) and _all_hold(fields, _FIELD_OPERATORS, own_fields)


def _all_hold(
    expressions: Iterable[Mapping[str, Any]] | None, operators: Mapping[str, int], labels: Mapping[str, str]
) -> bool:
    return all(
        expression["operator"] in operators
        and _meets(operators[expression["operator"]], labels.get(expression["key"]), expression.get("values") or ())
        for expression in expressions or ()
    )


def _meets(operator: int, value: str | None, values: Sequence[str]) -> bool:
    """Return whether a label, None = absent, meets one requirement."""
    if operator == IN:
        return value is not None and value in values
    if operator == NOT_IN:
        return value is None or value not in values
    if operator in (GT, LT):
        return _compares(operator, value, values)
    return (value is not None) == (operator == EXISTS)


def _compares(operator: int, value: str | None, values: Sequence[str]) -> bool:
    left, right = _integer(value), _integer(values[0] if len(values) == 1 else None)
    if left is None or right is None:
        return False
    return left > right if operator == GT else left < right


def _integer(text: str | None) -> int | None:
    """Parse as Go's ParseInt(text, 10, 64) does; None if that fails."""
    if text is None or len(text) > _LONGEST_INTEGER or _INTEGER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if -(1 << 63) <= number < 1 << 63 else None


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
    for i, expression in enumerate(expressions or ()):
        with below(f"{field}[{i}]"):
            operator = operators.get(expression.operator or "")
            if operator is None:
                names = ", ".join(operators)
                raise FieldError("operator", f"{expression.operator!r} is not an operator here", f"use one of {names}")
            out.append((_key(expression.key), operator, _values(expression.values or (), operator)))
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
