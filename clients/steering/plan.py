"""What a plan says about each node, as steering needs it. Decides nothing."""

from trimtab.v1 import plan_pb2
from trimtab.v1.reason_pb2 import UnremovableReason

_NOT_STEERED = frozenset({UnremovableReason.NOT_AUTOSCALED, UnremovableReason.CURRENTLY_BEING_DELETED})
"""Nodes of no known group, of which nothing can be said, and nodes that go already."""


def nodes_to_keep(answer: plan_pb2.PlanResponse) -> set[str]:
    """Return the nodes that should stay: all but those that can go together."""
    found = answer.scale_down.unremovable
    return {one.node for one in found if one.reason not in _NOT_STEERED}


def nodes_to_release(answer: plan_pb2.PlanResponse) -> set[str]:
    """Return the nodes that can go together, without any pod losing its place."""
    return {one.node for one in answer.scale_down.unneeded}
