"""The parts of a cluster with their own slack: which nodes count, and the constraints that keep a placeholder there.

A part is the whole cluster or a pool, or the nodes of a pool with one value of its topology key. A node counts if it is
ready, not cordoned, not being deleted, and has no taint that the part's placeholders do not tolerate; templates of node
groups stand for new nodes. Vectorised over nodes. N nodes, T templates.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.facts.labels import LabelIndex
from trimtab.planner.facts.readiness import lasting
from trimtab.planner.model.settings import Readiness
from trimtab.planner.model.values import (
    LabelRequirement,
    NodeAffinityTerm,
    PodRequirements,
    Selector,
    TaintSpec,
    TolerationSpec,
)
from trimtab.planner.predicates.taints import any_tolerates
from trimtab.planner.slack.settings import PoolSettings, SlackSettings
from trimtab.planner.snapshot.columns import Bool, Int32, Int64, NodeColumns, Snapshot
from trimtab.v1.snapshot_pb2 import LabelOperator, TaintEffect, TolerationOperator

_EXCLUDING: Final = (TaintEffect.NO_SCHEDULE, TaintEffect.NO_EXECUTE)
_NOTHING_ELSE: Final = Readiness()
_NAME: Final = "metadata.name"


class Part(NamedTuple):
    """A part of the cluster.

    prefix : of the names of its sets; pool : its settings; nodes : bool[N], those that count; templates : bool[T]; spec
    : constraints of its placeholders on nodes, without requests; problem : "" or why the part is incomplete.
    """

    prefix: str
    pool: PoolSettings
    nodes: Bool
    templates: Bool
    spec: PodRequirements
    problem: str = ""


def parts(snapshot: Snapshot, settings: SlackSettings, leaving: Bool) -> list[Part]:
    """Return the parts, the whole cluster first. leaving : bool[N], nodes being deleted."""
    result: list[Part] = []
    layout = _Layout(snapshot)
    usable = snapshot.nodes.ready & ~snapshot.nodes.unschedulable & ~leaving
    for pool in settings.pools:
        result.extend(_parts_of(layout, pool, usable))
    return result


class _Layout:
    """Nodes and templates by label and group, computed on first use."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._labels = LabelIndex(snapshot.strings, snapshot.label_sets)

    def matching(self, table: NodeColumns, selector: Selector) -> Bool:
        """Return the rows of a table of nodes that a selector selects."""
        if not selector:
            return np.ones(len(table.label_set), np.bool_)
        matching: Bool = self._labels.matching(selector)[table.label_set]
        return matching

    def in_groups(self, table: NodeColumns, groups: Sequence[int]) -> Bool:
        """Return the rows of a table of nodes that belong to groups."""
        return np.isin(table.group, np.array(groups, np.int32))

    @cached_property
    def pairs(self) -> tuple[Int64, Int32]:
        """Return (label, as one number; row) for each label of all nodes, then of all templates."""
        snapshot = self.snapshot
        sets = snapshot.label_sets
        of_row = np.concatenate([snapshot.nodes.label_set, snapshot.templates.label_set]).astype(np.int64)
        sizes = (sets.offsets[of_row + 1] - sets.offsets[of_row]).astype(np.int64)
        row = np.repeat(np.arange(len(of_row), dtype=np.int32), sizes)
        entry = np.arange(len(row)) + np.repeat(sets.offsets[of_row] - (np.cumsum(sizes) - sizes), sizes)
        return sets.keys[entry].astype(np.int64) * len(snapshot.strings) + sets.values[entry], row

    def own_label(self, group: int) -> tuple[str, str] | None:
        """Return a label that all nodes of a group and its template have and no other node, the first by key."""
        label, row = self.pairs
        members = np.concatenate([self.snapshot.nodes.group, self.snapshot.templates.group]) == group
        count = int(members.sum())
        inside, number = np.unique(label[members[row]], return_counts=True)
        everywhere = np.isin(inside, label[~members[row]])
        own = inside[(number == count) & ~everywhere]
        if not len(own):
            return None
        strings, at = self.snapshot.strings, int(own[0])
        return strings[at // len(strings)], strings[at % len(strings)]


def _parts_of(layout: _Layout, pool: PoolSettings, usable: Bool) -> list[Part]:
    snapshot = layout.snapshot
    number = {group.id: at for at, group in enumerate(snapshot.groups)}
    groups = [number[name] for name in pool.node_groups if name in number]
    nodes, templates = (layout.matching(table, pool.nodes) for table in (snapshot.nodes, snapshot.templates))
    if pool.node_groups:
        nodes &= layout.in_groups(snapshot.nodes, groups)
        templates &= layout.in_groups(snapshot.templates, groups)
    terms, problem = _terms(layout, pool, groups)
    all_nodes = Part(f"{pool.name}:" if pool.name else "", pool, nodes, templates, PodRequirements(), problem)
    if not pool.topology_key:
        return [_completed(layout, all_nodes, terms, usable)]
    return [
        _completed(layout, _narrowed(layout, all_nodes, value), _with_label(terms, pool.topology_key, value), usable)
        for value in _values(layout, all_nodes, pool.topology_key)
    ]


def _terms(layout: _Layout, pool: PoolSettings, groups: Sequence[int]) -> tuple[tuple[NodeAffinityTerm, ...], str]:
    """Return the alternatives of node affinity that keep placeholders in a pool, () = none; and the problem."""
    unknown = sorted(set(pool.node_groups) - {layout.snapshot.groups[group].id for group in groups})
    problem = f"pool {pool.name}: the snapshot has no node group {', '.join(unknown)}" if unknown else ""
    if not pool.node_groups:
        return ((NodeAffinityTerm(pool.nodes, ()),) if pool.nodes else ()), problem
    terms = []
    for group in groups:
        label = layout.own_label(group)
        if label is not None:
            own = LabelRequirement(label[0], LabelOperator.IN, (label[1],))
            terms.append(NodeAffinityTerm((*pool.nodes, own), ()))
            continue
        nodes = layout.snapshot.nodes
        problem = problem or (
            f"pool {pool.name}: nodes of node group {layout.snapshot.groups[group].id} have no label of their own; "
            "its placeholders stay on its present nodes, and it does not grow for them"
        )
        # One term per node, by its name.
        for node in np.flatnonzero(nodes.group == group).tolist():
            by_name = LabelRequirement(_NAME, LabelOperator.IN, (nodes.name[node],))
            terms.append(NodeAffinityTerm(pool.nodes, (by_name,)))
    # Without any term no node matches, as intended.
    return tuple(terms) or (NodeAffinityTerm((), ()),), problem


def _values(layout: _Layout, parent: Part, key: str) -> list[str]:
    """Return the values of a label on the nodes and templates of a part, sorted."""
    strings = layout.snapshot.strings
    label, row = layout.pairs
    inside = np.concatenate([parent.nodes, parent.templates])[row]
    codes = np.unique(label[inside])
    return sorted(strings[code % len(strings)] for code in codes.tolist() if strings[code // len(strings)] == key)


def _narrowed(layout: _Layout, parent: Part, value: str) -> Part:
    """Return the nodes of a part that have one value of its topology key."""
    selector = (LabelRequirement(parent.pool.topology_key, LabelOperator.IN, (value,)),)
    snapshot = layout.snapshot
    return parent._replace(
        prefix=f"{parent.prefix}{value}:",
        nodes=parent.nodes & layout.matching(snapshot.nodes, selector),
        templates=parent.templates & layout.matching(snapshot.templates, selector),
    )


def _with_label(terms: tuple[NodeAffinityTerm, ...], key: str, value: str) -> tuple[NodeAffinityTerm, ...]:
    """Return the alternatives, each with a label required in addition."""
    wanted = LabelRequirement(key, LabelOperator.IN, (value,))
    return tuple(
        NodeAffinityTerm((*term.match_expressions, wanted), term.match_fields)
        for term in terms or (NodeAffinityTerm((), ()),)
        if term != NodeAffinityTerm((), ()) or not terms
    ) or (NodeAffinityTerm((), ()),)


def _completed(layout: _Layout, part: Part, terms: tuple[NodeAffinityTerm, ...], usable: Bool) -> Part:
    """Remove the nodes that do not count, and write the constraints that keep placeholders on the others."""
    snapshot = layout.snapshot
    tolerations = _tolerations(snapshot, part, usable) if part.pool.name else ()
    return part._replace(
        nodes=part.nodes & usable & _tolerated(snapshot.nodes, tolerations),
        templates=part.templates & _tolerated(snapshot.templates, tolerations),
        spec=PodRequirements(node_affinity=terms or None, tolerations=tolerations),
    )


def _tolerations(snapshot: Snapshot, part: Part, usable: Bool) -> tuple[TolerationSpec, ...]:
    """Return tolerations for the taints that dedicate the nodes of a part, sorted."""
    taints: set[TaintSpec] = set()
    for table, rows in ((snapshot.nodes, part.nodes & usable), (snapshot.templates, part.templates)):
        for taint_set in np.unique(table.taint_set[rows]).tolist():
            taints.update(table.taint_sets[taint_set])
    wanted = {
        TolerationSpec(taint.key, TolerationOperator.EQUAL, taint.value, taint.effect)
        for taint in lasting(taints, _NOTHING_ELSE)
        if taint.effect in _EXCLUDING
    }
    return tuple(sorted(wanted))


def _tolerated(table: NodeColumns, tolerations: tuple[TolerationSpec, ...]) -> Bool:
    """Return the rows of a table of nodes whose taints are all tolerated."""
    by_set = [
        all(taint.effect not in _EXCLUDING or any_tolerates(tolerations, taint) for taint in taints)
        for taints in table.taint_sets
    ]
    tolerated: Bool = np.array([*by_set, False], np.bool_)[table.taint_set]
    return tolerated
