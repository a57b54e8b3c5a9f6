"""Pod groups as values, and the pods that name them, as columns sorted by pod. Decides their order; never what follows
from a group. Raises SnapshotError. Source: `protos/trimtab/v1/snapshot.proto`.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.model.execution import asking
from trimtab.planner.model.values import PodGroup, TemplatePod
from trimtab.planner.snapshot.checks import Row, check_index, check_unique, read_optional
from trimtab.planner.snapshot.columns import Int32, Int64
from trimtab.planner.snapshot.rows import UNKNOWN_COUNT
from trimtab.v1 import snapshot_pb2 as pb

_TABLE: Final = "pod_groups"
_POLICIES: Final = frozenset(pb.PodGroupPolicy.Code.values()) - {pb.PodGroupPolicy.UNSPECIFIED}
_MODES: Final = frozenset(pb.PodGroupDisruptionMode.Code.values())


class GroupedPods(NamedTuple):
    """The pods that name a group. group_pod : int32[B] ascending; group_name : int32[B] index of its name in the
    strings."""

    group_pod: Int32
    group_name: Int32


def read_pod_groups(
    messages: Sequence[pb.PodGroup], strings: Sequence[str], pod_of: Callable[[Row, pb.TemplatePod], TemplatePod]
) -> tuple[PodGroup, ...]:
    """Return the groups sorted by (namespace, name). pod_of : reads a pod template."""
    row = Row(_TABLE, strings)
    found = [_pod_group(row, index, m, pod_of) for index, m in enumerate(asking(messages))]
    check_unique([one[:2] for one in found], _TABLE, "name")
    return tuple(sorted(found, key=lambda one: one[:2]))


def _pod_group(row: Row, index: int, m: pb.PodGroup, pod_of: Callable[[Row, pb.TemplatePod], TemplatePod]) -> PodGroup:
    row.index = index
    namespace, name = row.name(m.namespace, "namespace"), row.name(m.name, "name")
    kind = m.object or f"PodGroup/{namespace}/{name}"
    if m.problem:
        return PodGroup(namespace, name, kind, m.problem)
    is_gang = m.policy == pb.PodGroupPolicy.GANG
    row.code(m.policy, _POLICIES, "policy")
    return PodGroup(
        namespace=namespace,
        name=name,
        object=kind,
        min_count=row.at_least(m.min_count, 1, "min_count") if is_gang else 0,
        topology_key=row.text(m.topology_key, "topology_key"),
        moves_whole=row.code(m.disruption_mode, _MODES, "disruption_mode") == pb.PodGroupDisruptionMode.POD_GROUP,
        priority=m.priority if m.HasField("priority") else None,
        created_ns=row.time_ns(m, "create_time"),
        desired_count=row.at_least(m.desired_count, 0, "desired_count")
        if m.HasField("desired_count")
        else UNKNOWN_COUNT,
        pod_template=pod_of(row, m.pod_template) if m.HasField("pod_template") else None,
        slack=m.slack,
    )


def group_names(table: pb.PodTable, strings: Sequence[str]) -> Int32:
    """Return the column of names, checked, in the message's strings, 0 = in none. int32[P], int32[0] if no pod is in
    any."""
    if not table.pod_group:
        return np.zeros(0, np.int32)
    names = read_optional(table.pod_group, np.int32, table.count, "pods", "pod_group")
    check_index(names, len(strings), "pods", "pod_group", "strings")
    return names


def read_grouped_pods(table: pb.PodTable, strings: Sequence[str], moved: Int32, order: Int64 | None) -> GroupedPods:
    """Return the pods in groups. moved : int32[strings], the canonical numbers; order : int64[P] new row to old one."""
    names = group_names(table, strings)
    if not len(names):
        return GroupedPods(names, names)
    names = names if order is None else names[order]
    is_named = np.fromiter(map(bool, strings), np.bool_, len(strings))
    pod = np.flatnonzero(is_named[names]).astype(np.int32)
    return GroupedPods(pod, moved[names[pod]])
