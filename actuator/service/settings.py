"""Settings of the service, and the command-line options that they are read from; those of a live cluster and of the
clouds stand beside their settings. Durations in seconds.

Each option can be set by an environment variable too: `TRIMTAB_ACTUATOR_STATE_DIR` for `--state-dir`.
"""

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from trimtab.actuator.cloud.table import NAMES
from trimtab.actuator.settings import (
    BackoffPolicy,
    DeleteSettings,
    DrainSettings,
    GroupSettings,
    PriorityGroup,
    ReplaceSettings,
    WorkSettings,
)
from trimtab.actuator.tracker.admission import DeletionLimits
from trimtab.actuator.tracker.states import Retention
from trimtab.common.rpc.access_policy import DeletionRules

# Upstream's defaults are 10 and 1; the planner checks all drains of a plan together, so 10 may run at a time. After
# five minutes the cluster has changed too much for a plan.
DEFAULT_LIMITS = DeletionLimits(max_parallelism=10, max_drain_parallelism=10, max_plan_age_s=300.0)


@dataclass(frozen=True)
class WriteLimits:
    """How many objects one call writes, and how long it may take; a running write is not interrupted."""

    max_count: int = 200
    max_s: float = 5.0

    def begin(self) -> Callable[[], bool]:
        """Return, at the beginning of a call, what says whether it may write once more, and counts that."""
        until_s, counts = time.monotonic() + self.max_s, itertools.count()
        return lambda: time.monotonic() <= until_s and next(counts) < self.max_count


@dataclass(frozen=True)
class ActuatorSettings:
    """All settings of the actuator."""

    work: WorkSettings = field(default_factory=WorkSettings)
    # On what may be in progress.
    limits: DeletionLimits = DEFAULT_LIMITS
    retention: Retention = field(default_factory=Retention)
    # Upstream: --max-bulk-soft-taint-count, --max-bulk-soft-taint-time.
    soft_taints: WriteLimits = WriteLimits(10, 3.0)
    # Kubernetes advises against frequent writes of this annotation.
    pod_costs: WriteLimits = WriteLimits()
    # The status of CapacityBuffers changes when buffers, nodes or pods do.
    buffers: WriteLimits = WriteLimits(max_count=100)
    # A queue of jobs may get the answers to its ProvisioningRequests at the same time.
    capacity: WriteLimits = WriteLimits(max_s=10.0)
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


_D, _W, _S = DrainSettings(), WorkSettings(), ActuatorSettings()


@dataclass(frozen=True)
class StateOptions:
    """Where state is kept, and which cloud is used."""

    state_dir: Annotated[Path, typer.Option(help="directory of the actuator's databases; created if missing")]
    store: Annotated[str, typer.Option(help="SQLAlchemy URL of the store; empty = SQLite in the state directory")] = ""
    cloud: Annotated[str, typer.Option(help=f"cloud provider: {NAMES}")] = "memory"
    serve_externalgrpc: Annotated[
        bool, typer.Option(help="also serve the Cluster Autoscaler's external cloud provider, on the same port")
    ] = False


