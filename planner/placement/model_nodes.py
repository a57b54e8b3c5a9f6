"""The node on which new nodes of a group are modelled, if its template does not say what they have.

It is the smallest of the nodes that have what the healthy nodes of the group have in common; the first by name of equal
ones. Healthy is a node that is ready, stays, is not cordoned and has been ready for a while. In common is

- a resource that at least half of them offer,
- a label key that at least half of them have,
- a taint that all of them have: one that only some have was put there by people or by a controller.

If the newest two agree on a resource or a taint that this excludes, it counts as well: the group's kind has changed,
and a growth by the old kind would bring no node on which its pods fit, again and again.
Source: Cluster Autoscaler, MixedTemplateNodeInfoProvider, which takes the first healthy node that it comes across.
"""

from collections import Counter
from typing import Final, NamedTuple

import numpy as np

from trimtab.common.kubernetes.signals.cluster_autoscaler import TO_BE_DELETED
from trimtab.planner.facts.readiness import is_ready
from trimtab.planner.facts.transient_taints import lasting
from trimtab.planner.model.settings import SECOND_NS, ScaleUpSettings
from trimtab.planner.model.values import TaintSpec
from trimtab.planner.snapshot.columns import NO_NODE, Bool, Int64, NodeColumns, Snapshot
from trimtab.planner.snapshot.dictionaries import CPU, MEMORY

STABLE_NS: Final = 60 * SECOND_NS
"""How long a node must be ready before it serves as a model for others."""
FROM_TEMPLATE: Final = NO_NODE
NOTHING: Final = -2
_NEWEST: Final = 2


class ModelNode(NamedTuple):
    """node : row of the snapshot, FROM_TEMPLATE or NOTHING; taints : those in common, None = the node's own; left_out :
    label keys that new nodes do not have; note : what people should know of the choice."""

    node: int
    taints: tuple[TaintSpec, ...] | None = None
    left_out: frozenset[str] = frozenset()
    note: str = ""


def model_nodes(snapshot: Snapshot, settings: ScaleUpSettings, leaving: Bool, now_ns: int) -> list[ModelNode]:
    """Return the model of each group. leaving : bool[N], nodes that are being deleted. O(N · resources)."""
    nodes, count = snapshot.nodes, len(snapshot.groups)
    healthy = is_ready(snapshot, settings.readiness, now_ns) & ~nodes.unschedulable & ~leaving
    healthy &= ~_has_deletion_taint(nodes) & ((nodes.ready_ns == 0) | (now_ns - nodes.ready_ns > STABLE_NS))
    first, any_node = _first_by_group(nodes, healthy, count), _first_by_group(nodes, ~leaving, count)
    any_node = np.where(any_node == NOTHING, _first_by_group(nodes, np.ones(len(healthy), bool), count), any_node)
    has_template = np.array([group.template >= 0 for group in snapshot.groups], bool)
    if settings.prefer_template:
        chosen = np.where(has_template, FROM_TEMPLATE, np.where(first == NOTHING, any_node, first))
    else:
        chosen = np.where(first != NOTHING, first, np.where(has_template, FROM_TEMPLATE, any_node))
    found = [ModelNode(node) for node in chosen.tolist()]
    for group in np.flatnonzero((chosen >= 0) & (chosen == first) & _is_mixed(snapshot, healthy, first)).tolist():
        members = np.flatnonzero(healthy & (nodes.group == group))
        found[group] = _HealthyNodes(snapshot, members, settings).model(snapshot.groups[group].id)
    return found


def _first_by_group(nodes: NodeColumns, wanted: Bool, count: int) -> Int64:
    first = np.full(count, NOTHING, np.int64)
    rows = np.flatnonzero(wanted & (nodes.group >= 0))[::-1]
    first[nodes.group[rows]] = rows
    return first


def _has_deletion_taint(nodes: NodeColumns) -> Bool:
    marked = [any(taint.key == TO_BE_DELETED.key for taint in taints) for taints in nodes.taint_sets]
    return np.array([*marked, False], bool)[nodes.taint_set]


