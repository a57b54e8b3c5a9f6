"""The parts of a cluster that balanced scale-down keeps even: similar node groups, and the zones of their nodes.

A group is represented by its first node: `trimtab.planner.facts.similarity` compares its capacity, allocatable amounts,
lasting taints and those labels that some pod selects nodes by, including labels of providers. All-or-nothing groups are
left out.
"""

from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.facts.similarity import PLACE_LABELS, ZONE_LABEL, NodeShape, Similarity, samples
from trimtab.planner.facts.transient_taints import lasting
from trimtab.planner.model.settings import Readiness, SimilaritySettings
from trimtab.planner.snapshot.columns import Bool, Int32, Int64, Snapshot
from trimtab.planner.snapshot.lookup import string_index
from trimtab.planner.snapshot.references import take_or

_NO_NAMES: Final = Readiness()


class Parts(NamedTuple):
    """Parts to balance, over the nodes that are not being deleted.

    group, zone : int32[N] part of each node, -1 = none; a zone within one kind of groups is a part; group_kind :
    int32[G], zone_kind : int32[Z] similar parts have the same kind, -1 = none; group_size : int64[G], zone_size :
    int64[Z] nodes of each part.
    """

    group: Int32
    zone: Int32
    group_kind: Int32
    zone_kind: Int32
    group_size: Int64
    zone_size: Int64


def divide(snapshot: Snapshot, leaving: Bool, settings: SimilaritySettings) -> Parts:
    """Return the parts. leaving : bool[N], nodes that are being deleted. O(N + S + G)."""
    count = len(snapshot.groups)
    row = snapshot.nodes.group
    whole = np.array([group.zero_or_max for group in snapshot.groups], bool)
    group = np.where(leaving | take_or(whole, row, True), -1, row).astype(np.int32)
    group_kind = _kinds(snapshot, group, settings)
    kind = take_or(group_kind, group, -1)
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


def _kinds(snapshot: Snapshot, group: Int32, settings: SimilaritySettings) -> Int32:
    """Return the kind of each group, -1 for those without nodes. int32[G]; kinds are numbered by their first group."""
    shapes: list[NodeShape | None] = [None] * len(snapshot.groups)
    wanted = set(settings.compared_labels) or _selected_keys(snapshot)
    for row, node in zip(*(found.tolist() for found in np.unique(group, return_index=True)), strict=True):
        if row >= 0:
            shapes[row] = _shape(snapshot, node, wanted)
    return Similarity(lambda: samples(shapes, settings), settings).kinds


def _selected_keys(snapshot: Snapshot) -> set[str]:
    """Return the labels by which some pod selects nodes."""
    keys = {key for spec in snapshot.specs for key, _ in spec.node_selector}
    for spec in snapshot.specs:
        for term in spec.node_affinity or ():
            keys |= {requirement.key for requirement in term.match_expressions}
    return keys


def _shape(snapshot: Snapshot, node: int, wanted: set[str]) -> NodeShape:
    """Return the compared properties of a node, with the wanted labels."""
    nodes, sets, strings = snapshot.nodes, snapshot.label_sets, snapshot.strings
    first, last = sets.offsets[nodes.label_set[node] : nodes.label_set[node] + 2] if len(sets.offsets) > 1 else (0, 0)
    labels = ((strings[sets.keys[at]], strings[sets.values[at]]) for at in range(first, last))
    return NodeShape(
        capacity=_amounts(snapshot, nodes.capacity[node]),
        allocatable=_amounts(snapshot, nodes.allocatable[node]),
        free=(),
        labels=[(key, value) for key, value in labels if key in wanted],
        taints=lasting(nodes.taint_sets[nodes.taint_set[node]], _NO_NAMES),
        ignored=PLACE_LABELS,
    )


def _amounts(snapshot: Snapshot, row: Int64) -> list[tuple[str, int]]:
    return [(snapshot.resources[at], int(row[at])) for at in np.flatnonzero(row).tolist()]


def _zones(snapshot: Snapshot) -> Int32:
    """Return the string index of each node's zone, -1 if it has none. int32[N]."""
    sets = snapshot.label_sets
    zone = np.full(max(len(sets.offsets) - 1, 1), -1, np.int32)
    key = string_index(snapshot.strings, ZONE_LABEL)
    at = np.flatnonzero(sets.keys == key)
    zone[np.searchsorted(sets.offsets, at, side="right") - 1] = sets.values[at]
    return zone[snapshot.nodes.label_set]
