"""Settings of the actuator's work. Durations in seconds; upstream names are the Cluster Autoscaler's flags."""

from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from trimtab.common.kubernetes.lease import LeaseSettings


class SettingError(Exception):
    """A setting that cannot be used; the text says why."""


@dataclass(frozen=True)
class PriorityGroup:
    """A priority group: pods with at least this priority are evicted together, low priorities first."""

    # Lowest priority of the group.
    priority: int
    # Longest grace period of its pods. Upstream: --drain-priority-config.
    grace_s: int


@dataclass(frozen=True)
class DrainSettings:
    """Settings of drains."""

    # Longest time of the whole drain. One hour, not upstream's two minutes (--max-pod-eviction-time): pods behind a
    # tight budget that become ready slowly still make progress.
    timeout_s: float = 3600.0
    # Pause before a refused eviction is repeated, if the server gives no hint.
    # Upstream: EvictionRetryTime, 10 s.
    eviction_retry_s: float = 10.0
    # Pause between reads of a draining node. It grows up to the second value while nothing happens, which saves most
    # reads when many drains wait for budgets.
    poll_s: float = 1.0
    poll_max_s: float = 5.0
    # Longest grace period of a pod; priority groups have their own. Upstream:
    # --max-graceful-termination-sec.
    max_graceful_termination_s: int = 600
    # Priority groups; none = all pods together. Upstream: --drain-priority-config.
    priority_groups: tuple[PriorityGroup, ...] = ()
    # Whether DaemonSet pods without the annotation `cluster-autoscaler.kubernetes.io/enable-ds-eviction` are evicted
    # before their node is deleted: first on nodes with drain, then on nodes without. Nothing waits for them, not even
    # with priority groups (upstream then waits).
    # Upstream: --daemonset-eviction-for-occupied-nodes, --daemonset-eviction-for-empty-nodes.
    evict_daemons_occupied: bool = True
    evict_daemons_empty: bool = False
    # Pods of lower priority are not drained: they are deleted with their node, as the plan assumed.
    # Upstream: --expendable-pods-priority-cutoff.
    expendable_priority: int = -10
    # Threads for drains; a waiting drain uses none. Half of them usually wait for the disk (each eviction is recorded
    # before the next one), while the other half keep the API server busy. With 16, a fifth fewer pods are evicted.
    thread_count: int = 32


@dataclass(frozen=True)
class DeleteSettings:
    """Settings of deletions of instances."""

    # Longest time of an instance's deletion, which is rolled back after it. Upstream: MaxCloudProviderNodeDeletionTime,
    # 5 min.
    timeout_s: float = 300.0
    # Longest delay of a deletion by an annotation on the node.
    # Upstream: --node-deletion-delay-timeout.
    delay_s: float = 120.0
    # Pause between reads of instance states.
    poll_s: float = 1.0
    # Pause before a call to the cloud is repeated after an error.
    retry_s: float = 5.0
    # Deletions of one node group within this time are requested together. Upstream:
    # --node-deletion-batcher-interval.
    batch_s: float = 0.0
    # Pause before an accepted deletion is requested again because its instance still runs: the list from which it was
    # taken as accepted, or the one that shows it running, may be older than the request by as much.
    repeat_s: float = 30.0
    # Threads for deletions, one node group each. With a cloud whose calls take 30 s, a group keeps one for minutes.
    thread_count: int = 16


@dataclass(frozen=True)
class GrowSettings:
    """Settings of scale-ups."""

    # How long a scale-up may be requested; after that only its result is read, as the plan is too old.
    timeout_s: float = 60.0
    # Pause before a call to the cloud without answer is repeated.
    retry_s: float = 5.0
    # Threads for scale-ups. Calls that hang keep their thread, so nothing else uses these.
    thread_count: int = 8


@dataclass(frozen=True)
class ReplaceSettings:
    """Settings of replacements."""

    # Pause between looks at new nodes, and at deletions in progress.
    poll_s: float = 5.0
    # Threads for replacements, of which one is in progress at a time.
    thread_count: int = 1


