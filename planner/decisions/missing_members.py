"""Pods of gangs that their workloads have not made yet, added to a snapshot as pending pods: a setting.

Decides which are added: up to the number that the workload makes, like its pod template, or else like the last of the
group's pods by name; none for groups that cannot be read. Their names are no names of pods: "GROUP (missing 1)".
O(groups + pods in groups), and a delta if any pod is missing.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from trimtab.planner.facts.gang_members import members_by_group, template_of
from trimtab.planner.facts.gangs import MISSING_UID
from trimtab.planner.model.values import PodGroup, TemplatePod
from trimtab.planner.slack.specs import SpecWriter
from trimtab.planner.snapshot.columns import Snapshot
from trimtab.planner.snapshot.delta import apply_delta
from trimtab.v1 import snapshot_pb2 as pb

MOST: Final = 5000
"""Most missing pods of one group that count: a wrong number in an object does not fill a plan."""


def with_missing_members(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with the pods that are missing; the same object if none is."""
    members = members_by_group(snapshot)
    missing = [
        one for group in snapshot.pod_groups for one in _missing(snapshot, group, members[group.namespace, group.name])
    ]
    if not missing:
        return snapshot
    delta = pb.SnapshotDelta()
    _write(delta.changed, missing)
    return apply_delta(snapshot, delta)._replace(version=snapshot.version)


def _missing(
    snapshot: Snapshot, group: PodGroup, members: Sequence[int]
) -> Iterator[tuple[PodGroup, int, TemplatePod]]:
    """Yield group, number and content of each pod that is missing. members : pods that exist, by name."""
    if group.problem or group.desired_count <= 0:
        return
    like = template_of(snapshot, group, members)
    if like is not None:
        for number in range(1, min(group.desired_count - len(members), MOST) + 1):
            yield group, number, like


def _write(out: pb.ClusterSnapshot, missing: list[tuple[PodGroup, int, TemplatePod]]) -> None:
    """Write the pods, with dictionaries of their own."""
    writer = SpecWriter()
    specs = [writer.spec(like.spec) for _, _, like in missing]
    sets = [writer.label_set(like.labels) for _, _, like in missing]
    dictionary = writer.finish()
    strings = {text: at for at, text in enumerate(dictionary.strings)}
    spaces = [strings.setdefault(group.namespace, len(strings)) for group, _, _ in missing]
    groups = [strings.setdefault(group.name, len(strings)) for group, _, _ in missing]
    names = [f"{group.name} (missing {number})".encode() for group, number, _ in missing]
    uids = [f"{MISSING_UID}{group.name}/{number}".encode() for group, number, _ in missing]
    out.strings.extend(strings)
    out.resources.extend(dictionary.resources)
    out.label_sets.CopyFrom(dictionary.label_sets)
    out.pod_specs.extend(dictionary.pod_specs)
    pods, count = out.pods, len(missing)
    pods.count = count
    pods.namespace, pods.spec, pods.label_set = _int32(spaces), _int32(specs), _int32(sets)
    pods.names, pods.name_lengths = b"".join(names), _int32(list(map(len, names)))
    pods.uids, pods.uid_lengths = b"".join(uids), _int32(list(map(len, uids)))
    pods.node, pods.pod_group = _int32([0] * count), _int32(groups)
    pods.phase = bytes([pb.PodPhase.PENDING]) * count


def _int32(values: list[int]) -> bytes:
    return np.array(values, "<i4").tobytes()
