"""Settings of scale-down with its schedules and node budgets, resolved. Times in nanoseconds. Meaning, defaults and
ranges are those of the contract.

A schedule is active from each time at which its expression is due, in its time zone, for its duration. Cron as in
Debian, including clock changes (library `cronsim`).
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from cronsim import CronSim, CronSimError

from trimtab.planner.model.settings.reading import (
    SECOND_NS,
    SettingsError,
    overridden,
    resolved,
    selector,
    setting,
    value_of,
)
from trimtab.planner.model.settings.scale_up import USUAL, SearchBudgets, resolve_search
from trimtab.planner.model.values import Selector
from trimtab.v1 import plan_pb2 as pb

_CRON_FIELDS: Final = 5


def check_cron(cron: str, path: str) -> None:
    """Raise SettingsError unless a text is a cron expression of five fields that is due at some time."""
    problem = f"{cron!r} has {len(cron.split())} fields"
    if len(cron.split()) == _CRON_FIELDS:
        try:
            next(CronSim(cron, datetime(2000, 1, 1, tzinfo=UTC)))
        except CronSimError as error:
            problem = f"{cron!r} cannot be read: {error}"
        except StopIteration:
            problem = f"{cron!r} is never due"
        else:
            return
    raise SettingsError(path, f"{problem}; write minute, hour, day of month, month, day of week, such as '0 8 * * 1-5'")


def is_active(cron: str, zone: tzinfo, duration_ns: int, now_ns: int) -> bool:
    """Return whether a schedule was due less than its duration ago. now_ns : Unix nanoseconds."""
    now = datetime.fromtimestamp(now_ns // SECOND_NS, UTC)
    begin = now - timedelta(seconds=-(-duration_ns // SECOND_NS))
    try:
        due = next(CronSim(cron, begin.astimezone(zone)))
    except StopIteration:
        return False
    return due.timestamp() * SECOND_NS + duration_ns > now_ns and due <= now


EMPTY, UNDERUTILIZED, DRIFTED = "Empty", "Underutilized", "Drifted"
_REASONS: Final = (UNDERUTILIZED, EMPTY, DRIFTED)
_MAX_NODES: Final = re.compile("([0-9]{1,9})(%?)")
_WHOLE: Final = 100
_SHORT: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


@dataclass(frozen=True)
class NodeDisruptionBudget:
    """How many nodes of a part of the cluster may be disrupted at the same time. Karpenter's `disruption.budgets`."""

    max_nodes: int
    """Number of nodes, or percentage of them."""
    is_share: bool = False
    """Whether `max_nodes` is a percentage; it rounds up."""
    nodes: Selector = ()
    """The nodes that count; () = all."""
    node_groups: frozenset[str] = frozenset()
    """Ids of their node groups; empty = all."""
    reasons: frozenset[str] = frozenset()
    """Reasons for which it holds; empty = all."""
    schedule: str = ""
    """Cron expression in UTC; "" = it always holds."""
    duration_ns: int = 0
    """How long it holds from each time of `schedule` on."""

    def most(self, node_count: int) -> int:
        """Return how many of so many nodes may be disrupted."""
        return -(-self.max_nodes * node_count // _WHOLE) if self.is_share else self.max_nodes

    def holds_for(self, reason: str) -> bool:
        """Return whether a node that leaves for a reason counts."""
        return not self.reasons or reason in self.reasons


def node_budgets(messages: Iterable[pb.DisruptionBudget], path: str) -> tuple[NodeDisruptionBudget, ...]:
    """Resolve budgets for nodes. Raises SettingsError for an invalid value."""
    return tuple(_budget(element, f"{path}[{i}]") for i, element in enumerate(messages))


def _budget(message: pb.DisruptionBudget, path: str) -> NodeDisruptionBudget:
    amount = _MAX_NODES.fullmatch(message.max_nodes)
    if amount is None or (amount[2] and int(amount[1]) > _WHOLE):
        problem = f'{message.max_nodes!r} is neither a number nor a share up to 100%; write "5" or "10%"'
        raise SettingsError(f"{path}.max_nodes", problem)
    for i, reason in enumerate(message.reasons):
        if reason not in _REASONS:
            raise SettingsError(f"{path}.reasons[{i}]", f"{reason!r} is not a reason; use {', '.join(_REASONS)}")
    cron, duration = _SHORT.get(message.schedule, message.schedule), value_of(message, "duration", path, 0)
    if cron:
        check_cron(cron, f"{path}.schedule")
    if bool(cron) != (duration > 0):
        raise SettingsError(f"{path}.duration", "give schedule and duration together, the latter above 0 s")
    return NodeDisruptionBudget(
        max_nodes=int(amount[1]),
        is_share=bool(amount[2]),
        nodes=selector(message.nodes, f"{path}.nodes"),
        node_groups=frozenset(value_of(message, "node_groups", path)),
        reasons=frozenset(message.reasons),
        schedule=cron,
        duration_ns=duration,
    )


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
