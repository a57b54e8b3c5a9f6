"""Disruption budgets, priority classes, capacity buffers and ProvisioningRequests. Source: Kubernetes API, policy/v1,
scheduling/v1; autoscaling.x-k8s.io/v1beta1 and v1.
"""

from msgspec import Struct, field

from trimtab.common.kubernetes.kinds.metadata import Int, LabelSelector, ObjectMeta, Quantities, Time


class ObjectCondition(Struct, rename="camel", gc=False):
    """A condition of an object."""

    type: str | None = None
    status: str | None = None
    reason: str | None = None
    message: str | None = None
    last_transition_time: Time | None = None


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
    conditions: list[ObjectCondition] | None = None


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


class CapacityBufferRequest(Struct, gc=False):
    """What a CapacityBuffer asks for, without the status."""

    metadata: ObjectMeta | None = None
    spec: CapacityBufferSpec | None = None


class CapacityBuffer(CapacityBufferRequest, gc=False):
    """A CapacityBuffer."""

    status: CapacityBufferStatus | None = None


class ProvisioningPodSet(Struct, rename="camel", gc=False):
    """A set of equal pods of a ProvisioningRequest."""

    pod_template_ref: TemplateReference | None = None
    count: Int | None = None


class ProvisioningRequestSpec(Struct, rename="camel", gc=False):
    """`spec` of a ProvisioningRequest."""

    pod_sets: list[ProvisioningPodSet] | None = None
    provisioning_class_name: str | None = None
    parameters: dict[str, str] | None = None


class ProvisioningRequestStatus(Struct, rename="camel", gc=False):
    """`status` of a ProvisioningRequest."""

    conditions: list[ObjectCondition] | None = None


class ProvisioningRequest(Struct, gc=False):
    """A ProvisioningRequest."""

    metadata: ObjectMeta | None = None
    spec: ProvisioningRequestSpec | None = None
    status: ProvisioningRequestStatus | None = None


class PodGroupCostOwner(Struct, gc=False):
    """The controller of the pods."""

    kind: str = ""
    name: str = ""


class PodGroupCostSpec(Struct, rename="camel", gc=False):
    """`spec` of a PodGroupCost. `costs` : pod to rank, a higher one is removed sooner; `waits_for` : the group that is
    scaled down before this one, "" = none; `ranked_at` : RFC 3339.
    """

    owner: PodGroupCostOwner = field(default_factory=PodGroupCostOwner)
    costs: dict[str, int] | None = None
    max_removals: int = 0
    waits_for: str = ""
    ranked_at: str = ""


class PodGroupCostStatus(Struct, rename="camel", gc=False):
    """`status` of a PodGroupCost, for the costs of one `generation`."""

    generation: int = 0
    observed_pods: int = 0
    ranked_pods: int = 0
    complete: bool = False
    message: str = ""
    ranked_at: str = ""


class PodGroupCost(Struct, gc=False):
    """`trimtab.dev/v1alpha1` PodGroupCost: the ranks of the pods of one controller."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PodGroupCostSpec = field(default_factory=PodGroupCostSpec)
    status: PodGroupCostStatus = field(default_factory=PodGroupCostStatus)
