"""The effects of a pod's volumes on scheduling and draining, before claims are resolved.

Config maps, secrets, projected volumes and inline CSI volumes (whose drivers attach nothing) have none.
Source: kube-scheduler plugins volumerestrictions (isVolumeConflict) and nodevolumelimits; Cluster Autoscaler
drainability rule localstorage; component-helpers ephemeral.VolumeClaimName.
"""

from typing import NamedTuple

from trimtab.common.kubernetes.kinds.pods import Pod, PodVolume


class Claim(NamedTuple):
    """A claim that a pod mounts; `ephemeral` : created for this pod alone. `name` : of the PersistentVolumeClaim, in
    the pod's namespace.
    """

    name: str
    ephemeral: bool


class Disk(NamedTuple):
    """A disk of an in-tree type with its CSI driver, which counts against attach limits. `driver` : CSI driver;
    `handle` : the volume's id at the driver.
    """

    driver: str
    handle: str


class Mounts(NamedTuple):
    """The effects of the volumes of one pod.

    local_storage : a hostPath, or an emptyDir not in memory, that no annotation exempts
    exclusive_disks, read_only_disks : opaque names of disks not to be mounted twice on a node, sorted
    claims, disks : what may count against attach limits and topology, in the pod's order
    """

    local_storage: bool = False
    exclusive_disks: tuple[str, ...] = ()
    read_only_disks: tuple[str, ...] = ()
    claims: tuple[Claim, ...] = ()
    disks: tuple[Disk, ...] = ()


NOTHING = Mounts()


def mounts_of(pod: Pod) -> Mounts:
    """Return the effects of the volumes of a pod; `NOTHING` for most pods, at little cost."""
    relevant = relevant_volumes(pod.spec.volumes) if pod.spec else ()
    return _mounts(pod, relevant) if relevant else NOTHING


def relevant_volumes(volumes: list[PodVolume] | None) -> list[PodVolume]:
    """Return the volumes that may have an effect."""
    return [volume for volume in volumes if not _irrelevant(volume)] if volumes else []


def _irrelevant(volume: PodVolume) -> bool:
    return (
        volume.empty_dir is None
        and volume.host_path is None
        and volume.persistent_volume_claim is None
        and volume.ephemeral is None
        and volume.aws_elastic_block_store is None
        and volume.gce_persistent_disk is None
        and volume.azure_disk is None
        and volume.cinder is None
        and volume.rbd is None
        and volume.iscsi is None
    )


def _mounts(pod: Pod, volumes: list[PodVolume]) -> Mounts:
    meta = pod.metadata
    annotations = meta.annotations if meta else None
    excused = ((annotations.safe_to_evict_local_volumes if annotations else None) or "").split(",")
    claims, disks = [], []
    exclusive: set[str] = set()
    read_only: set[str] = set()
    for volume in volumes:
        if volume.persistent_volume_claim is not None:
            claims.append(Claim(volume.persistent_volume_claim.claim_name or "", False))
        elif volume.ephemeral is not None:
            claims.append(Claim(f"{(meta.name if meta else None) or ''}-{volume.name or ''}", True))
        else:
            disk = inline_disk(volume)
            if disk is not None and disk.handle:
                disks.append(disk)
        names, is_read_only = _restricted(volume)
        (read_only if is_read_only else exclusive).update(names)
    return Mounts(
        local_storage=any(_is_local(v) and (v.name or "") not in excused for v in volumes),
        exclusive_disks=tuple(sorted(exclusive)),
        read_only_disks=tuple(sorted(read_only - exclusive)),
        claims=tuple(claims),
        disks=tuple(disks),
    )


def _is_local(volume: PodVolume) -> bool:
    return volume.host_path is not None or (volume.empty_dir is not None and volume.empty_dir.medium != "Memory")


def _restricted(volume: PodVolume) -> tuple[list[str], bool]:
    """Return names that no other pod on the node may mount, and whether read-only mounts are compatible."""
    if volume.gce_persistent_disk is not None:
        return [f"gce-pd/{volume.gce_persistent_disk.pd_name}"], bool(volume.gce_persistent_disk.read_only)
    if volume.aws_elastic_block_store is not None:
        return [f"aws-ebs/{volume.aws_elastic_block_store.volume_id}"], False
    if volume.iscsi is not None:
        return [f"iscsi/{volume.iscsi.iqn}"], bool(volume.iscsi.read_only)
    if volume.rbd is not None:
        rbd = volume.rbd
        image = f"{rbd.pool or 'rbd'}/{rbd.image}"
        return [f"rbd/{monitor}/{image}" for monitor in rbd.monitors or ()], bool(rbd.read_only)
    return [], False


def inline_disk(volume: PodVolume) -> Disk | None:
    """Return an inline in-tree disk as the CSI volume that it is migrated to; None if there is none."""
    if volume.aws_elastic_block_store is not None:
        return Disk("ebs.csi.aws.com", ebs_handle(volume.aws_elastic_block_store.volume_id or ""))
    if volume.gce_persistent_disk is not None:
        return Disk("pd.csi.storage.gke.io", gce_handle(volume.gce_persistent_disk.pd_name or "", ""))
    if volume.azure_disk is not None:
        return Disk("disk.csi.azure.com", volume.azure_disk.disk_uri or "")
    if volume.cinder is not None:
        return Disk("cinder.csi.openstack.org", volume.cinder.volume_id or "")
    return None


def ebs_handle(volume_id: str) -> str:
    """Return the handle of an Amazon disk: `aws://zone/vol-1` and `vol-1` are the same."""
    return volume_id.rstrip("/").rsplit("/", 1)[-1] if volume_id.startswith("aws://") else volume_id


def gce_handle(disk: str, zone: str) -> str:
    """Return the handle of a Google disk in a zone; "" = zone unknown."""
    return f"projects/UNSPECIFIED/zones/{zone or 'UNSPECIFIED'}/disks/{disk}"
