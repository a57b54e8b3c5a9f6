"""Pods and pod templates' specs. Source: Kubernetes API, core/v1.

Fields that no decision looks at (images, environment, commands, probes, names of mounts) are not declared, so that a
dump of 150,000 pods decodes at the speed of skipping them.
"""

from msgspec import Struct, field

from trimtab.common.kubernetes.kinds.metadata import (
    Int,
    LabelSelector,
    NodeSelector,
    OwnerReference,
    Quantities,
    Time,
)
from trimtab.common.kubernetes.signals import cluster_autoscaler, gangs, karpenter, ours, well_known


class PodAnnotations(Struct, gc=False, omit_defaults=True):
    """The annotations of a pod that are read; all others are skipped."""

    safe_to_evict: str | None = field(default=None, name=cluster_autoscaler.SAFE_TO_EVICT.key)
    safe_to_evict_local_volumes: str | None = field(default=None, name=cluster_autoscaler.SAFE_TO_EVICT_VOLUMES.key)
    enable_ds_eviction: str | None = field(default=None, name=cluster_autoscaler.DS_EVICTION.key)
    daemonset_pod: str | None = field(default=None, name=cluster_autoscaler.DAEMONSET_POD.key)
    deletion_cost: str | None = field(default=None, name=well_known.POD_DELETION_COST.key)
    mirror: str | None = field(default=None, name=well_known.MIRROR.key)
    scale_up_delay: str | None = field(default=None, name=cluster_autoscaler.POD_SCALE_UP_DELAY.key)
    topology_spread_timeout: str | None = field(default=None, name=cluster_autoscaler.SPREAD_TIMEOUT.key)
    slack: str | None = field(default=None, name=ours.SLACK.key)
    slack_ignore: str | None = field(default=None, name=ours.SLACK_IGNORE.key)
    do_not_disrupt: str | None = field(default=None, name=karpenter.DO_NOT_DISRUPT.key)
    disruption_cost: str | None = field(default=None, name=karpenter.DISRUPTION_COST.key)
    volcano_group: str | None = field(default=None, name=gangs.VOLCANO_GROUP.key)
    kueue_total: str | None = field(default=None, name=gangs.KUEUE_TOTAL.key)
    autoscaling_cost: str | None = field(default=None, name=well_known.AUTOSCALING_DISRUPTION_COST.key)
    vpa_updates: str | None = field(default=None, name=well_known.VPA_UPDATES.key)
    capacity_request: str | None = field(default=None, name=cluster_autoscaler.CONSUME_REQUEST.key)
    old_capacity_request: str | None = field(default=None, name=cluster_autoscaler.OLD_CONSUME_REQUEST.key)


class PodMeta(Struct, rename="camel", gc=False, omit_defaults=True):
    """`metadata` of a pod."""

    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    labels: dict[str, str] | None = None
    annotations: PodAnnotations | None = None
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    owner_references: list[OwnerReference] | None = None


class Resources(Struct, gc=False, omit_defaults=True):
    """Requests and limits, of a container or of a whole pod."""

    requests: Quantities | None = None
    limits: Quantities | None = None


class ContainerPort(Struct, rename={"container_port": "containerPort", "host_port": "hostPort", "host_ip": "hostIP"},
                    gc=False, omit_defaults=True):  # fmt: skip
    """A port of a container; only host ports matter, and every port of a pod in the host's network is one."""

    container_port: Int | None = None
    host_port: Int | None = None
    host_ip: str | None = None
    protocol: str | None = None


class RestartRule(Struct, gc=False, omit_defaults=True):
    """What an exit of a container leads to; which exits has no part in scheduling."""

    action: str | None = None


class Container(Struct, rename="camel", gc=False, omit_defaults=True):
    """A container; an init container with restart policy Always is a sidecar."""

    name: str | None = None
    resources: Resources | None = None
    ports: list[ContainerPort] | None = None
    restart_policy: str | None = None
    restart_policy_rules: list[RestartRule] | None = None


class NodeAffinity(Struct, rename="camel", gc=False, omit_defaults=True):
    """Node affinity; preferences only score and are not read."""

    required: NodeSelector | None = field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")


class PodAffinityTerm(Struct, rename="camel", gc=False, omit_defaults=True):
    """A required term of pod (anti-)affinity."""

    label_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    namespace_selector: LabelSelector | None = None
    topology_key: str | None = None
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None


class WeightedPodAffinityTerm(Struct, rename="camel", gc=False, omit_defaults=True):
    """A preferred term of pod anti-affinity."""

    weight: Int | None = None
    pod_affinity_term: PodAffinityTerm | None = None


class PodAffinity(Struct, gc=False, omit_defaults=True):
    """Pod affinity; preferences are not read."""

    required: list[PodAffinityTerm] | None = field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")


class PodAntiAffinity(PodAffinity, gc=False, omit_defaults=True):
    """Pod anti-affinity; pod deletion costs use preferences."""

    preferred: list[WeightedPodAffinityTerm] | None = field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Struct, rename="camel", gc=False, omit_defaults=True):
    """All three kinds of affinity."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAntiAffinity | None = None


class TopologySpreadConstraint(Struct, rename="camel", gc=False, omit_defaults=True):
    """A topology spread constraint, of either kind."""

    max_skew: Int | None = None
    topology_key: str | None = None
    when_unsatisfiable: str | None = None
    label_selector: LabelSelector | None = None
    min_domains: Int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] | None = None


class Toleration(Struct, gc=False, omit_defaults=True):
    """A toleration; `tolerationSeconds` has no part in scheduling."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class EmptyDir(Struct, gc=False, omit_defaults=True):
    """An emptyDir."""

    medium: str | None = None


