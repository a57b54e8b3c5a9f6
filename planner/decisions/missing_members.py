"""Pods of gangs that their workloads have not made yet, added to a snapshot as pending pods: a setting.

Decides which are added: up to the number that the workload makes, like its pod template, or else like the last of the
group's pods by name; none for groups that cannot be read, nor for those beyond a number of pods, which a note names.
Their names are no names of pods: "GROUP (missing 1)".
O(groups + pods in groups), and a delta if any pod is missing.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.facts.gangs import MISSING_UID, members_by_group, template_of
from trimtab.planner.model.execution import asking, reserve_memory
from trimtab.planner.model.values import PodGroup, TemplatePod
from trimtab.planner.slack.specs import SpecWriter
from trimtab.planner.snapshot.columns import Snapshot
from trimtab.planner.snapshot.delta import apply_delta
from trimtab.v1 import snapshot_pb2 as pb

MOST: Final = 5000
"""Most missing pods of one group that count: a wrong number in an object does not fill a plan."""
MOST_TOGETHER: Final = 100_000
"""Most missing pods of all groups; a group for whose pods no more is left gets none, and the next ones are tried."""
_BYTES: Final = 700
"""Memory of a pod while it is added, and in the plan."""


class _Missing(NamedTuple):
    """Pods that a group lacks: `added` pods like `like` are added; is_cut : fewer than it lacks."""

    group: PodGroup
    like: TemplatePod
    added: int
    is_cut: bool


def with_missing_members(snapshot: Snapshot) -> tuple[Snapshot, str]:
    """Return the snapshot with the pods that are missing, the same object if none is; and a note for people, "" = all
    of them have been added."""
    lacks = list(_missing(snapshot))
    cut = [f"{missing.group.namespace}/{missing.group.name}" for missing in lacks if missing.is_cut]
    note = ""
    if cut:
        shown = ", ".join(cut[:3]) + (", …" if len(cut) > 3 else "")
        note = (
            f"missing pods of {len(cut)} gangs are not counted, as a plan counts {MOST} of a gang and {MOST_TOGETHER} "
            f"of all: {shown}"
        )
    count = sum(missing.added for missing in lacks)
    if not count:
        return snapshot, note
    reserve_memory(_BYTES * count, "missing pods of gangs")
    delta = pb.SnapshotDelta()
    _write(
        delta.changed, [(missing.group, at, missing.like) for missing in lacks for at in range(1, missing.added + 1)]
    )
    return apply_delta(snapshot, delta)._replace(version=snapshot.version), note


def _missing(snapshot: Snapshot) -> Iterator[_Missing]:
    """Yield what is missing, group by group."""
    members, allowed = members_by_group(snapshot), MOST_TOGETHER
    for group in asking(snapshot.pod_groups):
        if group.problem or group.desired_count <= 0:
            continue
        exist = members.get((group.namespace, group.name), [])
        lacking = group.desired_count - len(exist)
        like = template_of(snapshot, group, exist) if lacking > 0 else None
        if like is not None:
            count = min(lacking, MOST)
            count = count if count <= allowed else 0
            allowed -= count
            yield _Missing(group, like, count, count < lacking)


def _write(out: pb.ClusterSnapshot, missing: list[tuple[PodGroup, int, TemplatePod]]) -> None:
    """Write the pods, with dictionaries of their own."""
    writer = SpecWriter()
    specs = [writer.spec(like.spec) for _, _, like in asking(missing)]
    sets = [writer.label_set(like.labels) for _, _, like in asking(missing)]
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
