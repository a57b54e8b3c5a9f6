"""The threshold that a request sets for a node, and what is left of its timer. Read only to show them; the planner
applies them.
"""

from trimtab.v1 import plan_pb2, snapshot_pb2

DEFAULT_THRESHOLD = 0.5
DEFAULT_PARALLELISM = 10
"""Defaults of `ScaleDownSettings`, as documented in its comments."""


def threshold(settings: plan_pb2.PlanSettings, node: snapshot_pb2.Node) -> float:
    """Return the utilization up to which a node without GPU is a candidate, 0 to 1."""
    override = _override(settings, node)
    if override.HasField("utilization_threshold"):
        return override.utilization_threshold
    general = settings.scale_down
    return general.utilization_threshold if general.HasField("utilization_threshold") else DEFAULT_THRESHOLD


def remaining_s(verdict: plan_pb2.NodeVerdict, now_ns: int) -> float:
    """Return how much longer the timer of a node keeps it, seconds; 0 = no timer does."""
    if not verdict.HasField("goes_at"):
        return 0.0
    return max(0.0, (verdict.goes_at.ToNanoseconds() - now_ns) / 1e9)


def _override(settings: plan_pb2.PlanSettings, node: snapshot_pb2.Node) -> plan_pb2.NodeGroupSettings:
    """Return the settings of the node's group."""
    groups = settings.node_groups
    return groups[node.node_group] if node.node_group in groups else plan_pb2.NodeGroupSettings()
