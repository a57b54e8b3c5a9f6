"""NodePools and NodeClaims of Karpenter, as far as plans need them, and our MachineOffer. Fields of v1beta1 that v1 has
elsewhere are read where they were. Source: kubernetes-sigs/karpenter, pkg/apis/v1 and v1beta1.
"""

from msgspec import Struct

from trimtab.common.kubernetes.kinds.metadata import Int, ObjectMeta, Quantities
from trimtab.common.kubernetes.kinds.nodes import Taint
from trimtab.common.kubernetes.kinds.policies import ObjectCondition


class PoolRequirement(Struct, rename="camel", gc=False):
    """A requirement on a label of nodes. min_values : how many different values the allowed machines must have."""

    key: str | None = None
    operator: str | None = None
    values: list[str] | None = None
    min_values: Int | None = None


class ClaimTemplateSpec(Struct, rename="camel", gc=False):
    """What the nodes of a pool are like."""

    taints: list[Taint] | None = None
    startup_taints: list[Taint] | None = None
    requirements: list[PoolRequirement] | None = None
    expire_after: str | None = None
    termination_grace_period: str | None = None


class ClaimTemplate(Struct, rename="camel", gc=False):
    """The template of a pool's nodes."""

    metadata: ObjectMeta | None = None
    spec: ClaimTemplateSpec | None = None


class PoolBudget(Struct, rename="camel", gc=False):
    """How many nodes of a pool may be disrupted at the same time."""

    nodes: str | Int | None = None
    reasons: list[str] | None = None
    schedule: str | None = None
    duration: str | None = None


class PoolDisruption(Struct, rename="camel", gc=False):
    """When the nodes of a pool may be disrupted."""

    consolidation_policy: str | None = None
    consolidate_after: str | None = None
    expire_after: str | None = None
    budgets: list[PoolBudget] | None = None


class NodePoolSpec(Struct, rename="camel", gc=False):
    """`spec` of a NodePool. replicas : the pool has so many nodes, whatever pods need."""

    template: ClaimTemplate | None = None
    disruption: PoolDisruption | None = None
    limits: Quantities | None = None
    weight: Int | None = None
    replicas: Int | None = None


class PoolCondition(Struct, gc=False):
    """A condition of a NodePool."""

    type: str | None = None
    status: str | None = None
    message: str | None = None


class NodePoolStatus(Struct, gc=False):
    """`status` of a NodePool."""

    conditions: list[PoolCondition] | None = None


class NodePool(Struct, gc=False):
    """A NodePool: nodes of any offering that its requirements allow."""

    metadata: ObjectMeta | None = None
    spec: NodePoolSpec | None = None
    status: NodePoolStatus | None = None


class NodeClaimStatus(Struct, rename="camel", gc=False):
    """`status` of a NodeClaim: the node that it became, and what the machine has."""

    node_name: str | None = None
    capacity: Quantities | None = None
    allocatable: Quantities | None = None
    conditions: list[ObjectCondition] | None = None


class NodeClaim(Struct, gc=False):
    """A node that Karpenter has requested, registered or not. Its labels say of which pool and offering it is."""

    metadata: ObjectMeta | None = None
    status: NodeClaimStatus | None = None


class OfferSpec(Struct, rename="camel", gc=False, forbid_unknown_fields=True):
    """`spec` of a MachineOffer. It is our own kind, so a field that is not declared is a mistake.

    zone : None = every zone of the cluster; capacity_type : None = on demand; capacity, allocatable : of one node;
    labels : of its nodes, besides those that follow from the rest; price : of a node and hour, None = not known.
    """

    instance_type: str | None = None
    zone: str | None = None
    capacity_type: str | None = None
    capacity: Quantities | None = None
    allocatable: Quantities | None = None
    labels: dict[str, str] | None = None
    price: float | None = None


class OfferObject(Struct, gc=False):
    """`trimtab.dev/v1` MachineOffer: a machine that NodePools may have."""

    metadata: ObjectMeta | None = None
    spec: OfferSpec | None = None
