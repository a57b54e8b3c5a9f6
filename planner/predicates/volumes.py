"""VolumeBinding and VolumeZone: the fixed requirements of a pod's volumes on nodes.

Contract: volumes are reduced to profiles (usable or not, node affinity, zones); pods to sets of profiles. Claims and
disks in use and attach limits change as pods move; they are counters elsewhere.
Source: plugins volumebinding and volumezone, v1.34.3.
"""

from typing import NamedTuple

import numpy as np

from trimtab.planner.classes.label_columns import LookedAt
from trimtab.planner.classes.node_requirements import NodeRows
from trimtab.planner.model.values import LabelRequirement, NodeSelectorTerm, Volume
from trimtab.planner.snapshot.columns import Bool, Int32
from trimtab.v1.snapshot_pb2 import LabelOperator, VolumeState

ZONE_LABELS = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
}
"""Label of a volume -> label to use for nodes without the volume's label."""
_SEPARATOR = "__"
_UNUSABLE = (VolumeState.UNBOUND_IMMEDIATE, VolumeState.MISSING)


class VolumeProfile(NamedTuple):
    """Requirements of one volume on nodes; `zones` are (key, values)."""

    unusable: bool
    terms: tuple[NodeSelectorTerm, ...] | None
    zones: tuple[tuple[str, tuple[str, ...]], ...]


class VolumeSets(NamedTuple):
    """of : int32[P] set of profiles of each pod's volumes, 0 = none; sets : the sets, as sorted indices of profiles."""

    of: Int32
    sets: list[tuple[int, ...]]
    profiles: list[VolumeProfile]


def profile(volume: Volume) -> VolumeProfile:
    """Return the requirements of a volume on nodes. A zone label with an empty part is ignored, as upstream does."""
    zones = []
    for key, value in volume.zone_labels:
        values = tuple(part.strip() for part in value.split(_SEPARATOR))
        if key in ZONE_LABELS and all(values):
            zones.append((key, values))
    return VolumeProfile(volume.state in _UNUSABLE, volume.node_affinity, tuple(zones))


def volume_sets(volumes: tuple[Volume, ...], pod_count: int, mounts: tuple[Int32, Int32]) -> VolumeSets:
    """Reduce every pod's volumes to a set of profiles. mounts : (pod, volume), int32[M] each, pods ascending."""
    nothing = VolumeProfile(False, None, ())
    numbers: dict[VolumeProfile, int] = {nothing: 0}
    of_volume = np.fromiter((numbers.setdefault(profile(v), len(numbers)) for v in volumes), np.int64, len(volumes))
    pod, volume = mounts
    of = np.zeros(pod_count, np.int32)
    sets: dict[tuple[int, ...], int] = {(): 0}
    asked = of_volume[volume]
    keys = np.unique(pod[asked > 0].astype(np.int64) * len(numbers) + asked[asked > 0])
    pods, profiles = keys // len(numbers), keys % len(numbers)
    starts = np.flatnonzero(np.diff(pods, prepend=-1))
    ends = np.append(starts[1:], len(pods))[: len(starts)]
    listed = profiles.tolist()
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        of[pods[start]] = sets.setdefault(tuple(listed[start:end]), len(sets))
    return VolumeSets(of, list(sets), list(numbers))


def note_zones(profiles: list[VolumeProfile], looked_at: LookedAt) -> None:
    """Note the node labels that zones of volumes use."""
    if not any(one.zones for one in profiles):
        return
    for key in ZONE_LABELS:
        looked_at.requirement(LabelRequirement(key, LabelOperator.EXISTS, ()))
    for one in profiles:
        for key, values in one.zones:
            for value in values:
                looked_at.value(key, value)
                looked_at.value(ZONE_LABELS[key], value)


def unbindable(volumes: VolumeSets, rows: NodeRows) -> Bool:
    """Return which node classes the volumes' state or node affinity excludes : bool[sets, K]."""
    by_profile = np.zeros((len(volumes.profiles), rows.count), np.bool_)
    for at, one in enumerate(volumes.profiles):
        if one.unusable:
            by_profile[at] = True
        elif one.terms is not None:
            by_profile[at] = ~rows.meet_terms(one.terms)
    return _any_of(volumes, by_profile)


def outside_zone(volumes: VolumeSets, rows: NodeRows) -> Bool:
    """Return which node classes the zones of bound volumes exclude : bool[sets, K]."""
    by_profile = np.zeros((len(volumes.profiles), rows.count), np.bool_)
    zoned = [at for at, one in enumerate(volumes.profiles) if one.zones]
    if not zoned:
        return _any_of(volumes, by_profile)
    present = {key: rows.has_labels(LabelRequirement(key, LabelOperator.EXISTS, ())) for key in ZONE_LABELS}
    has_any = np.logical_or.reduce(list(present.values()))
    for at in zoned:
        for key, values in volumes.profiles[at].zones:
            own = rows.has_labels(LabelRequirement(key, LabelOperator.IN, values))
            newer = rows.has_labels(LabelRequirement(ZONE_LABELS[key], LabelOperator.IN, values))
            by_profile[at] |= has_any & ~np.where(present[key], own, newer)
    return _any_of(volumes, by_profile)


def _any_of(volumes: VolumeSets, by_profile: Bool) -> Bool:
    out = np.zeros((len(volumes.sets), by_profile.shape[1]), np.bool_)
    for at, one in enumerate(volumes.sets):
        if one:
            out[at] = by_profile[list(one)].any(axis=0)
    return out
