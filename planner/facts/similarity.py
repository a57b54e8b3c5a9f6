"""Find similar node groups, and the zones of their nodes, for balanced scale-down.

Decides only which groups and zones are balanced against each other. Nodes are similar with the same capacity (memory
within 1.5 %), the same taints (without those of node conditions and autoscalers), and the same values of the labels
that some pod selects nodes by, except zone, region and host name. A group is judged by its first node. All-or-nothing
groups are left out. Source: Cluster Autoscaler, nodegroupset.IsCloudProviderNodeInfoSimilar; it lists labels to ignore
instead.
"""

from typing import Final, NamedTuple

import numpy as np

from planner.facts.leaving import TO_BE_DELETED_TAINT
from planner.model.values import Taint
from planner.snapshot.columns import Bool, Int32, Int64, Snapshot
from planner.snapshot.dictionaries import MEMORY
from planner.snapshot.lookup import string_index

ZONE_LABEL: Final = "topology.kubernetes.io/zone"
PLACE_LABELS: Final = frozenset(
    {
        ZONE_LABEL,
        "topology.kubernetes.io/region",
        "kubernetes.io/hostname",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
    }
)
MEMORY_TOLERANCE: Final = 0.015
_CONDITION: Final = "node.kubernetes.io/"
_AUTOSCALER_TAINTS: Final = frozenset({TO_BE_DELETED_TAINT, "DeletionCandidateOfClusterAutoscaler"})


class Parts(NamedTuple):
    """Parts to balance, over the nodes that are not being deleted.

    group, zone : int32[N] part of each node, -1 = none; a zone of one kind of groups is a part;
    group_kind : int32[G], zone_kind : int32[Z] similar parts have the same kind, -1 = none; group_size : int64[G],
    zone_size : int64[Z] nodes of each part.
    """

    group: Int32
    zone: Int32
    group_kind: Int32
    zone_kind: Int32
    group_size: Int64
    zone_size: Int64


def divide(snapshot: Snapshot, leaving: Bool) -> Parts:
    """Return the parts. leaving : bool[N], nodes that are being deleted. O(N + S + G · kinds)."""
    count = len(snapshot.groups)
    row = snapshot.nodes.group
    whole = np.array([*(group.zero_or_max for group in snapshot.groups), True], bool)
    group = np.where(leaving | whole[row], -1, row).astype(np.int32)
    group_kind = _kinds(snapshot, group)
    kind = np.append(group_kind, -1)[group]
    zone_of = _zones(snapshot)
    in_zone = np.flatnonzero((kind >= 0) & (zone_of >= 0))
    zone = np.full(len(row), -1, np.int32)
    pairs, of = np.unique(np.stack([kind[in_zone], zone_of[in_zone]]), axis=1, return_inverse=True)
    zone[in_zone] = of.reshape(-1)
    return Parts(
        group=group,
        zone=zone,
        group_kind=group_kind,
        zone_kind=pairs[0].astype(np.int32),
        group_size=np.bincount(group[group >= 0], minlength=count).astype(np.int64),
        zone_size=np.bincount(zone[in_zone], minlength=pairs.shape[1]).astype(np.int64),
    )


class _Sample(NamedTuple):
    """Properties compared between groups. amounts : capacity without memory."""

    amounts: tuple[int, ...]
    memory: int
    taints: tuple[Taint, ...]
    labels: tuple[tuple[int, int], ...]


def _kinds(snapshot: Snapshot, group: Int32) -> Int32:
    """Return the kind of each group, -1 for those without nodes. int32[G]; first group by name first."""
    kinds = np.full(len(snapshot.groups), -1, np.int32)
    rows, first = np.unique(group, return_index=True)
    keys = _selected_keys(snapshot)
    known: list[_Sample] = []
    for row, node in zip(rows.tolist(), first.tolist(), strict=True):
        if row < 0:
            continue
        sample = _sample(snapshot, node, keys)
        kinds[row] = next((kind for kind, one in enumerate(known) if _alike(one, sample)), len(known))
        if kinds[row] == len(known):
            known.append(sample)
    return kinds


def _selected_keys(snapshot: Snapshot) -> Int32:
    """Return the string indices of the labels that some pod selects nodes by. int32, ascending."""
    keys = {key for spec in snapshot.specs for key, _ in spec.node_selector}
    for spec in snapshot.specs:
        for term in spec.node_affinity or ():
            keys |= {requirement.key for requirement in term.match_expressions}
    found = sorted(string_index(snapshot.strings, key) for key in keys - PLACE_LABELS)
    return np.array(found, np.int32)


def _sample(snapshot: Snapshot, node: int, keys: Int32) -> _Sample:
    nodes, sets = snapshot.nodes, snapshot.label_sets
    amounts = nodes.capacity[node].tolist()
    memory = amounts.pop(MEMORY)
    taints = nodes.taint_sets[nodes.taint_set[node]]
    first, last = sets.offsets[nodes.label_set[node] : nodes.label_set[node] + 2] if len(sets.offsets) > 1 else (0, 0)
    labels = zip(sets.keys[first:last].tolist(), sets.values[first:last].tolist(), strict=True)
    wanted = set(keys.tolist())
    return _Sample(
        tuple(amounts),
        memory,
        tuple(sorted(one for one in taints if not _is_transient(one))),
        tuple(sorted((key, value) for key, value in labels if key in wanted)),
    )


def _is_transient(taint: Taint) -> bool:
    """Return whether a taint is of a node condition or an autoscaler, not of the group."""
    return taint.key.startswith(_CONDITION) or taint.key in _AUTOSCALER_TAINTS


def _alike(one: _Sample, other: _Sample) -> bool:
    close = abs(one.memory - other.memory) <= MEMORY_TOLERANCE * max(one.memory, other.memory)
    return close and one._replace(memory=0) == other._replace(memory=0)


def _zones(snapshot: Snapshot) -> Int32:
    """Return the string index of each node's zone, -1 without one. int32[N]."""
    sets = snapshot.label_sets
    zone = np.full(max(len(sets.offsets) - 1, 1), -1, np.int32)
    key = string_index(snapshot.strings, ZONE_LABEL)
    at = np.flatnonzero(sets.keys == key)
    zone[np.searchsorted(sets.offsets, at, side="right") - 1] = sets.values[at]
    return zone[snapshot.nodes.label_set]
