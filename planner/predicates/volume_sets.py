"""The volumes of pods, reduced to what static predicates read of them.

Contract: a volume is reduced to a profile, one value for each predicate; a pod to the set of profiles of its volumes.
Claims and disks in use and attach limits change as pods move; they are counters elsewhere.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from trimtab.planner.model.values import MountedVolume
from trimtab.planner.snapshot.columns import Bool, Int32

VolumePart = Callable[[MountedVolume], Hashable]
"""Returns what a predicate reads of a volume, None if the predicate refuses it nowhere."""


class VolumeSets(NamedTuple):
    """of : int32[P] set of profiles of each pod's volumes, 0 = none; sets : the sets, as sorted indices of profiles;
    profiles : of each distinct volume the values that predicates read, in the order of the predicates; the first has
    none."""

    of: Int32
    sets: list[tuple[int, ...]]
    profiles: list[tuple[Hashable, ...]]

    def values(self, part: int) -> list[Any]:
        """Return the values that the predicate `part` reads, one for each profile that has one."""
        return [profile[part] for profile in self.profiles if profile[part] is not None]

    def any_of(self, part: int, rows: Bool) -> Bool:
        """Return what a predicate excludes for each set, from what it excludes for each of `values(part)`. rows :
        bool[values, K]. bool[sets, K].
        """
        having = [at for at, profile in enumerate(self.profiles) if profile[part] is not None]
        by_profile = np.zeros((len(self.profiles), rows.shape[1]), np.bool_)
        by_profile[having] = rows
        out = np.zeros((len(self.sets), rows.shape[1]), np.bool_)
        for at, volume_set in enumerate(self.sets):
            if volume_set:
                out[at] = by_profile[list(volume_set)].any(axis=0)
        return out


def volume_sets(
    volumes: tuple[MountedVolume, ...], parts: Sequence[VolumePart], pod_count: int, pod: Int32, volume: Int32
) -> VolumeSets:
    """Reduce every pod's volumes to a set of profiles. pod, volume : int32[M] of each mount, pods
    ascending."""
    numbers: dict[tuple[Hashable, ...], int] = {(None,) * len(parts): 0}
    profiles = (tuple([part(volume) for part in parts]) for volume in volumes)
    of_volume = np.fromiter((numbers.setdefault(profile, len(numbers)) for profile in profiles), np.int64, len(volumes))
    of = np.zeros(pod_count, np.int32)
    sets: dict[tuple[int, ...], int] = {(): 0}
    profile_of = of_volume[volume]
    keys = np.unique(pod[profile_of > 0].astype(np.int64) * len(numbers) + profile_of[profile_of > 0])
    pods, of_pods = keys // len(numbers), keys % len(numbers)
    starts = np.flatnonzero(np.diff(pods, prepend=-1))
    ends = np.append(starts[1:], len(pods))[: len(starts)]
    listed = of_pods.tolist()
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        of[pods[start]] = sets.setdefault(tuple(listed[start:end]), len(sets))
    return VolumeSets(of, list(sets), list(numbers))
