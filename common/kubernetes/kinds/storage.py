"""Claims, volumes and attachments, storage classes and CSI drivers. Source: Kubernetes API, core/v1 and storage/v1."""

from msgspec import Struct

from trimtab.common.kubernetes.kinds.metadata import LabelSelector, NodeSelector, ObjectMeta, Quantities
from trimtab.common.kubernetes.kinds.pods import (
    AwsElasticBlockStore,
    AzureDisk,
    Cinder,
    CsiSource,
    GcePersistentDisk,
    Resources,
)


class ClaimSpec(Struct, rename="camel", gc=False):
    """`spec` of a claim."""

    volume_name: str | None = None
    storage_class_name: str | None = None
    access_modes: list[str] | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    selector: LabelSelector | None = None
    resources: Resources | None = None


class ClaimStatus(Struct, gc=False):
    """`status` of a claim."""

    phase: str | None = None


class PersistentVolumeClaim(Struct, gc=False):
    """A PersistentVolumeClaim."""

    metadata: ObjectMeta | None = None
    spec: ClaimSpec | None = None
    status: ClaimStatus | None = None


class ClaimReference(Struct, gc=False):
    """The claim that a volume is bound to, or kept for."""

    namespace: str | None = None
    name: str | None = None
    uid: str | None = None


class VolumeNodeAffinity(Struct, gc=False):
    """From which nodes a volume can be reached."""

    required: NodeSelector | None = None


class VolumeSpec(Struct, rename="camel", gc=False):
    """`spec` of a volume; of the in-tree sources only those that schedulers count as CSI volumes."""

    claim_ref: ClaimReference | None = None
    storage_class_name: str | None = None
    access_modes: list[str] | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    capacity: Quantities | None = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: CsiSource | None = None
    gce_persistent_disk: GcePersistentDisk | None = None
    aws_elastic_block_store: AwsElasticBlockStore | None = None
    azure_disk: AzureDisk | None = None
    cinder: Cinder | None = None


class PersistentVolume(Struct, gc=False):
    """A PersistentVolume."""

    metadata: ObjectMeta | None = None
    spec: VolumeSpec | None = None
    status: ClaimStatus | None = None


class AttachmentSource(Struct, rename="camel", gc=False):
    """Which volume is attached."""

    persistent_volume_name: str | None = None


class AttachmentSpec(Struct, rename="camel", gc=False):
    """`spec` of an attachment; `attacher` : the CSI driver."""

    attacher: str | None = None
    node_name: str | None = None
    source: AttachmentSource | None = None


class VolumeAttachment(Struct, gc=False):
    """A volume that is attached to a node, or is to be."""

    metadata: ObjectMeta | None = None
    spec: AttachmentSpec | None = None


class TopologyRequirement(Struct, gc=False):
    """A node label and the values allowed."""

    key: str | None = None
    values: list[str] | None = None


class TopologyTerm(Struct, rename="camel", gc=False):
    """One alternative of allowed topologies."""

    match_label_expressions: list[TopologyRequirement] | None = None


class StorageClass(Struct, rename="camel", gc=False):
    """A StorageClass; without a binding mode it binds at once."""

    metadata: ObjectMeta | None = None
    provisioner: str | None = None
    volume_binding_mode: str | None = None
    allowed_topologies: list[TopologyTerm] | None = None


class CSIDriverSpec(Struct, rename="camel", gc=False):
    """`spec` of a CSI driver."""

    prevent_pod_scheduling_if_missing: bool | None = None


class CSIDriver(Struct, gc=False):
    """A CSI driver of the cluster; its name is the driver's."""

    metadata: ObjectMeta | None = None
    spec: CSIDriverSpec | None = None