@dataclass(frozen=True)
class WorkOptions:
    """How the actuator works."""

    drain_timeout: Annotated[float, typer.Option(min=0, help="time for the whole drain of a node")] = _D.timeout_s
    eviction_retry: Annotated[float, typer.Option(min=0, help="pause after a refused eviction")] = _D.eviction_retry_s
    drain_poll: Annotated[float, typer.Option(min=0.01, help="interval between reads of a draining node")] = _D.poll_s
    drain_threads: Annotated[int, typer.Option(min=1, help="threads for drains")] = _D.thread_count
    drain_poll_max: Annotated[
        float,
        typer.Option(
            min=0.01, help="longest interval between reads of a draining node, while its drain makes no progress"
        ),
    ] = _D.poll_max_s
    max_graceful_termination: Annotated[int, typer.Option(min=0, help="longest grace period granted to a pod")] = (
        _D.max_graceful_termination_s
    )
    drain_priority_config: Annotated[
        str,
        typer.Option(
            help="PRIORITY:SECONDS,… : pods are evicted in these groups, low priority first, each with its longest "
            "grace period instead of --max-graceful-termination; empty = all together"
        ),
    ] = ""
    daemonset_eviction_for_occupied_nodes: Annotated[
        bool, typer.Option(help="evict DaemonSet pods of drained nodes, without waiting for them")
    ] = _D.evict_daemons_occupied
    daemonset_eviction_for_empty_nodes: Annotated[
        bool, typer.Option(help="evict DaemonSet pods of nodes deleted without a drain, without waiting for them")
    ] = _D.evict_daemons_empty
    expendable_priority: Annotated[
        int, typer.Option(help="pods of lower priority are not drained; must equal the planner's setting")
    ] = _D.expendable_priority
    delete_timeout: Annotated[float, typer.Option(min=0, help="time within which an instance must be gone")] = (
        _W.delete.timeout_s
    )
    delete_poll: Annotated[float, typer.Option(min=0.01, help="interval between reads of instance states")] = (
        _W.delete.poll_s
    )
    delete_batch: Annotated[float, typer.Option(min=0, help="deletions in a group within this time are one batch")] = (
        _W.delete.batch_s
    )
    replace_poll: Annotated[
        float, typer.Option(min=0.01, help="interval between reads of the nodes of a replacement")
    ] = _W.replace.poll_s
    delay_after_taint: Annotated[float, typer.Option(min=0, help="pause between taint and first eviction")] = (
        _W.delay_after_taint_s
    )
    max_parallelism: Annotated[int, typer.Option(min=1, help="most nodes being deleted at a time")] = (
        _S.limits.max_parallelism
    )
    max_drain_parallelism: Annotated[int, typer.Option(min=1, help="most nodes being drained at a time")] = (
        _S.limits.max_drain_parallelism
    )
    max_plan_age: Annotated[float, typer.Option(min=0, help="oldest plan that is executed")] = _S.limits.max_plan_age_s
    max_clock_skew: Annotated[float, typer.Option(min=0, help="how far a plan's time may be ahead of this clock")] = (
        _S.limits.max_clock_skew_s
    )
    keep_finished: Annotated[
        float,
        typer.Option(min=0, help="how long results are kept; answers to requests are kept for at least 300 seconds"),
    ] = _S.retention.finished_s
    keep_evictions: Annotated[float, typer.Option(min=0, help="how long evictions are kept")] = _S.retention.evictions_s
    max_soft_taints: Annotated[int, typer.Option(min=1, help="most soft taints changed by one call")] = (
        _S.soft_taints.max_count
    )
    max_soft_taint_time: Annotated[
        float, typer.Option(min=0, help="longest time for changing soft taints in one call")
    ] = _S.soft_taints.max_s
    max_pod_costs: Annotated[int, typer.Option(min=1, help="most pod deletion costs written by one call")] = (
        _S.pod_costs.max_count
    )
    max_pod_cost_time: Annotated[
        float, typer.Option(min=0, help="longest time for writing pod deletion costs in one call")
    ] = _S.pod_costs.max_s

    node_group_backoff: Annotated[
        BackoffPolicy, typer.Option(help="after a scale-up that added no node: wait for one node, or for some minutes")
    ] = _S.groups.backoff
    max_node_provision_time: Annotated[
        float,
        typer.Option(
            min=1, help="time for a node to register; after it, its group is backed off and its instance deleted"
        ),
    ] = _S.groups.max_node_provision_s
    startup_taints: Annotated[
        str, typer.Option(help="KEY,… or PREFIX*,… : a node counts as registered once it has none of these taints")
    ] = ""

    def settings(self) -> ActuatorSettings:
        """Return the actuator's settings. Raises `ValueError`."""
        drain = DrainSettings(
            timeout_s=self.drain_timeout,
            eviction_retry_s=self.eviction_retry,
            poll_s=self.drain_poll,
            max_graceful_termination_s=self.max_graceful_termination,
            thread_count=self.drain_threads,
            expendable_priority=self.expendable_priority,
            poll_max_s=self.drain_poll_max,
            priority_groups=priority_groups(self.drain_priority_config),
            evict_daemons_occupied=self.daemonset_eviction_for_occupied_nodes,
            evict_daemons_empty=self.daemonset_eviction_for_empty_nodes,
        )
        delete = DeleteSettings(timeout_s=self.delete_timeout, poll_s=self.delete_poll, batch_s=self.delete_batch)
        return ActuatorSettings(
            work=WorkSettings(
                drain=drain,
                delete=delete,
                replace=ReplaceSettings(poll_s=self.replace_poll),
                delay_after_taint_s=self.delay_after_taint,
            ),
            limits=DeletionLimits(
                self.max_parallelism, self.max_drain_parallelism, self.max_plan_age, self.max_clock_skew
            ),
            retention=Retention(finished_s=self.keep_finished, evictions_s=self.keep_evictions),
            soft_taints=WriteLimits(self.max_soft_taints, self.max_soft_taint_time),
            pod_costs=WriteLimits(self.max_pod_costs, self.max_pod_cost_time),
            groups=GroupSettings(
                self.node_group_backoff,
                self.max_node_provision_time,
                tuple(part.strip() for part in self.startup_taints.split(",") if part.strip()),
            ),
        )


def priority_groups(text: str) -> tuple[PriorityGroup, ...]:
    """Parse groups written as `PRIORITY:SECONDS,…`. Raises `ValueError` naming the part that is no such group."""
    groups: dict[int, PriorityGroup] = {}
    for part in text.split(",") if text.strip() else ():
        priority, _, grace = part.partition(":")
        try:
            group = PriorityGroup(int(priority), int(grace))
        except ValueError as error:
            raise ValueError(
                f"--drain-priority-config: {part.strip() or 'an empty part'!r} is not PRIORITY:SECONDS, two integers"
            ) from error
        if group.grace_s < 0:
            raise ValueError(f"--drain-priority-config: {part.strip()!r} has a negative grace period")
        if group.priority in groups:
            raise ValueError(f"--drain-priority-config: priority {group.priority} is given twice")
        groups[group.priority] = group
    return tuple(groups.values())
