"""Settings of scale-down, resolved: defaults filled in, durations as integers, values checked.

Times in nanoseconds. Defaults are upstream's (`facts` of the Cluster Autoscaler's flags) unless the field's docstring
gives a reason.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from google.protobuf.message import Message

from trimtab.planner.model.settings.reading import SECOND_NS, SettingsError, count, duration_ns, flag, number, share
from trimtab.planner.model.settings.search import USUAL, SearchBudgets, resolve_search
from trimtab.v1 import plan_pb2 as pb


@dataclass(frozen=True)
class GroupScaleDownSettings:
    """Settings that may differ between node groups."""

    utilization_threshold: float = 0.5
    """Nodes at most this much used are candidates, 0 to 1. `--scale-down-utilization-threshold`."""
    gpu_utilization_threshold: float = 0.5
    """The same for GPU nodes. `--scale-down-gpu-utilization-threshold`."""
    unneeded_time_ns: int = 600 * SECOND_NS
    """How long a ready node is unneeded before it goes. `--scale-down-unneeded-time`."""
    unready_time_ns: int = 1200 * SECOND_NS
    """The same for an unready node. `--scale-down-unready-time`."""
    ignore_daemonsets_utilization: bool = False
    """Leave DaemonSet pods out of utilization. `--ignore-daemonsets-utilization`."""
    consolidation: int = pb.Consolidation.WHENEVER_POSSIBLE
    """`Consolidation.Code`: which nodes may go. Karpenter's `consolidationPolicy`; upstream removes any."""
    job_pods_unmovable: bool = False
    """Pods of Jobs keep their nodes. Off, as upstream; the Zalando fork always does this."""


@dataclass(frozen=True)
class ScaleDownSettings:
    """Scale-down, resolved from `PlanSettings`."""

    enabled: bool = True
    """Whether the decision is taken. `--scale-down-enabled`."""
    general: GroupScaleDownSettings = field(default_factory=GroupScaleDownSettings)
    """For node groups without overrides."""
    groups: Mapping[str, GroupScaleDownSettings] = field(default_factory=dict)
    """By node group id, complete: fields missing in the override are taken from `general`."""
    unready_enabled: bool = True
    """Whether unready nodes go. `--scale-down-unready-enabled`."""
    recheck_timeout_ns: int = 300 * SECOND_NS
    """How long the result of a failed simulation stays valid. `--unremovable-node-recheck-timeout`."""
    max_parallelism: int = 10
    """Most nodes being deleted at a time. `--max-scale-down-parallelism`."""
    max_drain_parallelism: int = 10
    """Most nodes being drained at a time. Upstream's 1 drains serially; ours are proven jointly removable."""
    skip_system_pods: bool = True
    """kube-system pods without a budget keep their node. `--skip-nodes-with-system-pods`."""
    skip_local_storage: bool = True
    """Pods with local storage keep their node. `--skip-nodes-with-local-storage`."""
    skip_custom_controllers: bool = True
    """Pods of controllers of unknown kind keep their node. `--skip-nodes-with-custom-controller-pods`."""
    min_replica_count: int = 0
    """Fewest replicas of a controller whose pods move. `--min-replica-count`."""
    system_pod_timeout_ns: int = 3600 * SECOND_NS
    """Age from which a kube-system pod no longer keeps its node. `--blocking-system-pod-distruption-timeout`."""
    ignore_mirror_pods_utilization: bool = False
    """Leave mirror pods out of utilization. `--ignore-mirror-pods-utilization`."""
    max_evaluated: int = 0
    """Simulate at most this many nodes besides the last unneeded; 0 = no limit, because the simulation is fast."""
    candidate_orders: tuple[int, ...] = ()
    """`CandidateOrder.Code`s to try alone; () = the usual ones, and whatever else finds better plans."""
    min_saving_per_eviction: float = 0.0
    """Saving per hour and eviction below which no pod is moved. Off: it needs prices."""
    balance: bool = False
    """The largest of similar node groups, and in it the largest zone, loses nodes first. Off, as upstream."""
    delay_after_add_ns: int = 600 * SECOND_NS
    """Time without deletions after a group has grown. `--scale-down-delay-after-add`."""
    delay_after_delete_ns: int = 0
    """The same after a deletion was started. `--scale-down-delay-after-delete`."""
    delay_after_failure_ns: int = 180 * SECOND_NS
    """The same after a failed deletion. `--scale-down-delay-after-failure`."""
    delay_type_local: bool = False
    """Delays apply to each node group separately, not to the cluster. `--scale-down-delay-type-local`."""
    objective: int = pb.Objective.UNSPECIFIED
    """`Objective.Code` that plans are compared by first; UNSPECIFIED: MONEY where the prices of all candidates are
    known, as nodes are paid for by price, else COUNT. Upstream compares no plans."""
    max_unready_share: float = 0.45
    """If a larger share of all nodes is unready, no node goes. `--max-total-unready-percentage`."""
    ok_unready_count: int = 3
    """Up to this many unready nodes do not stop scale-down. `--ok-total-unready-count`."""
    max_waves: int = 10
    """Waves to plan, each within what disruption budgets allow once the pods of the waves before run again. Upstream
    plans one. Ten, because nodes that go much later keep the soft taint until then."""
    device_utilization_only: bool = True
    """The utilization of a node with devices is their share alone, as upstream; else the largest of all shares."""
    search: SearchBudgets = USUAL
    """How much is searched for a better plan."""

    def of_group(self, group: str) -> GroupScaleDownSettings:
        """Return the settings of a node group; "" and groups without overrides have the general ones."""
        return self.groups.get(group, self.general)


