"""PodTopologySpread: DoNotSchedule constraints, as counts of matching pods by domain and the smallest of them.

Contract: a domain is eligible if it has a node with all topology keys of the pod's constraints that passes the
constraint's inclusion policies. The count includes matching, not terminating pods of the incoming pod's namespace on
such nodes; an empty selector counts no pod, although it matches the pod itself. With fewer eligible domains than
minDomains the smallest count is 0. A cordoned node keeps its domains unless the constraint honours taints that the pod
does not tolerate. Source: plugin podtopologyspread filtering and common, v1.37.2; the cordoned node: the
node that the Cluster Autoscaler's simulation taints and keeps.
"""

from typing import Final, NamedTuple

import numpy as np

from trimtab.common.kubernetes.signals.cluster_autoscaler import TO_BE_DELETED
from trimtab.planner.classes.node_classes import NodeClasses
from trimtab.planner.classes.pod_classes import PodClasses, classes_by_spec
from trimtab.planner.classes.pod_matching import PodMatching
from trimtab.planner.classes.scheduling_specs import (
    NODE_REQUIREMENT,
    TOLERATIONS,
    PodsLookedAt,
    SchedulingSpec,
    SchedulingSpecs,
)
from trimtab.planner.model.values import LabelRequirement, Selector, SpreadConstraint, TaintSpec
from trimtab.planner.predicates.counter_kind import BuildContext, CountedPredicate
from trimtab.planner.predicates.inter_pod_affinity import by_namespace
from trimtab.planner.predicates.node_affinity import NODE_AFFINITY
from trimtab.planner.predicates.spread_counters import SPREAD, SpreadBuilder
from trimtab.planner.predicates.taints import TAINT_TOLERATION, any_tolerates
from trimtab.planner.snapshot.columns import NO_NODE, Bool, Int64
from trimtab.v1.reason_pb2 import PredicateReason
from trimtab.v1.snapshot_pb2 import LabelOperator, TaintEffect

DRAINED = TaintSpec(TO_BE_DELETED.key, "being-simulated", TaintEffect.NO_SCHEDULE)
"""The taint of a node that is drained in the simulation. The real value is a time, which no toleration names."""


class SpreadNodes(NamedTuple):
    """Input for eligibility. excluded, untolerated : bool[V, K] node classes that NodeAffinity and TaintToleration
    exclude, by the distinct values of what they read of specs."""

    classes: NodeClasses
    excluded: Bool
    untolerated: Bool


class _Group(NamedTuple):
    """Pod classes, members : int64[C], with the same constraints, namespace, pinned node and own label values."""

    members: Int64
    namespace: str
    pinned: int
    own_values: dict[str, str | None]


def _add_counters(context: BuildContext, builder: SpreadBuilder) -> None:
    """Add the counters of all constraints. O(constraints x (N + S)) in numpy, loops over constraints only."""
    specs, classes, by_reason = context.specs, context.classes, context.static.by_reason
    nodes = SpreadNodes(context.nodes, *(by_reason[static.reason] for static in (NODE_AFFINITY, TAINT_TOLERATION)))
    having = [at for at, spec in enumerate(specs.rows) if _concerns(spec)]
    of_spec = classes_by_spec(classes, len(specs.rows)) if having else []
    for at in having:
        members = of_spec[at][~classes.spread_expired[of_spec[at]]]
        for group in _groups(classes, members, specs.rows[at].topology_spread):
            _add_group(builder, context.matching, specs, at, nodes, group)


def _groups(classes: PodClasses, members: Int64, constraints: tuple[SpreadConstraint, ...]) -> list[_Group]:
    keys = sorted({key for constraint in constraints for key in constraint.match_label_keys})
    out = []
    if not keys and (classes.pinned[members] == NO_NODE).all():
        return [_Group(some, namespace, NO_NODE, {}) for namespace, some in by_namespace(classes, members)]
    for namespace, of_namespace in by_namespace(classes, members):
        split: dict[tuple[int, tuple[str | None, ...]], list[int]] = {}
        for member in of_namespace.tolist():
            values = tuple(classes.labels.value(int(classes.label_group[member]), key) for key in keys)
            split.setdefault((int(classes.pinned[member]), values), []).append(member)
        for (pinned, values), numbers in split.items():
            own = dict(zip(keys, values, strict=True))
            out.append(_Group(np.array(numbers, np.int64), namespace, pinned, own))
    return out


