"""Nodes that no static predicate distinguishes share a class. Contract: a class is (labels in use, name if a selector
names it, taint set, unschedulable, what predicates read of traits). A label such as the hostname splits nodes only if a
selector names its value; K stays near the number of node groups. Cost: O(N x keys in use), vectorised.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import NamedTuple

import numpy as np

from trimtab.planner.classes.grouping import group_columns, number_values
from trimtab.planner.classes.label_columns import LookedAt, label_matrix
from trimtab.planner.classes.node_requirements import NodeRows
from trimtab.planner.model.execution import UNLIMITED, RequestLimits
from trimtab.planner.model.values import NodeTraits, TaintSpec
from trimtab.planner.snapshot.columns import Bool, Int32, Int64, LabelSets


class NodeInput(NamedTuple):
    """N nodes as scheduling sees them; more in `trimtab.planner.snapshot.columns.NodeColumns`.

    label_set : int32[N]; taint_set : int32[N] into `taint_sets`; unschedulable : bool[N]; allocatable : int64[N,
    resources]; traits : of each node.
    """

    name: tuple[str, ...]
    label_set: Int32
    taint_set: Int32
    taint_sets: tuple[tuple[TaintSpec, ...], ...]
    unschedulable: Bool
    allocatable: Int64
    traits: tuple[NodeTraits, ...]


class NodeClasses(NamedTuple):
    """K node classes. of : int32[N]; rows : each class in the form for requirements; taint_set : int32[K] into
    `taint_sets`; unschedulable : bool[K]; traits : those of one node of each class. The parts of traits that make
    classes (`NodeSignature.traits`) are the same for all nodes of a class. template_traits : those of the templates of
    all node groups, in the simulation or not.
    """

    of: Int32
    rows: NodeRows
    taint_set: Int32
    taint_sets: tuple[tuple[TaintSpec, ...], ...]
    unschedulable: Bool
    traits: tuple[NodeTraits, ...]
    template_traits: tuple[NodeTraits, ...] = ()


TraitPart = Callable[[NodeTraits], Hashable]
"""Returns what a predicate reads of a node's traits."""


class NodeSignature(NamedTuple):
    """What predicates tell apart in nodes, besides taints and `unschedulable`: labels, names, parts of traits."""

    labels: LookedAt
    names: set[str]
    traits: tuple[TraitPart, ...]


def node_classes(
    strings: tuple[str, ...],
    sets: LabelSets,
    nodes: NodeInput,
    signature: NodeSignature,
    limits: RequestLimits = UNLIMITED,
) -> NodeClasses:
    """Build the classes of all nodes."""
    labels = label_matrix(strings, sets, nodes.label_set, signature.labels, limits)
    name, name_texts = _names(nodes, signature.names)
    groups = group_columns(
        [
            (labels.groups.of, labels.groups.size),
            (name, len(name_texts)),
            (nodes.taint_set, len(nodes.taint_sets)),
            (nodes.unschedulable.astype(np.int32), 2),
            *_by_traits(nodes.traits, signature.traits),
        ]
    )
    first = groups.first
    texts = tuple(name_texts[i] for i in name[first].tolist())
    rows = NodeRows(labels, labels.groups.of[first], texts, limits)
    return NodeClasses(
        groups.of,
        rows,
        nodes.taint_set[first],
        nodes.taint_sets,
        np.ascontiguousarray(nodes.unschedulable[first]),
        tuple([nodes.traits[node] for node in first.tolist()]),
    )


def _by_traits(traits: tuple[NodeTraits, ...], parts: Iterable[TraitPart]) -> list[tuple[Int32, int]]:
    """Return a column for each part of the traits, and its number of values."""
    columns = []
    for part in parts:
        of, values = number_values(list(map(part, traits)))
        columns.append((of, len(values)))
    return columns


def _names(nodes: NodeInput, names: set[str]) -> tuple[Int32, list[str | None]]:
    texts: list[str | None] = ["", None, *sorted(names)]
    if not names:
        return np.zeros(len(nodes.name), np.int32), texts
    number = {text: i for i, text in enumerate(texts)} | {"": 1}
    return np.fromiter((number.get(name, 0) for name in nodes.name), np.int32, len(nodes.name)), texts
