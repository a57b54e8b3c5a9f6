"""The thresholds and timers that a request sets for a node. Read only to show them; the planner applies them."""

from google.protobuf.duration_pb2 import Duration

from trimtab.v1 import plan_pb2, snapshot_pb2
from trimtab.v1.reason_pb2 import UnremovableReason

DEFAULT_THRESHOLD, DEFAULT_UNNEEDED_S, DEFAULT_UNREADY_S = 0.5, 600.0, 1200.0
DEFAULT_PARALLELISM = 10
"""Defaults of `ScaleDownSettings`, as documented in its comments."""


def threshold(settings: plan_pb2.PlanSettings, node: snapshot_pb2.Node) -> float:
    """Return the utilization up to which a node without GPU is a candidate, 0 to 1."""
    override = _override(settings, node)
    if override.HasField("utilization_threshold"):
        return override.utilization_threshold
    general = settings.scale_down
    return general.utilization_threshold if general.HasField("utilization_threshold") else DEFAULT_THRESHOLD


def wait_s(settings: plan_pb2.PlanSettings, node: snapshot_pb2.Node, reason: int) -> float:
    """Return how long a node has to be unneeded before it is deleted, seconds. reason : why it does not go now, which
    says whether the planner counts it as ready."""
    unready = reason == UnremovableReason.NOT_UNREADY_LONG_ENOUGH
    field, default = ("unready_time", DEFAULT_UNREADY_S) if unready else ("unneeded_time", DEFAULT_UNNEEDED_S)
    for one in (_override(settings, node), settings.scale_down):
        if one.HasField(field):  # type: ignore[arg-type]
            chosen: Duration = getattr(one, field)
            return chosen.ToTimedelta().total_seconds()
    return default


def remaining_s(
    settings: plan_pb2.PlanSettings, node: snapshot_pb2.Node, unneeded: plan_pb2.UnneededNode, now_ns: int
) -> float:
    """Return how much longer a node has to stay unneeded, seconds, at least 0."""
    passed_s = (now_ns - unneeded.since.ToNanoseconds()) / 1e9
    return max(0.0, wait_s(settings, node, unneeded.not_now_reason) - passed_s)


def _override(settings: plan_pb2.PlanSettings, node: snapshot_pb2.Node) -> plan_pb2.NodeGroupSettings:
    """Return the settings of the node's group."""
    groups = settings.node_groups
    return groups[node.node_group] if node.node_group in groups else plan_pb2.NodeGroupSettings()
