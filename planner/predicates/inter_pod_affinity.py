"""InterPodAffinity: required affinity and anti-affinity, in both directions.

Contract: counters of placed pods by domain. Affinity counts pods that match all terms of the incoming pod at once; the
first pod of a group fits any node with all topology keys if it matches its own terms and no counted pod does.
Anti-affinity counts matching pods for the incoming pod's terms and, for the terms of placed pods, the pods that have
them. Terminating pods count. Nodes without a topology key: no affinity there, anti-affinity does not apply.
Source: plugin interpodaffinity filtering, v1.37.2. The evaluation of terms is in
`trimtab.planner.classes.pod_matching`.
"""

import numpy as np
from numpy.typing import NDArray

from trimtab.planner.classes.pod_classes import PodClasses
from trimtab.planner.classes.pod_matching import PodMatching
from trimtab.planner.classes.scheduling_specs import SchedulingSpecs
from trimtab.planner.model.values import AffinityTerm
from trimtab.planner.predicates.class_sets import classes_by_spec
from trimtab.planner.predicates.presence import PresenceBuilder
from trimtab.planner.predicates.topologies import Topologies
from trimtab.v1.reason_pb2 import PredicateReason

Classes = NDArray[np.int64]


def add_counters(
    builder: PresenceBuilder, topologies: Topologies, specs: SchedulingSpecs, matching: PodMatching
) -> None:
    """Add the counters of all terms. O(terms x (classes that have or match them))."""
    classes = matching.classes
    having = [at for at, spec in enumerate(specs.rows) if spec.pod_affinity or spec.pod_anti_affinity]
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
        builder.needs_filled(members, counter)
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
