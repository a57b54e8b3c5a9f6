"""Machines of Cluster API. They come by the ten thousand, so only the labels and annotations that are read are
declared: all others are skipped while they are parsed. Source: Cluster API, `MachineSpec` and `MachineStatus`.
"""

from typing import Final

from msgspec import Struct, field

from trimtab.common.kubernetes.signals import cluster_autoscaler

DELETE_MACHINE: Final = cluster_autoscaler.DELETE_MACHINE.key


class MachineLabels(Struct, gc=False):
    """The labels that name the group of a Machine."""

    deployment: str = field(default="", name=cluster_autoscaler.DEPLOYMENT_NAME.key)
    pool: str = field(default="", name=cluster_autoscaler.POOL_NAME.key)


class MachineAnnotations(Struct, gc=False):
    """The mark for which a Machine goes first when its group shrinks."""

    mark: str | None = field(default=None, name=DELETE_MACHINE)


class MachineMeta(Struct, rename="camel", gc=False):
    """`metadata` of a Machine."""

    name: str
    namespace: str = ""
    uid: str = ""
    labels: MachineLabels | None = None
    annotations: MachineAnnotations | None = None
    deletion_timestamp: str | None = None


class MachineSpec(Struct, gc=False):
    """`spec` of a Machine."""

    provider_id: str | None = field(default=None, name="providerID")


class NodeReference(Struct, gc=False):
    """The node of a Machine."""

    name: str = ""


class MachineStatus(Struct, rename="camel", gc=False):
    """`status` of a Machine."""

    phase: str = ""
    node_ref: NodeReference | None = None
    failure_reason: str | None = None
    failure_message: str | None = None


class Machine(Struct, gc=False):
    """A Machine."""

    metadata: MachineMeta
    spec: MachineSpec | None = None
    status: MachineStatus | None = None
