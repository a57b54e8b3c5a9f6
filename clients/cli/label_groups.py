"""Node groups by label, for input without node groups: nodes with the same values of some labels form a group. kubectl
does not know node groups. For a first look, machines of one node pool, type and zone are a good guess. Such a group has
a minimum of 0, its current size as target, and room for as many more nodes as one plan adds. Control plane nodes are in
no group.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Final

import msgspec

from trimtab.clients.cli.amounts import NO_MAXIMUM, counted
from trimtab.clients.cli.failures import UsageError
from trimtab.clients.cli.output import note
from trimtab.clients.cluster_view import ClusterView
from trimtab.common.kubernetes.kinds.nodes import Node, NodeGroup
from trimtab.common.kubernetes.signals import clouds, karpenter, well_known
from trimtab.v1 import actuator_pb2
from trimtab.v1 import snapshot_pb2 as pb

INSTANCE_TYPE, ZONE = well_known.INSTANCE_TYPE.key, well_known.ZONE.key
POOL_LABELS: Final = (
    karpenter.NODE_POOL.key,
    clouds.EKS_NODE_GROUP.key,
    clouds.EKSCTL_GROUP.key,
    clouds.GKE_POOL.key,
    clouds.AZURE_POOL.key,
    clouds.AZURE_OLD_POOL.key,
    clouds.KOPS_GROUP.key,
    clouds.GARDENER_POOL.key,
)
"""Labels by which clouds and tools say a node's pool; of a node's own, the first counts."""
_UNLABELLED: Final = "unlabelled"
NONE = "none"
_OLD_NAMES = {
    INSTANCE_TYPE: well_known.OLD_INSTANCE_TYPE.key,
    ZONE: well_known.OLD_ZONE.key,
}
_OLD_KEYS = set(_OLD_NAMES.values())
_CONTROL_PLANE = {well_known.CONTROL_PLANE.key, well_known.MASTER.key}


def read_labels(text: str | None) -> tuple[str, ...] | None:
    """Read `--group-by`: labels separated by commas, or "none"; None = not given."""
    if text is None:
        return None
    labels = tuple(part.strip() for part in text.split(",")) if text.strip() != NONE else ()
    if not all(labels):
        raise UsageError(f'--group-by {text}: give label keys separated by commas, or "{NONE}"')
    return labels


def group_by_labels(snapshot: pb.ClusterSnapshot, labels: Sequence[str] | None, *, has_pools: bool = False) -> None:
    """Add such groups to a snapshot without node groups, in place, and write a note about it. labels : None = the
    default ones, () = none; has_pools : NodePools say which nodes may come, and no label does. Errors: UsageError if
    the cluster has node groups or NodePools, or if no node has one of the labels.
    """
    if snapshot.node_groups or has_pools:
        refuse_labels(labels)
        return
    if not snapshot.nodes or labels == ():
        return
    view = ClusterView(snapshot)
    labels_of = {node.name: view.labels(node.label_set) for node in snapshot.nodes}
    for label in labels or ():
        _check_label(label, labels_of.values())
    members = _members(labels_of.items(), labels)
    group_of = {node: group for group, nodes in members.items() for node in nodes}
    for node in snapshot.nodes:
        node.node_group = group_of.get(node.name, "")
    for name, nodes in members.items():
        snapshot.node_groups.add(id=name, min_size=0, max_size=NO_MAXIMUM, target_size=len(nodes))
    note(_groups_text(members, len(snapshot.nodes), labels))


class LiveLabelGroups:
    """Such groups of a live cluster without declared ones and without those of an actuator, for
    `RoundSettings.complete_groups`: made anew in each round. labels : None = the default ones, () = none.
    """

    def __init__(
        self, labels: Sequence[str] | None, nodes: Callable[[], Sequence[Node]], warn: Callable[[str], None]
    ) -> None:
        """`nodes` returns all nodes as they are now; `warn` gets the note about the groups, once."""
        self._labels, self._nodes, self._warn = labels, nodes, warn
        self._is_noted = False

    def __call__(
        self, groups: tuple[NodeGroup, ...], status: actuator_pb2.ActuatorStatus | None
    ) -> tuple[NodeGroup, ...]:
        """Return the declared groups, or else those by labels."""
        if groups or status is not None or self._labels == ():
            return groups
        nodes = [node.metadata for node in self._nodes() if node.metadata is not None]
        members = _members(((node.name or "", node.labels or {}) for node in nodes), self._labels)
        if nodes and not self._is_noted:
            self._is_noted = True
            self._warn(_groups_text(members, len(nodes), self._labels))
        return tuple(_declared(name, names) for name, names in members.items())


def refuse_labels(labels: Sequence[str] | None) -> None:
    """Refuse `--group-by` for a cluster that has node groups. Errors: UsageError."""
    if labels:
        raise UsageError("--group-by: the input has its own NodeGroup or NodePool objects; omit the option")


def _check_label(label: str, labels_of: Iterable[Mapping[str, str]]) -> None:
    """Raise UsageError if no node has a label."""
    known = {key for labels in labels_of for key in (*labels, *(_OLD_NAMES if _OLD_KEYS & labels.keys() else ()))}
    if label not in known:
        near = get_close_matches(label, sorted(known), 1)
        meant = f"; did you mean {near[0]}?" if near else ""
        raise UsageError(f"--group-by {label}: no node has this label{meant}")


def _members(nodes: Iterable[tuple[str, Mapping[str, str]]], labels: Sequence[str] | None) -> dict[str, list[str]]:
    """Return the names of each group's nodes, sorted by group. nodes : names and labels."""
    members: defaultdict[str, list[str]] = defaultdict(list)
    for name, of_node in nodes:
        group = label_group(of_node, labels)
        if group:
            members[group].append(name)
    return dict(sorted(members.items()))