@dataclass(frozen=True)
class WorkSettings:
    """Settings of the actuator's work. `drain`, `delete`, `grow`, `replace` : of each kind of work."""

    drain: DrainSettings = field(default_factory=DrainSettings)
    delete: DeleteSettings = field(default_factory=DeleteSettings)
    grow: GrowSettings = field(default_factory=GrowSettings)
    replace: ReplaceSettings = field(default_factory=ReplaceSettings)
    # Pause between taint and first eviction or deletion: the scheduler may not have read the taint yet.
    # Upstream: --node-delete-delay-after-taint.
    delay_after_taint_s: float = 5.0
    # Threads that read and taint the nodes of a request. Upstream: 5.
    taint_thread_count: int = 8
    # Pause before a failed removal of a taint is repeated.
    rollback_retry_s: float = 2.0


@dataclass(frozen=True)
class KubeSettings:
    """Settings of the client of a live cluster."""

    # Also mark a node unschedulable while it carries the hard taint. Upstream: --cordon-node-before-terminating.
    cordon: bool = False
    # Longest silence of a list of many objects.
    list_timeout_s: float = 30.0


_L, _C = LeaseSettings(name="trimtab-actuator"), KubeSettings()


@dataclass(frozen=True)
class KubeOptions:
    """A real cluster, and who may act on it."""

    kubeconfig: Annotated[
        Path | None, typer.Option(help="kubeconfig; none = the service account, then the default locations")
    ] = None
    context: Annotated[str, typer.Option(help="context of the kubeconfig; empty = its current one")] = ""
    namespace: Annotated[str, typer.Option(help="namespace of the Lease and the ledger of kwok")] = _L.namespace
    cordon_node_before_terminating: Annotated[
        bool, typer.Option(help="also mark nodes unschedulable while they carry the hard taint")
    ] = _C.cordon
    kube_timeout: Annotated[float, typer.Option(min=0.1, help="longest wait for the API server")] = 10.0
    leader_elect: Annotated[
        bool, typer.Option(help="act only while holding a Lease; replicas share --store and serve reads")
    ] = False
    lease_name: Annotated[str, typer.Option(help="name of the Lease")] = _L.name
    lease_duration: Annotated[float, typer.Option(min=1, help="time without renewal after which others take over")] = (
        _L.duration_s
    )
    renew_deadline: Annotated[float, typer.Option(min=0.1, help="time without renewal after which a leader stops")] = (
        _L.renew_deadline_s
    )
    lease_retry: Annotated[float, typer.Option(min=0.05, help="pause between two attempts")] = _L.retry_period_s

    def settings(self) -> KubeSettings:
        """Return the settings of the cluster's client."""
        return KubeSettings(cordon=self.cordon_node_before_terminating)

    def lease(self) -> LeaseSettings:
        """Return the settings of the Lease. Raises `ValueError`."""
        if not self.lease_retry < self.renew_deadline < self.lease_duration:
            raise ValueError(
                f"--lease-retry {self.lease_retry:g} < --renew-deadline {self.renew_deadline:g} < --lease-duration"
                f" {self.lease_duration:g} does not hold"
            )
        return LeaseSettings(
            self.namespace, self.lease_name, self.lease_duration, self.renew_deadline, self.lease_retry
        )

    def call_timeout(self) -> float:
        """Return the timeout of a call: a leader's last call must be over before another process may lead."""
        if not self.leader_elect:
            return self.kube_timeout
        return min(self.kube_timeout, self.lease_duration - self.renew_deadline)


class BackoffPolicy(Enum):
    """How long a group is backed off after a growth that brought no node."""

    # Until the one node that it still requests joins. Source: the Zalando fork of CA, `--backoff-no-full-scale-down`.
    UNTIL_JOINED = "until-joined"
    # 5 min, doubled each time, at most 30 min. Source: CA, `--initial-node-group-backoff-duration`.
    EXPONENTIAL = "exponential"


@dataclass(frozen=True)
class GroupSettings:
    """Settings for the upkeep of node groups. Seconds. `backoff` : how long a group that got no nodes is not tried
    again.
    """

    backoff: BackoffPolicy = BackoffPolicy.UNTIL_JOINED
    # Time within which a node must join; a group's own option takes precedence. Upstream: --max-node-provision-time.
    max_node_provision_s: float = 900.0
    # Taints that make a node not ready, besides those of the Cluster Autoscaler: keys, or prefixes followed by "*".
    # Upstream: --startup-taint.
    not_ready_taints: tuple[str, ...] = ()
    # Another autoscaler sets the sizes (`--serve-externalgrpc`): target sizes are left to it, and so are instances that
    # never register. Only instances that the cloud itself reports as failed are ended, if the caller has not done so by
    # the time that a node may take to join: it counts on every other one that it has requested.
    sized_by_caller: bool = False
