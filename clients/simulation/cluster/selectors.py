"""Label selectors, node selectors and tolerations on raw Kubernetes objects.

Decides whether one object matches. An absent selector matches nothing, an empty one everything.
Source: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/, kube-scheduler's NodeAffinity and
TaintToleration.
"""

from collections.abc import Mapping, Sequence
from typing import Any

Labels = Mapping[str, str]


def matches(selector: Mapping[str, Any] | None, labels: Labels) -> bool:
    """Return whether a label selector (`matchLabels`, `matchExpressions`) matches."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_holds(expression, labels) for expression in selector.get("matchExpressions") or ())


def matches_node(spec: Mapping[str, Any], name: str, labels: Labels) -> bool:
    """Return whether a pod's `nodeSelector` and required node affinity allow a node."""
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    if affinity is None:
        return True
    return any(_term_holds(term, name, labels) for term in affinity.get("nodeSelectorTerms") or ())


def tolerates(tolerations: Sequence[Mapping[str, Any]], taint: Mapping[str, Any]) -> bool:
    """Return whether one of the tolerations covers a taint."""
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


def _term_holds(term: Mapping[str, Any], name: str, labels: Labels) -> bool:
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    return all(_holds(expression, labels) for expression in expressions) and all(
        _holds(field, {"metadata.name": name}) for field in fields
    )


def _holds(expression: Mapping[str, Any], labels: Labels) -> bool:
    """Return whether one requirement holds. An unknown operator never holds."""
    value = labels.get(expression["key"])
    values = expression.get("values") or ()
    match expression["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" as operator:
            return _compares(operator, value, values)
        case _:
            return False


def _compares(operator: str, value: str | None, values: Sequence[str]) -> bool:
    try:
        left, right = int(value or ""), int(values[0])
    except (ValueError, IndexError):
        return False
    return left > right if operator == "Gt" else left < right