def resolve_scale_down(message: pb.PlanSettings) -> ScaleDownSettings:
    """Resolve the scale-down part of `PlanSettings`. Raises SettingsError for an invalid value."""
    given = message.scale_down
    path = "scale_down"
    general = _group_settings(given, GroupScaleDownSettings(), path)
    groups = {
        name: _group_settings(message.node_groups[name], general, f"node_groups[{name!r}]")
        for name in sorted(message.node_groups)
    }
    defaults, search = ScaleDownSettings(), resolve_search(message)
    return replace(
        defaults,
        general=general,
        groups=groups,
        recheck_timeout_ns=duration_ns(given, "unremovable_node_recheck_timeout", defaults.recheck_timeout_ns, path),
        max_parallelism=count(given, "max_scale_down_parallelism", defaults.max_parallelism, path, 1),
        max_drain_parallelism=count(given, "max_drain_parallelism", defaults.max_drain_parallelism, path, 1),
        min_replica_count=count(given, "min_replica_count", defaults.min_replica_count, path),
        system_pod_timeout_ns=duration_ns(
            given, "blocking_system_pod_disruption_timeout", defaults.system_pod_timeout_ns, path
        ),
        max_evaluated=count(given, "max_evaluated_nodes", defaults.max_evaluated, path),
        candidate_orders=_orders(given, path),
        objective=_objective(given, path),
        min_saving_per_eviction=number(given, "min_saving_per_eviction", defaults.min_saving_per_eviction, path),
        delay_after_add_ns=duration_ns(given, "delay_after_add", defaults.delay_after_add_ns, path),
        delay_after_delete_ns=duration_ns(given, "delay_after_delete", defaults.delay_after_delete_ns, path),
        delay_after_failure_ns=duration_ns(given, "delay_after_failure", defaults.delay_after_failure_ns, path),
        max_unready_share=_percentage(given, "max_total_unready_percentage", defaults.max_unready_share, path),
        ok_unready_count=count(given, "ok_total_unready_count", defaults.ok_unready_count, path),
        max_waves=_waves(given, search, path),
        search=search,
        **_switches(given, defaults) | {"balance": given.balance or message.planner.balance.max_difference > 0},
    )


_SWITCHES: Final = {
    "enabled": "enabled",
    "unready_enabled": "unready_enabled",
    "skip_nodes_with_system_pods": "skip_system_pods",
    "skip_nodes_with_local_storage": "skip_local_storage",
    "skip_nodes_with_custom_controller_pods": "skip_custom_controllers",
    "ignore_mirror_pods_utilization": "ignore_mirror_pods_utilization",
    "balance": "balance",
    "delay_type_local": "delay_type_local",
    "device_utilization_only": "device_utilization_only",
}
"""Fields taken unchanged: name in the contract to name here."""


def _switches(given: Message, defaults: ScaleDownSettings) -> dict[str, Any]:
    return {
        here: getattr(given, wire) if given.HasField(wire) else getattr(defaults, here)
        for wire, here in _SWITCHES.items()
    }


def _group_settings(given: Message, default: GroupScaleDownSettings, path: str) -> GroupScaleDownSettings:
    return GroupScaleDownSettings(
        utilization_threshold=share(given, "utilization_threshold", default.utilization_threshold, path),
        gpu_utilization_threshold=share(given, "gpu_utilization_threshold", default.gpu_utilization_threshold, path),
        unneeded_time_ns=duration_ns(given, "unneeded_time", default.unneeded_time_ns, path),
        unready_time_ns=duration_ns(given, "unready_time", default.unready_time_ns, path),
        ignore_daemonsets_utilization=flag(
            given, "ignore_daemonsets_utilization", default.ignore_daemonsets_utilization
        ),
        job_pods_unmovable=flag(given, "job_pods_unmovable", default.job_pods_unmovable),
        consolidation=_consolidation(given, default.consolidation, path),
    )


def _consolidation(given: Message, default: int, path: str) -> int:
    """Return which nodes of a group may go; only groups have the field."""
    code = given.consolidation if isinstance(given, pb.NodeGroupSettings) else default
    if code not in pb.Consolidation.Code.values():
        raise SettingsError(f"{path}.consolidation", f"{code} is not a way to consolidate; see Consolidation")
    return code or default


def _waves(given: pb.ScaleDownSettings, search: SearchBudgets, path: str) -> int:
    """Return the number of waves to plan; without a search beyond the first plan, one."""
    waves = count(given, "max_waves", ScaleDownSettings.max_waves, path, 1)
    return waves if search.compares else 1


def _percentage(given: Message, name: str, default: float, path: str) -> float:
    """Return a percentage as a share."""
    percentage = number(given, name, 100 * default, path)
    if percentage > 100:
        raise SettingsError(f"{path}.{name}", f"{percentage:g} is not a percentage; give 0 to 100")
    return percentage / 100


def _objective(given: pb.ScaleDownSettings, path: str) -> int:
    if given.objective not in pb.Objective.Code.values():
        raise SettingsError(f"{path}.objective", f"{given.objective} is not an objective; see Objective")
    return given.objective


def _orders(given: pb.ScaleDownSettings, path: str) -> tuple[int, ...]:
    known = set(pb.CandidateOrder.Code.values()) - {pb.CandidateOrder.UNSPECIFIED}
    for i, order in enumerate(given.candidate_orders):
        if order not in known:
            raise SettingsError(f"{path}.candidate_orders[{i}]", f"{order} is not an order; see CandidateOrder")
    return tuple(dict.fromkeys(given.candidate_orders))