def _add_group(
    builder: SpreadBuilder,
    matching: PodMatching,
    specs: SchedulingSpecs,
    spec: int,
    nodes: SpreadNodes,
    group: _Group,
) -> None:
    """Add the counters of a group's constraints. spec : the row of its scheduling spec."""
    constraints = specs.rows[spec].topology_spread
    rows = [builder.topologies.row(constraint.topology_key) for constraint in constraints]
    for constraint, row in zip(constraints, rows, strict=True):
        selector = _merged(constraint, group.own_values)
        nodes_number = _node_set(builder, constraint, specs, spec, nodes, tuple(rows), group.pinned)
        counted = selector if selector else None  # an empty selector counts no pod
        content = (group.namespace, None if counted is None else tuple(sorted(set(counted))), nodes_number)
        counter, new = builder.counter(content, row, nodes_number)
        if new:
            classes = matching.classes
            met = matching.labelled(counted) & matching.in_namespace(group.namespace) & ~classes.terminating
            builder.adds(np.flatnonzero(met), counter)
        matches_itself = matching.labelled(selector)[group.members].astype(np.int64)
        for own in (0, 1):
            members = group.members[matches_itself == own]
            builder.limits(members, counter, constraint.max_skew, own, constraint.min_domains)


def _node_set(
    builder: SpreadBuilder,
    constraint: SpreadConstraint,
    specs: SchedulingSpecs,
    spec: int,
    nodes: SpreadNodes,
    rows: tuple[int, ...],
    pinned: int,
) -> int:
    """Return the number of the set of eligible nodes, cached by node affinity, tolerations and keys.

    rows : topology rows of all constraints of the spec; pinned : the only node, or NO_NODE.
    """
    requirement = int(specs.parts[NODE_REQUIREMENT].of[spec]) if constraint.honor_node_affinity else None
    tolerations = int(specs.parts[TOLERATIONS].of[spec]) if constraint.honor_node_taints else None
    number = builder.known_node_sets.get((rows, pinned, requirement, tolerations))
    if number is None:
        having_keys: Bool = np.logical_and.reduce([builder.topologies.domains(row) >= 0 for row in rows])
        stays = not constraint.honor_node_taints or any_tolerates(specs.rows[spec].tolerations, DRAINED)
        number = builder.node_set(having_keys & _included(constraint, specs, spec, nodes, pinned), stays)
        builder.known_node_sets[(rows, pinned, requirement, tolerations)] = number
    return number


def _merged(constraint: SpreadConstraint, own_values: dict[str, str | None]) -> Selector | None:
    """Return the selector with the pod's own values of `matchLabelKeys`; a label that the pod lacks is ignored."""
    if constraint.selector is None:
        return None
    own = []
    for key in constraint.match_label_keys:
        value = own_values[key]
        if value is not None:
            own.append(LabelRequirement(key, LabelOperator.IN, (value,)))
    return (*own, *constraint.selector)


def _included(constraint: SpreadConstraint, specs: SchedulingSpecs, spec: int, nodes: SpreadNodes, pinned: int) -> Bool:
    """Return the nodes that the inclusion policies of a constraint leave. bool[N]."""
    met = np.ones(len(nodes.classes.of), np.bool_)
    if constraint.honor_node_affinity:
        met &= ~nodes.excluded[specs.parts[NODE_REQUIREMENT].of[spec]][nodes.classes.of]
        if pinned != NO_NODE:
            met &= np.arange(len(met)) == pinned
    if constraint.honor_node_taints:
        met &= ~nodes.untolerated[specs.parts[TOLERATIONS].of[spec]][nodes.classes.of]
    return met


def _concerns(spec: SchedulingSpec) -> bool:
    return bool(spec.topology_spread)


def _looks_at(spec: SchedulingSpec) -> PodsLookedAt:
    constraints = spec.topology_spread
    return PodsLookedAt(
        selectors=tuple(constraint.selector for constraint in constraints if constraint.selector is not None),
        keys=tuple(key for constraint in constraints for key in constraint.match_label_keys),
        is_terminating=True,
        is_own_node=any(constraint.honor_node_affinity for constraint in constraints),
    )


TOPOLOGY_SPREAD: Final = CountedPredicate(
    (PredicateReason.TOPOLOGY_SPREAD_VIOLATED,),
    SPREAD,
    add=_add_counters,
    concerns=_concerns,
    looks_at=_looks_at,
)
