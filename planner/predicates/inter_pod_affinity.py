"""InterPodAffinity: required affinity and anti-affinity, in both directions.

Contract: counters of placed pods by domain. Affinity counts pods that match all terms of the incoming pod at once; the
first pod of a group fits any node with all topology keys if it matches its own terms and no counted pod does.
Anti-affinity counts matching pods for the incoming pod's terms and, for the terms of placed pods, the pods that have
them. Terminating pods count. Nodes without a topology key: no affinity there, anti-affinity does not apply.
Source: plugin interpodaffinity filtering, v1.37.2. The evaluation of terms is in
`trimtab.planner.classes.pod_matching`.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from trimtab.planner.classes.pod_classes import PodClasses, classes_by_spec
from trimtab.planner.classes.pod_matching import PodMatching
from trimtab.planner.classes.scheduling_specs import PodsLookedAt, SchedulingSpec
from trimtab.planner.model.values import AffinityTerm
from trimtab.planner.predicates.counter_kind import BuildContext, CountedPredicate
from trimtab.planner.predicates.presence import PRESENCE, PresenceBuilder
from trimtab.planner.predicates.topologies import Topologies
from trimtab.v1.reason_pb2 import PredicateReason

Classes = NDArray[np.int64]


def _add_counters(context: BuildContext, builder: PresenceBuilder) -> None:
    """Add the counters of all terms. O(terms x (classes that have or match them))."""
    specs, classes, matching, topologies = context.specs, context.classes, context.matching, context.topologies
    having = [at for at, spec in enumerate(specs.rows) if _concerns(spec)]
    if not having:
        return
    of_spec = classes_by_spec(classes, len(specs.rows))
    for at in having:
        for namespace, members in by_namespace(classes, of_spec[at]):
            _add_affinity(builder, topologies, matching, _own(specs.rows[at].pod_affinity, namespace), members)
            for term in _own(specs.rows[at].pod_anti_affinity, namespace):
                _add_anti_affinity(builder, topologies, matching, term, members)


def by_namespace(classes: PodClasses, members: Classes) -> list[tuple[str, Classes]]:
    """Return members by their namespace, ascending."""
    of: dict[int, list[int]] = {}
    for member, namespace in zip(members.tolist(), classes.namespace[members].tolist(), strict=True):
        of.setdefault(namespace, []).append(member)
    return [(classes.namespaces[number], np.array(of[number], np.int64)) for number in sorted(of)]


def _own(terms: tuple[AffinityTerm, ...], namespace: str) -> list[AffinityTerm]:
    """Fill in the pod's own namespace; sort and deduplicate terms and names."""
    filled = set()
    for term in terms:
        names = term.namespaces
        if not names and term.namespace_selector is None:
            names = (namespace,)
        filled.add(term._replace(namespaces=tuple(sorted(set(names)))))
    return sorted(filled, key=repr)


def _add_affinity(
    builder: PresenceBuilder,
    topologies: Topologies,
    matching: PodMatching,
    terms: list[AffinityTerm],
    members: Classes,
) -> None:
    if not terms:
        return
    content = ("matches", tuple(sorted({term._replace(topology_key="") for term in terms}, key=repr)))
    matched = np.logical_and.reduce([matching.incoming(term) for term in terms])
    for key in sorted({term.topology_key for term in terms}):
        counter, new = builder.counter(content, topologies.row(key))
        if new:
            builder.adds(np.flatnonzero(matched), counter)
        builder.needs_filled(members, counter, PredicateReason.POD_AFFINITY_NOT_MATCHED)
    for member in members[matched[members]].tolist():
        builder.starts_group(member)


def _add_anti_affinity(
    builder: PresenceBuilder, topologies: Topologies, matching: PodMatching, term: AffinityTerm, members: Classes
) -> None:
    row = topologies.row(term.topology_key)
    bare = term._replace(topology_key="")
    matches, new = builder.counter(("matches", (bare,)), row)
    if new:
        builder.adds(np.flatnonzero(matching.incoming(term)), matches)
    builder.needs_empty(members, matches, PredicateReason.POD_ANTI_AFFINITY_VIOLATED)
    owns, new = builder.counter(("owns", bare), row)
    if new:
        excluded = np.flatnonzero(matching.existing(term))
        builder.needs_empty(excluded, owns, PredicateReason.EXISTING_POD_ANTI_AFFINITY_VIOLATED)
    builder.adds(members, owns)


def _concerns(spec: SchedulingSpec) -> bool:
    return bool(spec.pod_affinity or spec.pod_anti_affinity)


def _looks_at(spec: SchedulingSpec) -> PodsLookedAt:
    terms = spec.pod_affinity + spec.pod_anti_affinity
    return PodsLookedAt(
        selectors=tuple(term.selector for term in terms if term.selector is not None),
        namespaces=tuple(name for term in terms for name in term.namespaces),
        namespace_selectors=tuple(term.namespace_selector for term in terms if term.namespace_selector is not None),
    )


INTER_POD_AFFINITY: Final = CountedPredicate(
    (
        PredicateReason.POD_AFFINITY_NOT_MATCHED,
        PredicateReason.POD_ANTI_AFFINITY_VIOLATED,
        PredicateReason.EXISTING_POD_ANTI_AFFINITY_VIOLATED,
    ),
    PRESENCE,
    add=_add_counters,
    concerns=_concerns,
    looks_at=_looks_at,
)
