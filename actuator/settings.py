"""Settings of the actuator's work. Durations in seconds; upstream names are the Cluster Autoscaler's flags."""

from dataclasses import dataclass, field

from clients.transport.backoff import Backoff


@dataclass(frozen=True)
class PriorityGroup:
    """Pods with at least this priority are evicted together, groups of low priority first."""

    # Lowest priority of the group.
    priority: int
    # Longest grace period of its pods. Upstream: --drain-priority-config.
    grace_s: int


@dataclass(frozen=True)
class DrainSettings:
    """How nodes are drained."""

    # The whole drain may take this long. One hour, not upstream's two minutes (--max-pod-eviction-time): pods that
    # become ready slowly behind a tight budget make progress, if only slowly.
    timeout_s: float = 3600.0
    # Pause before an eviction that was refused is asked for again, if the server gives no hint.
    # Upstream: EvictionRetryTime, 10 s.
    eviction_retry_s: float = 10.0
    # How often a node is looked at while pods are leaving it; a drain in which nothing happens is looked at less and
    # less often, down to the second one: with many drains waiting for budgets the server is spared most of the reading.
    poll_s: float = 1.0
    poll_max_s: float = 5.0
    # Longest grace period given to a pod; with priority groups theirs count instead. Upstream:
    # --max-graceful-termination-sec.
    max_graceful_termination_s: int = 600
    # Groups by priority; none = all pods together. Upstream: --drain-priority-config.
    priority_groups: tuple[PriorityGroup, ...] = ()
    # Whether DaemonSet pods are told to end before their node goes, where their annotation
    # `cluster-autoscaler.kubernetes.io/enable-ds-eviction` does not say: nodes that are drained, nodes that are not.
    # Nothing waits for them, with priority groups neither (upstream waits there).
    # Upstream: --daemonset-eviction-for-occupied-nodes, --daemonset-eviction-for-empty-nodes.
    evict_daemons_occupied: bool = True
    evict_daemons_empty: bool = False
    # Pods of lower priority are not drained: they go with their node, as the plan assumed.
    # Upstream: --expendable-pods-priority-cutoff.
    expendable_priority: int = -10
    # Nodes looked after at the same time; a drain that waits takes none. Half of them usually wait for the disk (each
    # eviction is written down before the next one), so that the other half keeps the API server busy: with 16 a fifth
    # fewer pods go.
    thread_count: int = 32


@dataclass(frozen=True)
class DeleteSettings:
    """How instances are deleted."""

    # An instance that is not gone after this is given back. Upstream: MaxCloudProviderNodeDeletionTime, 5 min.
    timeout_s: float = 300.0
    # How often the cloud is asked whether instances are gone.
    poll_s: float = 1.0
    # Pause before the cloud is asked again after an error.
    retry_s: float = 5.0
    # Requests of one node group that come within this time are made together. Upstream:
    # --node-deletion-batcher-interval.
    batch_s: float = 0.0
    # Node groups looked after at the same time.
    thread_count: int = 4


@dataclass(frozen=True)
class WorkSettings:
    """How the actuator works."""

    drain: DrainSettings = field(default_factory=DrainSettings)
    delete: DeleteSettings = field(default_factory=DeleteSettings)
    # From the taint to the first eviction or deletion: the scheduler may not have seen the taint yet.
    # Upstream: --node-delete-delay-after-taint.
    delay_after_taint_s: float = 5.0
    # Nodes of a request looked at, and tainted, at the same time. Upstream: 5.
    taint_thread_count: int = 8
    # Pause before a taint that could not be taken back is tried again.
    rollback_retry_s: float = 2.0
    # Pauses of the short retries of a call.
    call_backoff: Backoff = field(default_factory=lambda: Backoff(0.1, 1.0))
