"""Groups of pods that are scheduled together: PodGroup and Workload of Kubernetes, PodGroup of Volcano.

Source: Kubernetes API, scheduling/v1alpha1 (1.35: Workload only), v1alpha2 (1.36), v1alpha3 and v1beta1 (1.37);
volcano.sh/apis, scheduling/v1beta1. A field has the place that one of the versions gives it; an object has those of
its version.
"""

from typing import Final

from msgspec import Struct, field

from trimtab.common.kubernetes.kinds.metadata import Int, ObjectMeta
from trimtab.common.kubernetes.kinds.pods import Present

OF_1_36: Final = "scheduling.k8s.io/v1alpha2"
OF_1_37: Final = "scheduling.k8s.io/v1beta1"


def is_of_1_36(api_version: str | None, disruption_mode: object) -> bool:
    """Return whether a PodGroup is of Kubernetes 1.36, whose scheduler does not look at its priority. Items of lists do
    not name their version; an API server of 1.36 that keeps priorities gives each group a disruption mode, a string."""
    return api_version == OF_1_36 or isinstance(disruption_mode, str)


class GangPolicy(Struct, rename="camel", gc=False, omit_defaults=True):
    """At least so many pods at the same time, or none."""

    min_count: Int | None = None


class PodGroupPolicy(Struct, gc=False, omit_defaults=True):
    """How the pods of a group are scheduled: each by itself, or as a gang."""

    basic: Present | None = None
    gang: GangPolicy | None = None


class GroupTopology(Struct, gc=False, omit_defaults=True):
    """A label of nodes of which all pods of a group have the same value."""

    key: str | None = None


class GroupConstraints(Struct, gc=False, omit_defaults=True):
    """Where the pods of a group can be."""

    topology: list[GroupTopology] | None = None


class GroupClaim(Struct, rename="camel", gc=False, omit_defaults=True):
    """A claim of devices that the pods of a group share."""

    name: str | None = None
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class GroupDisruption(Struct, gc=False, omit_defaults=True):
    """What the disruption of one pod of a group means, in 1.37; one is given."""

    single: Present | None = None
    all: Present | None = None


class PodGroupTemplate(Struct, rename="camel", gc=False, omit_defaults=True):
    """A group of a workload. `policy` : of 1.35."""

    name: str | None = None
    policy: PodGroupPolicy | None = None
    scheduling_policy: PodGroupPolicy | None = None
    scheduling_constraints: GroupConstraints | None = None
    resource_claims: list[GroupClaim] | None = None
    disruption_mode: str | GroupDisruption | None = None
    priority_class_name: str | None = None
    priority: Int | None = None


class WorkloadController(Struct, rename="camel", gc=False, omit_defaults=True):
    """The object that makes the pods, in the same namespace."""

    api_group: str | None = None
    kind: str | None = None
    name: str | None = None


class WorkloadSpec(Struct, rename="camel", gc=False, omit_defaults=True):
    """`spec` of a workload. `pod_groups` : of 1.35."""

    controller_ref: WorkloadController | None = None
    pod_group_templates: list[PodGroupTemplate] | None = None
    pod_groups: list[PodGroupTemplate] | None = None


class SchedulingWorkload(Struct, gc=False):
    """A workload."""

    metadata: ObjectMeta | None = None
    spec: WorkloadSpec | None = None


class WorkloadTemplateRef(Struct, rename="camel", gc=False, omit_defaults=True):
    """A group of a workload by name. `pod_group_template_name` : of 1.36."""

    workload_name: str | None = None
    template_name: str | None = None
    pod_group_template_name: str | None = None


class PodGroupTemplateRef(Struct, gc=False, omit_defaults=True):
    """Where a group is from, in 1.36."""

    workload: WorkloadTemplateRef | None = None


class PodGroupSpec(Struct, rename="camel", gc=False, omit_defaults=True):
    """`spec` of a group."""

    pod_group_template_ref: PodGroupTemplateRef | None = None
    workload_ref: WorkloadTemplateRef | None = None
    parent_composite_pod_group_name: str | None = None
    scheduling_policy: PodGroupPolicy | None = None
    scheduling_constraints: GroupConstraints | None = None
    resource_claims: list[GroupClaim] | None = None
    disruption_mode: str | GroupDisruption | None = None
    priority_class_name: str | None = None
    priority: Int | None = None


class GroupClaimStatus(Struct, rename="camel", gc=False, omit_defaults=True):
    """The claim that was made for a group."""

    name: str | None = None
    resource_claim_name: str | None = None


class PodGroupStatus(Struct, rename="camel", gc=False, omit_defaults=True):
    """`status` of a group."""

    resource_claim_statuses: list[GroupClaimStatus] | None = None


class SchedulingPodGroup(Struct, gc=False):
    """A group of pods."""

    metadata: ObjectMeta | None = None
    spec: PodGroupSpec | None = None
    status: PodGroupStatus | None = None
    api_version: str | None = field(default=None, name="apiVersion")


class VolcanoPodGroupSpec(Struct, rename="camel", gc=False, omit_defaults=True):
    """`spec` of a group of Volcano."""

    min_member: Int | None = None
    priority_class_name: str | None = None


class VolcanoPodGroup(Struct, gc=False):
    """A group of pods that Volcano schedules."""

    metadata: ObjectMeta | None = None
    spec: VolcanoPodGroupSpec | None = None
