"""Settings of scale-down, resolved. Times in nanoseconds. Meaning, defaults and ranges are those of the contract."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from trimtab.planner.model.settings.reading import overridden, resolved, setting, value_of
from trimtab.planner.model.settings.search import USUAL, SearchBudgets, resolve_search
from trimtab.v1 import plan_pb2 as pb


@dataclass(frozen=True)
class GroupScaleDownSettings:
    """Settings that may differ between node groups."""

    utilization_threshold: float = setting("scale_down.utilization_threshold")
    gpu_utilization_threshold: float = setting("scale_down.gpu_utilization_threshold")
    unneeded_time_ns: int = setting("scale_down.unneeded_time")
    unready_time_ns: int = setting("scale_down.unready_time")
    ignore_daemonsets_utilization: bool = setting("scale_down.ignore_daemonsets_utilization")
    consolidation: int = setting("node_groups.consolidation")
    """`Consolidation.Code`."""
    job_pods_unmovable: bool = setting("scale_down.job_pods_unmovable")


@dataclass(frozen=True)
class ScaleDownSettings:
    """Scale-down, resolved from `PlanSettings`."""

    enabled: bool = setting("scale_down.enabled")
    general: GroupScaleDownSettings = field(default_factory=GroupScaleDownSettings)
    """For node groups without overrides."""
    groups: Mapping[str, GroupScaleDownSettings] = field(default_factory=dict)
    """By node group id, complete: fields missing in the override are taken from `general`."""
    unready_enabled: bool = setting("scale_down.unready_enabled")
    recheck_timeout_ns: int = setting("scale_down.unremovable_node_recheck_timeout")
    max_parallelism: int = setting("scale_down.max_scale_down_parallelism")
    max_drain_parallelism: int = setting("scale_down.max_drain_parallelism")
    skip_system_pods: bool = setting("scale_down.skip_nodes_with_system_pods")
    skip_local_storage: bool = setting("scale_down.skip_nodes_with_local_storage")
    skip_custom_controllers: bool = setting("scale_down.skip_nodes_with_custom_controller_pods")
    min_replica_count: int = setting("scale_down.min_replica_count")
    system_pod_timeout_ns: int = setting("scale_down.blocking_system_pod_disruption_timeout")
    ignore_mirror_pods_utilization: bool = setting("scale_down.ignore_mirror_pods_utilization")
    max_evaluated: int = setting("scale_down.max_evaluated_nodes")
    candidate_orders: tuple[int, ...] = setting("scale_down.candidate_orders")
    """`CandidateOrder.Code`s to try alone; () = the usual ones, and whatever else finds better plans."""
    min_saving_per_eviction: float = setting("scale_down.min_saving_per_eviction")
    balance: bool = setting("scale_down.balance")
    """Also where a largest difference between groups requires it."""
    delay_after_add_ns: int = setting("scale_down.delay_after_add")
    delay_after_delete_ns: int = setting("scale_down.delay_after_delete")
    delay_after_failure_ns: int = setting("scale_down.delay_after_failure")
    delay_type_local: bool = setting("scale_down.delay_type_local")
    objective: int = setting("scale_down.objective")
    """`Objective.Code`; UNSPECIFIED: MONEY where the prices of all candidates are known, else COUNT."""
    max_unready_percentage: float = setting("scale_down.max_total_unready_percentage")
    ok_unready_count: int = setting("scale_down.ok_total_unready_count")
    max_waves: int = setting("scale_down.max_waves")
    """One without a search beyond the first plan."""
    device_utilization_only: bool = setting("scale_down.device_utilization_only")
    search: SearchBudgets = USUAL
    """How much is searched for a better plan."""

    def of_group(self, group: str) -> GroupScaleDownSettings:
        """Return the settings of a node group; "" and groups without overrides have the general ones."""
        return self.groups.get(group, self.general)


def resolve_scale_down(message: pb.PlanSettings) -> ScaleDownSettings:
    """Resolve the scale-down part of `PlanSettings`. Raises SettingsError for an invalid value."""
    general, search = resolved(GroupScaleDownSettings, message), resolve_search(message)
    waves = value_of(message.scale_down, "max_waves", "scale_down")
    return resolved(
        ScaleDownSettings,
        message,
        general=general,
        groups={
            name: overridden(general, message.node_groups[name], f"node_groups[{name!r}]")
            for name in sorted(message.node_groups)
        },
        balance=message.scale_down.balance or message.planner.balance.max_difference > 0,
        max_waves=waves if search.compares else 1,
        search=search,
    )
