"""Label and node selectors, one object at a time. Source: apimachinery labels, component-helpers nodeaffinity."""

import re

from tests.builders.rows import Labels, NodeRow
from trimtab.planner.model.values import LabelRequirement, NodeAffinityTerm, PodRequirements, Selector
from trimtab.v1.snapshot_pb2 import LabelOperator as Op

NAME = re.compile(r"([A-Za-z0-9]|[A-Za-z0-9][-A-Za-z0-9_.]{0,61}[A-Za-z0-9])\Z")
INTEGER = re.compile(r"[+-]?[0-9]+\Z")


def integer(text: str) -> int | None:
    if not INTEGER.match(text) or not -(2**63) <= int(text) < 2**63:
        return None
    return int(text)


def holds(requirement: LabelRequirement, labels: Labels) -> bool:
    value = labels.get(requirement.key)
    if requirement.operator == Op.IN:
        return value is not None and value in requirement.values
    if requirement.operator == Op.NOT_IN:
        return value is None or value not in requirement.values
    if requirement.operator == Op.EXISTS:
        return value is not None
    if requirement.operator == Op.DOES_NOT_EXIST:
        return value is None
    if value is None or len(requirement.values) != 1:
        return False
    own, bound = integer(value), integer(requirement.values[0])
    if own is None or bound is None:
        return False
    return own > bound if requirement.operator == Op.GT else own < bound


def selects(selector: Selector | None, labels: Labels) -> bool:
    return selector is not None and all(holds(requirement, labels) for requirement in selector)


def parsable(requirement: LabelRequirement) -> bool:
    count = len(requirement.values)
    if requirement.operator in (Op.IN, Op.NOT_IN) and count == 0:
        return False
    if requirement.operator in (Op.EXISTS, Op.DOES_NOT_EXIST) and count != 0:
        return False
    if requirement.operator in (Op.GT, Op.LT) and (count != 1 or integer(requirement.values[0]) is None):
        return False
    return all(value == "" or NAME.match(value) for value in requirement.values)


def term_matches(term: NodeAffinityTerm, node: NodeRow) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    if not all(parsable(requirement) for requirement in term.match_expressions):
        return False
    for field in term.match_fields:
        if field.operator not in (Op.IN, Op.NOT_IN) or len(field.values) != 1:
            return False
        equal = (node.name if field.key == "metadata.name" else "") == field.values[0]
        if node.name and equal != (field.operator == Op.IN):
            return False
    return all(holds(requirement, node.labels) for requirement in term.match_expressions)


def node_matches(spec: PodRequirements, node: NodeRow) -> bool:
    if any(node.labels.get(key) != value for key, value in spec.node_selector):
        return False
    return spec.node_affinity is None or any(term_matches(term, node) for term in spec.node_affinity)