def _is_mixed(snapshot: Snapshot, healthy: Bool, first: Int64) -> Bool:
    """Return which groups have healthy nodes that differ from the first one in amounts, taints or number of labels.
    bool[G]."""
    nodes, labels = snapshot.nodes, np.diff(snapshot.label_sets.offsets)
    rows = np.flatnonzero(healthy & (nodes.group >= 0))
    like = first[nodes.group[rows]]
    differs = (nodes.allocatable[rows] != nodes.allocatable[like]).any(axis=1)
    differs |= nodes.taint_set[rows] != nodes.taint_set[like]
    differs |= labels[nodes.label_set[rows]] != labels[nodes.label_set[like]]
    mixed = np.zeros(len(first), bool)
    mixed[nodes.group[rows[differs]]] = True
    return mixed


class _HealthyNodes:
    """The healthy nodes of one group. members : int64[M] rows, by name."""

    def __init__(self, snapshot: Snapshot, members: Int64, settings: ScaleUpSettings) -> None:
        self._snapshot, self._members, self._rules = snapshot, members, settings.readiness
        created = snapshot.nodes.created_ns[members]
        newest = np.argsort(created, kind="stable")[-_NEWEST:]
        is_new = len(members) > _NEWEST and created[newest].min() > 0
        self._newest = members[newest] if is_new else members[:0]

    def model(self, group: str) -> ModelNode:
        """Return the model of the group with this id."""
        nodes, members = self._snapshot.nodes, self._members
        offered = nodes.allocatable[members] > 0
        has = 2 * offered.sum(axis=0) >= len(members)
        newest = nodes.allocatable[self._newest] > 0
        changed = (newest.any(axis=0) == newest.all(axis=0)) & (newest.all(axis=0) != has) & bool(len(newest))
        unlike = (offered != np.where(changed, ~has, has)).sum(axis=1)
        like = members[unlike == unlike.min()]
        size = nodes.allocatable[like][:, [CPU, MEMORY]]
        node = int(like[np.lexsort((size[:, 1], size[:, 0]))[0]])
        taints, notes = self._taints(node)
        for at in np.flatnonzero(changed).tolist():
            came = "without" if has[at] else "with"
            name = self._snapshot.resources[at]
            notes.append(f"its newest nodes came {came} {name}, so new ones are planned the same way")
        if (size.max(axis=0) > _SAME_SIZE * size.min(axis=0)).any():
            notes.append(f"its nodes differ in size; new ones are planned as small as {nodes.name[node]}")
        note = f"node group {group}: {'; '.join(notes)}" if notes else ""
        return ModelNode(node, taints, self._rare_labels(node), note)

    def _taints(self, node: int) -> tuple[tuple[TaintSpec, ...], list[str]]:
        """Return the taints in common, and notes on others. node : the model, whose order of taints is kept."""
        nodes = self._snapshot.nodes

        def of(rows: Int64) -> list[frozenset[TaintSpec]]:
            return [frozenset(lasting(nodes.taint_sets[at], self._rules)) for at in nodes.taint_set[rows].tolist()]

        each, newest = of(self._members), of(self._newest)
        common = frozenset.intersection(*each)
        new = frozenset.intersection(*newest) - common if newest else frozenset[TaintSpec]()
        some = sorted({one.key for one in frozenset.union(*each) - common - new})
        own = [one for one in lasting(nodes.taint_sets[nodes.taint_set[node]], self._rules) if one in common | new]
        notes = [f"only some of its nodes have the taint {key}, so new ones are planned without" for key in some]
        added = sorted({one.key for one in new})
        notes += [f"its newest nodes came with the taint {key}, and so do planned ones" for key in added]
        return (*own, *sorted(new.difference(own))), notes

    def _rare_labels(self, node: int) -> frozenset[str]:
        """Return the label keys of a node that fewer than half of the nodes have."""
        snapshot = self._snapshot
        count = Counter(
            key for row in self._members for key, _ in snapshot.labels_of(int(snapshot.nodes.label_set[row]))
        )
        own = snapshot.labels_of(int(snapshot.nodes.label_set[node]))
        return frozenset(key for key, _ in own if 2 * count[key] < len(self._members))


_SAME_SIZE: Final = 1.05
"""Ratio up to which nodes count as of one size: the amounts that systems keep for themselves differ. A guess."""
