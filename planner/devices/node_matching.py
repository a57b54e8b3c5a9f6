"""Whether a node reaches devices: by name, as every node, or by a node selector.

Unlike the node affinity of pods, a selector with a requirement that cannot be parsed is an error, not a refusal.
Source: k8s.io/dynamic-resource-allocation/structured, NodeMatches, v0.36.3; component-helpers
nodeaffinity.NewNodeSelector.
"""

from trimtab.planner.devices.model import DeviceNode, NodeSelection
from trimtab.planner.model.label_syntax import NAME_FIELD, is_parsable, is_parsable_field, parse_integer
from trimtab.planner.model.values import LabelRequirement, NodeAffinityTerm
from trimtab.v1.snapshot_pb2 import LabelOperator


class NodeSelectorError(Exception):
    """Raised for a node selector that cannot be parsed; the argument is for people."""


def is_given(nodes: NodeSelection) -> bool:
    """Return whether a selection says anything."""
    return bool(nodes.node_name) or nodes.all_nodes or nodes.selector is not None


def reaches(nodes: NodeSelection, node: DeviceNode, labels: dict[str, str]) -> bool:
    """Return whether the node is selected; labels : those of the node. Raises NodeSelectorError."""
    if nodes.node_name:
        return nodes.node_name == node.name
    if nodes.all_nodes:
        return True
    if nodes.selector is None:
        return False
    for term in nodes.selector:
        for requirement in term.match_expressions:
            if not is_parsable(requirement):
                raise NodeSelectorError(f"requirement on label {requirement.key!r} cannot be parsed")
        for requirement in term.match_fields:
            if not is_parsable_field(requirement):
                raise NodeSelectorError(f"requirement on field {requirement.key!r} cannot be parsed")
    return any(_matches(term, node, labels) for term in nodes.selector)


def _matches(term: NodeAffinityTerm, node: DeviceNode, labels: dict[str, str]) -> bool:
    if not (term.match_expressions or term.match_fields):
        return False
    fields = {NAME_FIELD: node.name}
    return all(_holds(one, labels.get(one.key)) for one in term.match_expressions) and all(
        (fields.get(one.key, "") == one.values[0]) == (one.operator == LabelOperator.IN) for one in term.match_fields
    )


def _holds(requirement: LabelRequirement, value: str | None) -> bool:
    operator = requirement.operator
    if operator == LabelOperator.EXISTS:
        return value is not None
    if operator == LabelOperator.DOES_NOT_EXIST:
        return value is None
    if operator == LabelOperator.NOT_IN:
        return value not in requirement.values
    if value is None:
        return False
    if operator == LabelOperator.IN:
        return value in requirement.values
    number, bound = parse_integer(value), parse_integer(requirement.values[0])
    if number is None or bound is None:
        return False
    return number > bound if operator == LabelOperator.GT else number < bound
