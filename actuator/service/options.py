"""The actuator's command-line options, and their conversion into settings. Durations in seconds.

Each option can be set by an environment variable too: `TRIMTAB_ACTUATOR_STATE_DIR` for `--state-dir`.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import grpc
import typer

from trimtab.actuator.cloud.aws.settings import AwsSettings, read_tags
from trimtab.actuator.cloud.clusterapi.settings import ClusterApiSettings
from trimtab.actuator.cloud.kwok.settings import KwokSettings
from trimtab.actuator.kube.settings import KubeSettings
from trimtab.actuator.service.settings import (
    ActuatorSettings,
    BackoffPolicy,
    GroupSettings,
    PodCostLimits,
    SoftTaintSettings,
)
from trimtab.actuator.settings import DeleteSettings, DrainSettings, PriorityGroup, WorkSettings
from trimtab.actuator.tracker.admission import Limits
from trimtab.actuator.tracker.states import Retention
from trimtab.clients.kubernetes.lease import LeaseSettings
from trimtab.clients.kubernetes.names import RULE, is_label
from trimtab.clients.rpc.channel_security import ChannelSecurity
from trimtab.clients.rpc.client import connect
from trimtab.clients.simulation.cluster.controllers import Delays

_D, _W, _S, _M = DrainSettings(), WorkSettings(), ActuatorSettings(), Delays()
_K, _L, _C = KwokSettings(), LeaseSettings(name="trimtab-actuator"), KubeSettings()


@dataclass(frozen=True)
class StateOptions:
    """Where state is kept, and which cloud is used."""

    state_dir: Annotated[Path, typer.Option(help="directory of the actuator's databases; created if missing")]
    store: Annotated[str, typer.Option(help="SQLAlchemy URL of the store; empty = SQLite in the state directory")] = ""
    cloud: Annotated[str, typer.Option(help="cloud provider: memory, kwok, externalgrpc, aws, clusterapi")] = "memory"
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
    drain_poll_max: Annotated[float, typer.Option(min=0.01, help="the same while a drain makes no progress")] = (
        _D.poll_max_s
    )
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
        bool, typer.Option(help="the same for nodes that are not drained")
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
        float, typer.Option(min=0, help="how long results are kept; answers to requests at least 300")
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
        str, typer.Option(help="KEY,… or PREFIX*,… : a node with such a taint does not count as registered")
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
            work=WorkSettings(drain=drain, delete=delete, delay_after_taint_s=self.delay_after_taint),
            limits=Limits(self.max_parallelism, self.max_drain_parallelism, self.max_plan_age, self.max_clock_skew),
            retention=Retention(finished_s=self.keep_finished, evictions_s=self.keep_evictions),
            soft_taints=SoftTaintSettings(self.max_soft_taints, self.max_soft_taint_time),
            pod_costs=PodCostLimits(self.max_pod_costs, self.max_pod_cost_time),
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


@dataclass(frozen=True)
class SimulationOptions:
    """The simulated cluster."""

    cluster: Annotated[
        list[Path],
        typer.Option(help="Kubernetes objects to start from (.json, .yaml, .gz); may be given several times"),
    ] = field(default_factory=list)
    pod_start: Annotated[float, typer.Option(min=0, help="time until a pod becomes ready")] = _M.pod_start_s
    pod_stop: Annotated[float, typer.Option(min=0, help="time until a deleted pod is gone")] = _M.pod_stop_s
    node_start: Annotated[float, typer.Option(min=0, help="time until a new node registers")] = _M.node_start_s
    instance_delete: Annotated[float, typer.Option(min=0, help="time until a deleted instance is gone")] = (
        _M.instance_delete_s
    )

    def delays(self) -> Delays:
        """Return the delays of the simulated cluster."""
        return Delays(self.pod_start, self.pod_stop, self.node_start, self.instance_delete)


@dataclass(frozen=True)
class KubeOptions:
    """A real cluster, and who may act on it."""

    kubeconfig: Annotated[
        Path | None, typer.Option(help="kubeconfig; none = the service account, then the default locations")
    ] = None
    context: Annotated[str, typer.Option(help="context of the kubeconfig; empty = its current one")] = ""
    cloud_config: Annotated[Path | None, typer.Option(help="NodeGroup objects of --cloud kwok (.yaml, .json)")] = None
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


@dataclass(frozen=True)
class ExternalOptions:
    """The cloud `externalgrpc`: a provider that serves the Cluster Autoscaler."""

    cloud_address: Annotated[str, typer.Option(help="host:port of the provider of --cloud externalgrpc")] = ""
    cloud_ca: Annotated[
        Path | None, typer.Option(help="CA certificates for its certificate, PEM; none = plain text")
    ] = None
    cloud_cert: Annotated[Path | None, typer.Option(help="client certificate for it, PEM")] = None
    cloud_key: Annotated[Path | None, typer.Option(help="key of the client certificate, PEM")] = None
    cloud_timeout: Annotated[float, typer.Option(min=0.1, help="longest time for one call to the provider")] = 10.0

    def open_channel(self) -> grpc.Channel:
        """Open a channel to the provider; no call is made. Raises `ValueError`, `OSError`."""
        if not self.cloud_address:
            raise ValueError("--cloud externalgrpc needs --cloud-address, host:port of the provider")
        if (self.cloud_cert is None) != (self.cloud_key is None):
            raise ValueError("--cloud-cert and --cloud-key belong together; give both or none")
        if self.cloud_cert is not None and self.cloud_ca is None:
            raise ValueError("--cloud-cert needs --cloud-ca: without it the connection is in plain text")
        return connect(self.cloud_address, ChannelSecurity(self.cloud_ca, self.cloud_cert, self.cloud_key))


@dataclass(frozen=True)
class AwsOptions:
    """The cloud `aws`: Auto Scaling groups. Credentials come from where boto3 finds them."""

    aws_region: Annotated[str, typer.Option(help="region; empty = as boto3 finds it, for example in AWS_REGION")] = ""
    aws_groups: Annotated[str, typer.Option(help="NAME,… of the Auto Scaling groups to manage")] = ""
    aws_tags: Annotated[str, typer.Option(help="KEY[=VALUE],… : manage the groups that have all of these tags")] = ""
    aws_prices: Annotated[
        Path | None, typer.Option(help="prices by instance type, or answers of AWS with prices (.yaml, .json)")
    ] = None
    aws_price_list: Annotated[
        bool, typer.Option(help="ask AWS for prices: on-demand from its price list, spot from its price history")
    ] = False
    aws_endpoint: Annotated[str, typer.Option(help="address instead of AWS's, for tests")] = ""

    def settings(self) -> AwsSettings:
        """Return the settings of the cloud. Raises `ValueError`."""
        groups = tuple(part.strip() for part in self.aws_groups.split(",") if part.strip())
        tags = read_tags(self.aws_tags)
        if not groups and not tags:
            raise ValueError("--cloud aws needs --aws-groups or --aws-tags: the Auto Scaling groups to manage")
        return AwsSettings(
            self.aws_region, groups, tags, self.aws_endpoint, self.aws_prices, price_list=self.aws_price_list
        )


@dataclass(frozen=True)
class ClusterApiOptions:
    """The cloud `clusterapi`: MachineDeployments and MachinePools."""

    capi_namespace: Annotated[str, typer.Option(help="namespace of the Machines; empty = all")] = ""
    capi_cluster: Annotated[str, typer.Option(help="name of their Cluster; empty = any")] = ""
    capi_kubeconfig: Annotated[
        Path | None, typer.Option(help="kubeconfig of the management cluster; none = the cluster itself")
    ] = None
    capi_version: Annotated[str, typer.Option(help="version of the API group cluster.x-k8s.io")] = "v1beta1"

    def settings(self) -> ClusterApiSettings:
        """Return the settings of the cloud. Raises `ValueError`."""
        for flag, value in (("--capi-namespace", self.capi_namespace), ("--capi-version", self.capi_version)):
            if value and not is_label(value):
                raise ValueError(f"{flag} {value!r}: a name has {RULE}")
        return ClusterApiSettings(self.capi_namespace, self.capi_cluster, self.capi_kubeconfig, self.capi_version)


@dataclass(frozen=True)
class KwokOptions:
    """The cloud `kwok`; `--node-start` and `--instance-delete` count for it too."""

    call_failure_rate: Annotated[float, typer.Option(min=0, max=1, help="share of cloud calls that fail")] = (
        _K.call_failure_rate
    )
    start_failure_rate: Annotated[float, typer.Option(min=0, max=1, help="share of instances that never start")] = (
        _K.start_failure_rate
    )
    seed: Annotated[int, typer.Option(help="seed of the failures")] = _K.seed

    def settings(self, namespace: str, simulation: SimulationOptions) -> KwokSettings:
        """Return the settings of the cloud."""
        return KwokSettings(
            node_start_s=simulation.node_start,
            instance_delete_s=simulation.instance_delete,
            call_failure_rate=self.call_failure_rate,
            start_failure_rate=self.start_failure_rate,
            seed=self.seed,
            namespace=namespace,
        )
