"""Settings of the service. Durations in seconds."""

from collections.abc import Callable
from dataclasses import dataclass, field

from trimtab.actuator.node_groups.settings import GroupSettings
from trimtab.actuator.settings import WorkSettings
from trimtab.actuator.tracker.admission import DeletionLimits
from trimtab.actuator.tracker.states import Retention
from trimtab.common.rpc.access_policy import DeletionRules

# Upstream's defaults are 10 and 1; the planner checks all drains of a plan together, so 10 may run at a time. After
# five minutes the cluster has changed too much for a plan.
DEFAULT_LIMITS = DeletionLimits(max_parallelism=10, max_drain_parallelism=10, max_plan_age_s=300.0)


@dataclass(frozen=True)
class SoftTaintSettings:
    """How many soft taints one call changes."""

    # Nodes changed by one call. Upstream: --max-bulk-soft-taint-count.
    max_count: int = 10
    # Time one call may take. Upstream: --max-bulk-soft-taint-time.
    max_s: float = 3.0


@dataclass(frozen=True)
class PodCostLimits:
    """How many pod deletion costs one call writes."""

    # Pods written by one call. Kubernetes advises against frequent writes of this annotation.
    max_count: int = 200
    # Time one call may take; a running call is not interrupted.
    max_s: float = 5.0
    # How long the status of a PodGroupCost is left unconfirmed while nothing changes.
    confirm_s: float = 60.0


@dataclass(frozen=True)
class BufferLimits:
    """How many statuses of CapacityBuffers one call writes."""

    # Statuses written by one call: they change when buffers, nodes or pods do.
    max_count: int = 100
    # Time one call may take; a running write is not interrupted.
    max_s: float = 5.0


@dataclass(frozen=True)
class CapacityLimits:
    """How many ProvisioningRequests one call writes."""

    # Objects written by one call: a queue of jobs may get its answers at the same time.
    max_count: int = 200
    # Time one call may take; a running write is not interrupted.
    max_s: float = 10.0


@dataclass(frozen=True)
class ActuatorSettings:
    """All settings of the actuator. `work` : drains, deletions and growth; `limits` : on what may be in progress;
    `retention` : how long results are kept; `soft_taints`, `pod_costs`, `buffers`, `capacity` : what one call
    of these changes at most; `groups` : upkeep of node groups.
    """

    work: WorkSettings = field(default_factory=WorkSettings)
    limits: DeletionLimits = DEFAULT_LIMITS
    retention: Retention = field(default_factory=Retention)
    soft_taints: SoftTaintSettings = field(default_factory=SoftTaintSettings)
    pod_costs: PodCostLimits = field(default_factory=PodCostLimits)
    buffers: BufferLimits = field(default_factory=BufferLimits)
    capacity: CapacityLimits = field(default_factory=CapacityLimits)
    groups: GroupSettings = field(default_factory=GroupSettings)
    # How long StartDeletion waits for the taints, and for their roll-back; the work continues after it.
    answer_s: float = 60.0
    # Watching streams at a time; each takes a thread.
    max_watchers: int = 16
    # The access policy's limits on deletions, for all callers; read for each request.
    deletion_rules: Callable[[], DeletionRules] = DeletionRules

    def present_limits(self) -> DeletionLimits:
        """Return the limits, including those of the access policy."""
        rules = self.deletion_rules()
        return self.limits._replace(
            max_nodes_per_hour=rules.max_nodes_per_hour,
            max_share_per_hour=rules.max_share_per_hour,
            requires_assumption=rules.require_assumption,
            requires_plan_time=rules.require_plan_time,
        )