def _declared(name: str, nodes: list[str]) -> NodeGroup:
    """Return a group as an object that names its nodes."""
    spec = {"minSize": 0, "maxSize": NO_MAXIMUM, "targetSize": len(nodes), "nodes": sorted(nodes)}
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, NodeGroup)


def _groups_text(members: Mapping[str, Sequence[str]], node_count: int, labels: Sequence[str] | None) -> str:
    """Return the note about groups by labels."""
    left_out = node_count - sum(len(nodes) for nodes in members.values())
    out = f"; {counted(left_out, 'node')} of the control plane excluded" if left_out else ""
    bare = f" Nodes without such labels form the group {_UNLABELLED}." if _UNLABELLED in members else ""
    by = "node pool, instance type and zone" if labels is None else " and ".join(labels)
    return (
        f"the input has no NodeGroup objects, so nodes are grouped by {by} into "
        f"{counted(len(members), 'group')} with minimum 0 and room to grow{out}.{bare} --group-by LABEL,… chooses "
        f"other labels, --group-by {NONE} makes no groups"
    )


def label_value(found: Mapping[str, str], label: str) -> str:
    """Return the value of a node's label, also under the label's old name; "" = it has none."""
    return found.get(label) or found.get(_OLD_NAMES.get(label, ""), "")


def label_group(found: Mapping[str, str], labels: Sequence[str] | None) -> str:
    """Return the group of a node: the values of the labels without missing ones; "unlabelled" if all are missing, "" =
    it is in none, because it belongs to the control plane. labels : None = its pool, instance type and zone.
    """
    if _CONTROL_PLANE & found.keys():
        return ""
    values = [label_value(found, label) for label in ((INSTANCE_TYPE, ZONE) if labels is None else labels)]
    if labels is None:
        values.insert(0, next((value for label in POOL_LABELS if (value := found.get(label))), ""))
    return "/".join(value for value in values if value) or _UNLABELLED
