"""Nodes, their CSI limits, namespaces and our NodeGroup. Source: Kubernetes API, core/v1 and storage/v1."""

from msgspec import Struct, field

from trimtab.common.kubernetes.kinds.devices import ResourceSlice
from trimtab.common.kubernetes.kinds.metadata import Int, ObjectMeta, Quantities, Time
from trimtab.common.kubernetes.kinds.pods import Pod


class Taint(Struct, gc=False, omit_defaults=True):
    """A taint. `time_added` has no part in scheduling; a patch of all taints writes it back as it was read."""

    key: str | None = None
    value: str | None = None
    effect: str | None = None
    time_added: str | None = field(default=None, name="timeAdded")


class NodeSpec(Struct, gc=False):
    """`spec` of a node."""

    provider_id: str | None = field(default=None, name="providerID")
    taints: list[Taint] | None = None
    unschedulable: bool | None = None


class NodeCondition(Struct, gc=False):
    """A condition of a node."""

    type: str | None = None
    status: str | None = None
    last_transition_time: Time | None = field(default=None, name="lastTransitionTime")


class NodeSystemInfo(Struct, gc=False):
    """Versions of a node's programs."""

    kubelet_version: str | None = field(default=None, name="kubeletVersion")


class NodeStatus(Struct, gc=False):
    """`status` of a node."""

    capacity: Quantities | None = None
    allocatable: Quantities | None = None
    conditions: list[NodeCondition] | None = None
    declared_features: list[str] | None = field(default=None, name="declaredFeatures")
    node_info: NodeSystemInfo | None = field(default=None, name="nodeInfo")


class Node(Struct, gc=False):
    """A node, or the template of one in a node group."""

    metadata: ObjectMeta | None = None
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


class TemplateNode(Node, gc=False):
    """The template of a node in a node group, with the slices of devices that drivers publish for each."""

    resource_slices: list[ResourceSlice] | None = field(default=None, name="resourceSlices")


class NodeGroupSpec(Struct, rename="camel", gc=False, forbid_unknown_fields=True):
    """`spec` of our node group. It is our own kind, so a field that is not declared is a mistake.

    Not so inside `template`, which is a Node, as Kubernetes prints it. daemon_set_pods : run on each new node, in place
    of those that the DaemonSets would have there.
    """

    min_size: Int | None = None
    max_size: Int | None = None
    target_size: Int | None = None
    node_selector: dict[str, str] | None = None
    nodes: list[str] | None = None
    price: float | None = None
    template: TemplateNode | None = None
    zero_or_max: bool | None = None
    daemon_set_pods: list[Pod] | None = None


class NodeGroupStatus(Struct, rename="camel", gc=False, forbid_unknown_fields=True):
    """`status` of our node group: how it is, and what happened to it last.

    health : "Healthy", "Unhealthy" or "BackedOff", with the end of the back-off beside it.
    """

    health: str | None = None
    backoff_until: Time | None = None
    last_scale_up_time: Time | None = None
    last_deletion_time: Time | None = None
    last_failure_time: Time | None = None


class NodeGroup(Struct, gc=False):
    """`trimtab.dev/v1` NodeGroup; its name is the group's id."""

    metadata: ObjectMeta | None = None
    spec: NodeGroupSpec | None = None
    status: NodeGroupStatus | None = None


class Allocatable(Struct, gc=False):
    """How many volumes of a driver a node can attach."""

    count: Int | None = None


class CSINodeDriver(Struct, gc=False):
    """A CSI driver on a node."""

    name: str | None = None
    allocatable: Allocatable | None = None


class CSINodeSpec(Struct, gc=False):
    """`spec` of a CSINode."""

    drivers: list[CSINodeDriver] | None = None


class CSINode(Struct, gc=False):
    """The CSI drivers of the node of the same name."""

    metadata: ObjectMeta | None = None
    spec: CSINodeSpec | None = None


class Namespace(Struct, gc=False):
    """A namespace, for its labels."""

    metadata: ObjectMeta | None = None
