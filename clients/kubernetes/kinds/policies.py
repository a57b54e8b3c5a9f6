"""Disruption budgets, priority classes and capacity buffers. Source: Kubernetes API, policy/v1, scheduling/v1;
autoscaling.x-k8s.io/v1beta1.
"""

from msgspec import Struct, field

from trimtab.clients.kubernetes.kinds.metadata import Int, LabelSelector, ObjectMeta, Quantities, Time


class PodDisruptionBudgetSpec(Struct, rename="camel", gc=False):
    """`spec` of a budget."""

    selector: LabelSelector | None = None
    min_available: Int | str | None = None
    max_unavailable: Int | str | None = None
    unhealthy_pod_eviction_policy: str | None = None


class PodDisruptionBudgetStatus(Struct, rename="camel", gc=False):
    """`status` of a budget."""

    disruptions_allowed: Int | None = None
    current_healthy: Int | None = None
    desired_healthy: Int | None = None
    expected_pods: Int | None = None
    observed_generation: Int | None = None
    disrupted_pods: dict[str, Time | None] | None = None


class PodDisruptionBudget(Struct, gc=False):
    """A PodDisruptionBudget; in policy/v1beta1 an empty selector matches no pod."""

    metadata: ObjectMeta | None = None
    spec: PodDisruptionBudgetSpec | None = None
    status: PodDisruptionBudgetStatus | None = None
    api_version: str | None = field(default=None, name="apiVersion")


class PriorityClass(Struct, rename="camel", gc=False):
    """A PriorityClass."""

    metadata: ObjectMeta | None = None
    value: Int | None = None
    global_default: bool | None = None


class TemplateReference(Struct, gc=False):
    """Name of a PodTemplate in the same namespace."""

    name: str | None = None


class ScalableReference(Struct, rename="camel", gc=False):
    """A controller with pods and replicas, in the same namespace."""

    api_group: str | None = None
    kind: str | None = None
    name: str | None = None


class CapacityBufferSpec(Struct, rename="camel", gc=False):
    """`spec` of a capacity buffer."""

    provisioning_strategy: str | None = None
    pod_template_ref: TemplateReference | None = None
    scalable_ref: ScalableReference | None = None
    replicas: Int | None = None
    percentage: Int | None = None
    limits: Quantities | None = None


class CapacityBufferStatus(Struct, rename="camel", gc=False):
    """`status` of a capacity buffer."""

    pod_template_ref: TemplateReference | None = None
    replicas: Int | None = None
    provisioning_strategy: str | None = None


class CapacityBuffer(Struct, gc=False):
    """A CapacityBuffer."""

    metadata: ObjectMeta | None = None
    spec: CapacityBufferSpec | None = None
    status: CapacityBufferStatus | None = None
