"""The features that a planner needs so that it ignores nothing that restricts plans: `PlanRequest.required_features`.

proto3 drops fields that the receiver does not know, so an older planner would remove what a newer setting protects. A
setting restricts if some value of it keeps a plan from an action that the plan would otherwise contain: removing a
node, adding nodes, using room, ordering pods for removal. Settings that only choose among plans that are all permitted,
that bound work without changing what is permitted, or that permit more, require nothing.

Each field of the messages of `PlanSettings` is in exactly one of the two tables; `protos/README.md` has the same table
by feature. Snapshots need features too, where a planner that does not know what they contain would place pods on nodes
that cannot have them.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from trimtab.v1 import plan_pb2, snapshot_pb2

_BY_FEATURE: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "balance-limit": ("BalanceSettings.max_difference",),
        "balance-similarity": (
            "BalanceSettings.ignored_labels",
            "BalanceSettings.compared_labels",
            "BalanceSettings.max_memory_difference_ratio",
            "BalanceSettings.max_allocatable_difference_ratio",
            "BalanceSettings.max_free_difference_ratio",
        ),
        "capacity-buffer-reading": ("SlackSettings.capacity_buffer_reading",),
        "capacity-requests": (
            "CapacityRequestSettings.enabled",
            "CapacityRequestSettings.classes",
            "CapacityRequestSettings.processor_instance",
            "CapacityClass.name",
            "CapacityClass.kind",
        ),
        "cluster-health": (
            "ScaleDownSettings.max_total_unready_percentage",
            "ScaleDownSettings.ok_total_unready_count",
        ),
        "cool-downs": (
            "ScaleDownSettings.delay_after_add",
            "ScaleDownSettings.delay_after_delete",
            "ScaleDownSettings.delay_after_failure",
        ),
        "daemonsets-on-new-nodes": ("ScaleUpSettings.force_daemonsets",),
        "decision-switches": ("ScaleUpSettings.enabled", "ScaleDownSettings.enabled"),
        "evict-rules": (
            "ScaleDownSettings.skip_nodes_with_system_pods",
            "ScaleDownSettings.skip_nodes_with_local_storage",
            "ScaleDownSettings.skip_nodes_with_custom_controller_pods",
            "ScaleDownSettings.min_replica_count",
            "ScaleDownSettings.blocking_system_pod_disruption_timeout",
            "ScaleDownSettings.job_pods_unmovable",
        ),
        "consolidation": ("PlannerSettings.disruption_budgets", "NodeGroupSettings.consolidation"),
        "expendable-pods": ("PlannerSettings.expendable_pods_priority_cutoff",),
        "device-utilization": ("ScaleDownSettings.device_utilization_only",),
        "gangs": ("GangSettings.serve_optional_members", "GangSettings.move_running"),
        "gpu-label": ("PlannerSettings.gpu_label",),
        "max-evaluated-nodes": ("ScaleDownSettings.max_evaluated_nodes",),
        "max-waves": ("ScaleDownSettings.max_waves",),
        "min-saving-per-eviction": ("ScaleDownSettings.min_saving_per_eviction",),
        "node-group-overrides": (
            "PlanSettings.node_groups",
            "NodeGroupSettings.utilization_threshold",
            "NodeGroupSettings.gpu_utilization_threshold",
            "NodeGroupSettings.unneeded_time",
            "NodeGroupSettings.unready_time",
            "NodeGroupSettings.ignore_daemonsets_utilization",
            "NodeGroupSettings.job_pods_unmovable",
        ),
        "node-start-times": ("PlannerSettings.max_node_startup_time", "PlannerSettings.max_node_provision_time"),
        "parallelism": (
            "ScaleDownSettings.max_scale_down_parallelism",
            "ScaleDownSettings.max_drain_parallelism",
        ),
        "pod-cost-targets": (
            "PodCostTarget.namespaces",
            "PodCostTarget.owner_kinds",
            "PodCostTarget.selector",
        ),
        "recent-evictions": ("PlannerSettings.recent_eviction_ttl",),
        "replacement-budgets": (
            "ReplacementSettings.budgets",
            "DisruptionBudget.nodes",
            "DisruptionBudget.node_groups",
            "DisruptionBudget.max_nodes",
            "DisruptionBudget.reasons",
            "DisruptionBudget.schedule",
            "DisruptionBudget.duration",
        ),
        "replacement-limits": (
            "ReplacementSettings.enabled",
            "ReplacementSettings.max_surge_nodes",
            "ReplacementSettings.max_leaving_nodes",
            "ReplacementSettings.max_waves",
        ),
        "replacement-savings": (
            "ReplacementSettings.min_saving_per_hour",
            "ReplacementSettings.min_saving_share",
            "ReplacementSettings.min_saving_per_eviction",
            "ReplacementSettings.price_per_eviction",
            "ReplacementSettings.max_payback_time",
            "ReplacementSettings.min_balanced_score",
        ),
        "replacement-spot": (
            "ReplacementSettings.spot",
            "SpotReplacementSettings.enabled",
            "SpotReplacementSettings.min_alternatives",
        ),
        "replacement-stability": (
            "ReplacementSettings.stability_margin",
            "ReplacementSettings.consolidate_after",
            "NodeGroupSettings.consolidate_after",
            "ReplacementSettings.avoid_time",
            "ReplacementSettings.stable_time",
            "ReplacementSettings.do_not_disrupt",
        ),
        "reserved-room": ("PlannerSettings.reserve_for_pending_pods", "PlannerSettings.reserve_for_unmarked_pods"),
        "resource-limits": (
            "PlannerSettings.limits",
            "ResourceLimit.resource",
            "ResourceLimit.minimum",
            "ResourceLimit.maximum",
            "ResourceLimit.nodes",
            "ResourceLimit.maximum_added",
        ),
        "scale-up-bounds": ("ScaleUpSettings.max_new_nodes",),
        "scale-up-delay": ("ScaleUpSettings.new_pod_scale_up_delay",),
        "slack-amounts": (
            "SlackSettings.extra_capacity_min_rate",
            "SlackSettings.resources",
            "SlackAmount.rate",
            "SlackAmount.floor",
            "SlackAmount.ceiling",
        ),
        "slack-pools": (
            "SlackSettings.pools",
            "SlackPool.node_groups",
            "SlackPool.nodes",
            "SlackPool.topology_key",
            "SlackPool.extra_capacity_min_rate",
            "SlackPool.resources",
            "SlackPool.schedules",
        ),
        "slack-schedules": (
            "SlackSettings.schedules",
            "SlackSchedule.cron",
            "SlackSchedule.duration",
            "SlackSchedule.time_zone",
            "SlackSchedule.extra_capacity_min_rate",
            "SlackSchedule.resources",
            "SlackSchedule.replicas",
        ),
        "slack-sizes": (
            "SlackSettings.granularity",
            "SlackSettings.strategy",
            "SlackPool.granularity",
            "SlackPool.strategy",
        ),
        "taint-comparison-operators": ("SimulationSettings.taint_toleration_comparison_operators",),
        "transient-taints": ("ScaleUpSettings.startup_taints", "ScaleUpSettings.status_taints"),
        "unneeded-times": ("ScaleDownSettings.unneeded_time", "ScaleDownSettings.unready_time"),
        "unready-nodes": ("ScaleDownSettings.unready_enabled",),
        "utilization-thresholds": (
            "ScaleDownSettings.utilization_threshold",
            "ScaleDownSettings.gpu_utilization_threshold",
        ),
    }
)
RESTRICTING: Final[Mapping[str, str]] = MappingProxyType(
    {field: feature for feature, fields in _BY_FEATURE.items() for field in fields}
)
"""The feature that a planner needs for a setting, by "Message.field"."""
UNRESTRICTING: Final = frozenset(
    (
        # They only contain settings.
        "PlanSettings.scale_up", "PlanSettings.scale_down", "PlanSettings.slack", "PlanSettings.pod_costs",
        "PlanSettings.replacement", "PlanSettings.gangs", "PlanSettings.capacity_requests", "PlanSettings.simulation",
        "PlanSettings.planner", "PlannerSettings.balance",
        # It chooses among permitted plans.
        "ReplacementSettings.choice",
        # They say when a condition is written, and how long room is held.
        "CapacityRequestSettings.provisioned_when", "CapacityRequestSettings.booking_time",
        "CapacityRequestSettings.max_seek_time",
        # Parts of settings for which a feature is required, or that restrict nothing.
        "Selector.match_labels", "Selector.match_expressions", "SelectorRequirement.key",
        "SelectorRequirement.operator", "SelectorRequirement.values", "PodSelector.namespaces", "PodSelector.labels",
        "TaintNames.keys", "TaintNames.prefixes", "SlackPool.name",
        # They choose among plans that are all permitted.
        "PlanSettings.search_effort", "ScaleUpSettings.balance_similar_node_groups", "ScaleUpSettings.expanders",
        "ScaleUpSettings.priority", "ScaleUpSettings.highest_priority",
        "ScaleUpSettings.template_source", "ScaleUpSettings.spread_over_new_domains",
        "PriorityExpanderSettings.ranks", "PriorityRank.rank", "PriorityRank.patterns",
        "HighestPriorityExpanderSettings.label",
        "ScaleDownSettings.candidate_orders", "ScaleDownSettings.balance", "ScaleDownSettings.objective",
        "ScaleDownSettings.unremovable_node_recheck_timeout",
        "SlackSettings.resize_threshold", "PodCostSettings.targets", "PodCostTarget.strategies",
        "PodCostTerm.strategy", "PodCostTerm.weight", "PodCostTerm.threshold", "PodCostTerm.topology_key",
        "PodCostTerm.annotation", "PodCostTerm.name",
        # They permit more.
        "GangSettings.count_missing_members",
        "SimulationSettings.topology_spread_timeout", "ScaleUpSettings.scheduler_names",
        "ScaleDownSettings.ignore_daemonsets_utilization", "ScaleDownSettings.ignore_mirror_pods_utilization",
        "ScaleDownSettings.delay_type_local", "SlackSettings.ignored_pods",
    )
)  # fmt: skip
"""Settings that a planner may ignore without doing what the caller forbade, by "Message.field"."""
OF_SNAPSHOTS: Final[Mapping[str, str]] = MappingProxyType(
    {"ClusterSnapshot.devices": "devices", "PodSpec.claims": "devices"}
)
"""The feature that a planner needs for a part of a snapshot or delta, by "Message.field". A delta that lacks the part
needs no feature: the planner that has its base had it."""


def required_features(settings: plan_pb2.PlanSettings) -> list[str]:
    """Return the features that a planner needs for these settings, sorted. A setting that is given counts, whatever its
    value. O(settings)."""
    return sorted({RESTRICTING[name] for name in _given(settings) if name in RESTRICTING})


def snapshot_features(rows: snapshot_pb2.ClusterSnapshot) -> list[str]:
    """Return the features that a planner needs for a snapshot or the changed rows of a delta, sorted. O(specs)."""
    dictionaries = (rows, rows.slack_requests.dictionary, rows.capacity_requests.dictionary)
    given = {"PodSpec.claims": any(spec.claims for one in dictionaries for spec in one.pod_specs)}
    given["ClusterSnapshot.devices"] = bool(rows.devices.ListFields())
    return sorted({feature for field, feature in OF_SNAPSHOTS.items() if given[field]})


def require_features(request: plan_pb2.PlanRequest, rows: snapshot_pb2.ClusterSnapshot | None = None) -> None:
    """Add to a request, in place, the features that its settings and its snapshot need, to those that its caller
    requires. rows : the snapshot or the changed rows of the delta, None = nothing has changed."""
    of_snapshot = snapshot_features(rows) if rows is not None else []
    needed = sorted({*request.required_features, *required_features(request.settings), *of_snapshot})
    if needed != list(request.required_features):
        request.required_features[:] = needed


def _given(message: Message) -> Iterator[str]:
    """Yield "Message.field" of every field that is given, in the message and below it."""
    for field, value in message.ListFields():
        yield f"{message.DESCRIPTOR.name}.{field.name}"
        for inner in _messages(field, value):
            yield from _given(inner)


def _messages(field: FieldDescriptor, value: Any) -> Iterator[Message]:
    """Yield the messages that are the value of a field."""
    if field.message_type is None:
        return
    if field.message_type.GetOptions().map_entry:
        if field.message_type.fields_by_name["value"].message_type is not None:
            yield from value.values()
    elif field.is_repeated:
        yield from value
    else:
        yield value
