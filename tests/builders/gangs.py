"""Snapshots with gangs: pods as Kubernetes objects that name a pod group, and the groups as rows."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tests.builders.kubernetes import Json, pod, snapshot_of
from tests.builders.scale_up import Outcome, plan_message
from trimtab.v1 import reason_pb2
from trimtab.v1 import snapshot_pb2 as pb

GROUP_OF = "test/pod-group"
"""Annotation by which these tests say in which group a pod is."""


class GangRow(NamedTuple):
    """A pod group. min_count : 0 = policy BASIC; key : of the topology; whole : it moves as a whole; priority : None =
    it is of Kubernetes 1.36."""

    name: str
    min_count: int = 0
    key: str = ""
    whole: bool = False
    namespace: str = "default"
    problem: str = ""
    priority: int | None = None


def member(name: str, group: str, cpu: str = "1", **more: Any) -> Json:
    """Build a pod of a group."""
    return pod(name, cpu, "64Mi", annotations={GROUP_OF: group}, **more)


def members(group: str, count: int, cpu: str = "1", **more: Any) -> list[Json]:
    """Build several equal pods of a group, named after it."""
    return [member(f"{group}-{i:03}", group, cpu, **more) for i in range(count)]


def with_groups(
    message: pb.ClusterSnapshot, groups: Sequence[GangRow], group_of: Mapping[str, str]
) -> pb.ClusterSnapshot:
    """Add groups to a snapshot, in place, and the pods that name them. group_of : by "namespace/name" of a pod."""
    texts = list(message.strings) or [""]

    def string(text: str) -> int:
        if text not in texts:
            texts.append(text)
        return texts.index(text)

    table = message.pods
    ends = np.cumsum(np.frombuffer(table.name_lengths, "<i4"))
    names = [table.names[end - size : end].decode() for end, size in zip(ends, np.diff(ends, prepend=0), strict=True)]
    spaces = np.frombuffer(table.namespace, "<i4")
    column = [string(group_of.get(f"{texts[spaces[i]]}/{names[i]}", "")) for i in range(table.count)]
    table.pod_group = np.array(column, "<i4").tobytes()
    for one in groups:
        message.pod_groups.add(
            namespace=one.namespace,
            name=one.name,
            policy=pb.PodGroupPolicy.GANG if one.min_count else pb.PodGroupPolicy.BASIC,
            min_count=one.min_count,
            topology_key=string(one.key),
            disruption_mode=pb.PodGroupDisruptionMode.POD_GROUP if one.whole else pb.PodGroupDisruptionMode.POD,
            problem=one.problem,
            priority=one.priority,
        )
    message.strings[:] = texts
    return message


def gang_snapshot(groups: Sequence[GangRow], *objects: Json | Sequence[Json]) -> pb.ClusterSnapshot:
    """Return the snapshot of objects, with groups and the pods built by `member` in them."""
    flat = [one for some in objects for one in (some if isinstance(some, list) else [some])]
    named = [(one["metadata"], one["metadata"].get("annotations", {}).get(GROUP_OF)) for one in flat]
    group_of = {f"{data.get('namespace', 'default')}/{data['name']}": name for data, name in named if name}
    return with_groups(snapshot_of(*objects), groups, group_of)


def plan_gangs(groups: Sequence[GangRow], *objects: Json | Sequence[Json], **more: Any) -> Outcome:
    """Decide on objects with gangs, and verify the plan."""
    return plan_message(gang_snapshot(groups, *objects), **more)


def reasons(outcome: Outcome) -> dict[str, str]:
    """Return why gangs have no places, by name, "" = they have."""
    names = reason_pb2.GangReason.Code.Name
    return {one.group.partition("/")[2]: names(one.reason) if one.reason else "" for one in outcome.decision.gangs}
