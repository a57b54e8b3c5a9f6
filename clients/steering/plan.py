"""What steering asks of a plan, and what a plan says about each node.

Decides that every plan looks at all nodes again: one that could not go because a budget was used up can go as soon as
it is not, and its protection has to go with that.
"""

from trimtab.v1 import plan_pb2
from trimtab.v1.reason_pb2 import UnremovableReason

_NOT_STEERED = frozenset({UnremovableReason.NOT_AUTOSCALED, UnremovableReason.CURRENTLY_BEING_DELETED})
"""Nodes of no known group, of which nothing can be said, and nodes that go already."""


def settings_to_steer(given: plan_pb2.PlanSettings) -> plan_pb2.PlanSettings:
    """Return the settings of plans to steer by: as given, and nodes are looked at again at once unless that is set."""
    settings = plan_pb2.PlanSettings()
    settings.CopyFrom(given)
    if not settings.scale_down.HasField("unremovable_node_recheck_timeout"):
        settings.scale_down.unremovable_node_recheck_timeout.FromSeconds(0)
    return settings


def nodes_to_keep(answer: plan_pb2.PlanResponse) -> set[str]:
    """Return the nodes that should stay: all but those that can go together."""
    found = answer.scale_down.unremovable
    return {one.node for one in found if one.reason not in _NOT_STEERED}


def nodes_to_release(answer: plan_pb2.PlanResponse) -> set[str]:
    """Return the nodes that can go together, without any pod losing its place."""
    return {one.node for one in answer.scale_down.unneeded}
