"""Volumes that are attached to a node although no pod on it mounts them: they take room of its attach limits.

Attachments count as for the scheduler, also those that are being removed: of a volume that exists and is of a CSI
driver, each volume once. Pods that have ended mount nothing. A node offers that much less in a whole plan: of a volume
whose pod the plan moves away nothing changes, and a pod that comes for a volume which is attached already counts it
again, as for the scheduler of 1.36.
Source: kube-scheduler 1.36 nodevolumelimits (Filter, getNodeVolumeAttachmentInfo).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping

from trimtab.common.kubernetes.kinds.metadata import ObjectMeta
from trimtab.common.kubernetes.kinds.storage import (
    AttachmentSource,
    AttachmentSpec,
    PersistentVolume,
    PersistentVolumeClaim,
    VolumeAttachment,
    VolumeSpec,
)
from trimtab.common.objects.mounts import Disk
from trimtab.common.objects.pod_rows import PodRow
from trimtab.common.objects.volumes import attached_disk
from trimtab.v1 import snapshot_pb2 as pb

Claims = Mapping[tuple[str, str], PersistentVolumeClaim]
Volumes = Mapping[str, PersistentVolume]
_ENDED = (pb.PodPhase.SUCCEEDED, pb.PodPhase.FAILED)


def unmounted_attachments(
    attachments: Iterable[VolumeAttachment], pods: Iterable[PodRow], claims: Claims, volumes: Volumes
) -> dict[str, Counter[str]]:
    """Return how many volumes of each driver are attached to each node that no pod on it mounts.

    `claims` : by namespace and name; `volumes` : by name.
    """
    attached: dict[str, set[Disk]] = defaultdict(set)
    for attachment in attachments:
        node, disk = node_of(attachment), _disk(attachment, volumes)
        if node and disk is not None:
            attached[node].add(disk)
    if not attached:
        return {}
    for row in pods:
        if row.node in attached and row.phase not in _ENDED:
            attached[row.node].difference_update(row.mounts.disks, _mounted(row, claims, volumes))
    return {node: Counter(disk.driver for disk in disks) for node, disks in attached.items()}


def node_of(attachment: VolumeAttachment) -> str:
    """Return the name of the node to which a volume is attached; "" for none."""
    return (attachment.spec.node_name if attachment.spec else None) or ""


def volume_of(attachment: VolumeAttachment) -> str:
    """Return the name of the volume that is attached; "" for one that is written in a pod."""
    spec = attachment.spec or AttachmentSpec()
    return (spec.source or AttachmentSource()).persistent_volume_name or ""


def _disk(attachment: VolumeAttachment, volumes: Volumes) -> Disk | None:
    driver = (attachment.spec.attacher if attachment.spec else None) or ""
    volume = volumes.get(volume_of(attachment))
    csi = volume.spec.csi if volume is not None and volume.spec else None
    return Disk(driver, csi.volume_handle or "") if driver and csi is not None else None


def _mounted(row: PodRow, claims: Claims, volumes: Volumes) -> Iterator[Disk]:
    for mount in row.mounts.claims:
        claim = claims.get((row.namespace, mount.name))
        volume = volumes.get((claim and claim.spec and claim.spec.volume_name) or "")
        if volume is not None:
            yield attached_disk(volume.metadata or ObjectMeta(), volume.spec or VolumeSpec())