class Present(Struct, gc=False, omit_defaults=True):
    """A field of which only the presence matters."""


class ClaimSource(Struct, rename="camel", gc=False, omit_defaults=True):
    """A mount of a claim."""

    claim_name: str | None = None


class CsiSource(Struct, rename="camel", gc=False, omit_defaults=True):
    """A volume of a CSI driver."""

    driver: str | None = None
    volume_handle: str | None = None


class GcePersistentDisk(Struct, rename="camel", gc=False, omit_defaults=True):
    """An in-tree Google disk."""

    pd_name: str | None = None
    read_only: bool | None = None


class AwsElasticBlockStore(Struct, rename={"volume_id": "volumeID"}, gc=False, omit_defaults=True):
    """An in-tree Amazon disk."""

    volume_id: str | None = None


class AzureDisk(Struct, gc=False, omit_defaults=True):
    """An in-tree Azure disk."""

    disk_name: str | None = field(default=None, name="diskName")
    disk_uri: str | None = field(default=None, name="diskURI")


class Cinder(Struct, rename={"volume_id": "volumeID"}, gc=False, omit_defaults=True):
    """An in-tree OpenStack disk."""

    volume_id: str | None = None


class Rbd(Struct, gc=False, omit_defaults=True):
    """A Ceph block device."""

    monitors: list[str] | None = None
    pool: str | None = None
    image: str | None = None
    read_only: bool | None = field(default=None, name="readOnly")


class Iscsi(Struct, gc=False, omit_defaults=True):
    """An iSCSI disk."""

    iqn: str | None = None
    read_only: bool | None = field(default=None, name="readOnly")


class PodVolume(Struct, rename="camel", gc=False, omit_defaults=True):
    """A volume of a pod; config maps, secrets and the like have no field here and are all None."""

    name: str | None = None
    empty_dir: EmptyDir | None = None
    host_path: Present | None = None
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: Present | None = None
    gce_persistent_disk: GcePersistentDisk | None = None
    aws_elastic_block_store: AwsElasticBlockStore | None = None
    azure_disk: AzureDisk | None = None
    cinder: Cinder | None = None
    rbd: Rbd | None = None
    iscsi: Iscsi | None = None


class PodResourceClaim(Struct, rename="camel", gc=False, omit_defaults=True):
    """A claim of devices: a claim or a template, by name."""

    name: str | None = None
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class SchedulingGroup(Struct, rename="camel", gc=False, omit_defaults=True):
    """The group of pods that a pod is scheduled with."""

    pod_group_name: str | None = None


class WorkloadReference(Struct, rename="camel", gc=False, omit_defaults=True):
    """A group of a Workload, as Kubernetes 1.35 has it."""

    name: str | None = None
    pod_group: str | None = None
    pod_group_replica_key: str | None = None


class PodSpec(Struct, rename="camel", gc=False, omit_defaults=True):
    """`spec` of a pod or of a pod template."""

    node_name: str | None = None
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    resources: Resources | None = None
    overhead: Quantities | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    topology_spread_constraints: list[TopologySpreadConstraint] | None = None
    host_network: bool | None = None
    host_users: bool | None = None
    priority: Int | None = None
    priority_class_name: str | None = None
    preemption_policy: str | None = None
    scheduler_name: str | None = None
    restart_policy: str | None = None
    termination_grace_period_seconds: Int | None = None
    resource_claims: list[PodResourceClaim] | None = None
    scheduling_gates: list[Present] | None = None
    volumes: list[PodVolume] | None = None
    scheduling_group: SchedulingGroup | None = None
    workload_ref: WorkloadReference | None = None


class SpecForm:
    """What is computed once for a spec that many pods share; None = not yet.

    key : the encoded fields for scheduling; pinned : the node that it is pinned to or ""; requests : as `pod_requests`
    returns them without a status
    """

    __slots__ = ("key", "pinned", "requests")

    def __init__(self) -> None:
        self.key: bytes | None = None
        self.pinned = ""
        self.requests: list[tuple[str, int]] | None = None


class RepeatedPodSpec(PodSpec, gc=False):
    """The spec of one pod out of many: copies differ in `node_name` alone, and share everything else."""

    form: SpecForm = field(default_factory=SpecForm)

    @classmethod
    def of(cls, spec: PodSpec) -> "RepeatedPodSpec":
        """Return a spec with the fields of another."""
        return cls(**{name: getattr(spec, name) for name in spec.__struct_fields__})


class PodCondition(Struct, gc=False, omit_defaults=True):
    """A condition of a pod."""

    type: str | None = None
    status: str | None = None
    reason: str | None = None


class ContainerStatus(Struct, rename="camel", gc=False, omit_defaults=True):
    """Resources that a container was given; they may differ from its spec after in-place resizing."""

    name: str | None = None
    resources: Resources | None = None
    allocated_resources: Quantities | None = None


class ResourceClaimMade(Struct, rename="camel", gc=False, omit_defaults=True):
    """The claim that was made from a template for a pod; no name = none is needed."""

    name: str | None = None
    resource_claim_name: str | None = None


class PodStatus(Struct, rename="camel", gc=False, omit_defaults=True):
    """`status` of a pod."""

    phase: str | None = None
    conditions: list[PodCondition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    start_time: Time | None = None
    nominated_node_name: str | None = None
    resource_claim_statuses: list[ResourceClaimMade] | None = None


class Pod(Struct, gc=False, omit_defaults=True):
    """A pod."""

    metadata: PodMeta | None = None
    spec: PodSpec | None = None
    status: PodStatus | None = None
