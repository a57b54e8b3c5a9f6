"""Controllers that own pods, and pod templates. Source: Kubernetes API, apps/v1, batch/v1, core/v1."""

from msgspec import Struct

from trimtab.common.kubernetes.kinds.metadata import Int, LabelSelector, ObjectMeta
from trimtab.common.kubernetes.kinds.pods import PodMeta, PodSpec


class PodTemplateSpec(Struct, gc=False):
    """The pods that a controller makes."""

    metadata: PodMeta | None = None
    spec: PodSpec | None = None


class ReplicatedSpec(Struct, gc=False):
    """`spec` of a controller with a number of replicas."""

    replicas: Int | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec | None = None


class ReplicationControllerSpec(Struct, gc=False):
    """`spec` of a ReplicationController, whose selector is a plain map."""

    replicas: Int | None = None
    selector: dict[str, str] | None = None
    template: PodTemplateSpec | None = None


class ReplicatedStatus(Struct, gc=False):
    """`status` of a controller with a number of replicas."""

    replicas: Int | None = None


class Replicated(Struct, gc=False):
    """What the controllers with a number of replicas have in common."""

    metadata: ObjectMeta | None = None
    spec: ReplicatedSpec | None = None
    status: ReplicatedStatus | None = None


class ReplicaSet(Replicated, gc=False):
    """A ReplicaSet."""


class StatefulSet(Replicated, gc=False):
    """A StatefulSet."""


class ReplicationController(Struct, gc=False):
    """A ReplicationController."""

    metadata: ObjectMeta | None = None
    spec: ReplicationControllerSpec | None = None
    status: ReplicatedStatus | None = None


class Deployment(Replicated, gc=False):
    """A Deployment."""


class JobSpec(Struct, gc=False):
    """`spec` of a Job."""

    parallelism: Int | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec | None = None


class JobStatus(Struct, gc=False):
    """`status` of a Job."""

    active: Int | None = None


class Job(Struct, gc=False):
    """A Job."""

    metadata: ObjectMeta | None = None
    spec: JobSpec | None = None
    status: JobStatus | None = None


class DaemonSetSpec(Struct, gc=False):
    """`spec` of a DaemonSet."""

    selector: LabelSelector | None = None
    template: PodTemplateSpec | None = None


class DaemonSetStatus(Struct, rename="camel", gc=False):
    """`status` of a DaemonSet."""

    desired_number_scheduled: Int | None = None
    current_number_scheduled: Int | None = None


class DaemonSet(Struct, gc=False):
    """A DaemonSet."""

    metadata: ObjectMeta | None = None
    spec: DaemonSetSpec | None = None
    status: DaemonSetStatus | None = None


class PodTemplate(Struct, gc=False):
    """A PodTemplate."""

    metadata: ObjectMeta | None = None
    template: PodTemplateSpec | None = None
