"""Nodes that no static predicate distinguishes share a class. Contract: a class is (labels in use, name if a selector
names it, taint set, unschedulable). A label such as the hostname splits nodes only if a selector names its value; K
stays near the number of node groups. Cost: O(N x keys in use), vectorised.
"""

from typing import NamedTuple

import numpy as np

from trimtab.planner.classes.grouping import group_columns
from trimtab.planner.classes.label_columns import LookedAt, label_matrix
from trimtab.planner.classes.node_requirements import NodeRows, note_requirement, note_terms
from trimtab.planner.classes.scheduling_specs import SchedulingSpecs
from trimtab.planner.model.effort import UNLIMITED, Effort
from trimtab.planner.model.values import NodeSelectorTerm, Taint
from trimtab.planner.snapshot.columns import Bool, Int32, Int64, LabelSets


class NodeInput(NamedTuple):
    """Nodes as scheduling sees them; see `trimtab.planner.snapshot.columns.NodeColumns`."""

    name: tuple[str, ...]
    label_set: Int32
    taint_set: Int32
    taint_sets: tuple[tuple[Taint, ...], ...]
    unschedulable: Bool
    allocatable: Int64
    attach_limits: tuple[tuple[tuple[str, int], ...], ...]


class NodeClasses(NamedTuple):
    """K node classes. of : int32[N]; rows : each class in the form for requirements; taint_set : int32[K] into
    `taint_sets`;
    unschedulable : bool[K].
    """

    of: Int32
    rows: NodeRows
    taint_set: Int32
    taint_sets: tuple[tuple[Taint, ...], ...]
    unschedulable: Bool


class NodeSelectors(NamedTuple):
    """All selectors of nodes by label: scheduling specs, terms of volumes, and (key, values) of volumes' zones."""

    specs: SchedulingSpecs
    terms: tuple[tuple[NodeSelectorTerm, ...], ...]
    labels: LookedAt


def node_classes(
    strings: tuple[str, ...],
    sets: LabelSets,
    nodes: NodeInput,
    selectors: NodeSelectors,
    effort: Effort = UNLIMITED,
) -> NodeClasses:
    """Build the classes of all nodes."""
    looked_at, names = selectors.labels, set[str]()
    for requirement in selectors.specs.node_requirements:
        note_requirement(requirement, looked_at, names)
    for terms in selectors.terms:
        note_terms(terms, looked_at, names)
    labels = label_matrix(strings, sets, nodes.label_set, looked_at, effort)
    name, name_texts = _names(nodes, names)
    groups = group_columns(
        [
            (labels.groups.of, labels.groups.size),
            (name, len(name_texts)),
            (nodes.taint_set, len(nodes.taint_sets)),
            (nodes.unschedulable.astype(np.int32), 2),
        ]
    )
    first = groups.first
    texts = tuple(name_texts[i] for i in name[first].tolist())
    rows = NodeRows(labels, labels.groups.of[first], texts, effort)
    return NodeClasses(
        groups.of, rows, nodes.taint_set[first], nodes.taint_sets, np.ascontiguousarray(nodes.unschedulable[first])
    )


def _names(nodes: NodeInput, names: set[str]) -> tuple[Int32, list[str | None]]:
    texts: list[str | None] = ["", None, *sorted(names)]
    if not names:
        return np.zeros(len(nodes.name), np.int32), texts
    number = {text: i for i, text in enumerate(texts)} | {"": 1}
    return np.fromiter((number.get(name, 0) for name in nodes.name), np.int32, len(nodes.name)), texts
