"""The settings of plans for steering, and the result of a plan for each node. Every plan considers all nodes again: a
node that a used-up budget kept can go as soon as the budget allows it, and must then lose its protection.
"""

from typing import Final

from trimtab.clients.verdicts import going, staying
from trimtab.v1 import plan_pb2
from trimtab.v1.reason_pb2 import UnremovableReason

UNNEEDED_S: Final = 600.0
"""Source: CA, `--scale-down-unneeded-time`."""
_NOT_STEERED = frozenset({UnremovableReason.NOT_AUTOSCALED, UnremovableReason.CURRENTLY_BEING_DELETED})
"""Nodes without known group, which cannot be judged, and nodes that are already being removed."""


def settings_to_steer(given: plan_pb2.PlanSettings) -> plan_pb2.PlanSettings:
    """Return the settings of plans for steering: as given, with nodes considered again at once unless set."""
    settings = plan_pb2.PlanSettings()
    settings.CopyFrom(given)
    if not settings.scale_down.HasField("unremovable_node_recheck_timeout"):
        settings.scale_down.unremovable_node_recheck_timeout.FromSeconds(0)
    return settings


def nodes_to_keep(answer: plan_pb2.PlanResponse) -> set[str]:
    """Return the nodes that should stay: all but those that can go together. Those of later waves stay for now."""
    later = {one.node for one in going(answer) if one.wave > 1}
    return later | {one.node for one in staying(answer) if one.reason not in _NOT_STEERED}


def nodes_to_release(answer: plan_pb2.PlanResponse) -> set[str]:
    """Return the nodes that can go together, without any pod losing its place, as far as disruption budgets allow."""
    return {one.node for one in going(answer) if one.wave <= 1}


def unneeded_s(settings: plan_pb2.PlanSettings) -> float:
    """Return for how long a node must be unneeded before it goes, seconds, with the autoscalers' default."""
    scale_down = settings.scale_down
    if not scale_down.HasField("unneeded_time"):
        return UNNEEDED_S
    return scale_down.unneeded_time.ToNanoseconds() / 1e9
