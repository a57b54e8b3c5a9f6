"""DynamicResources, for pods that share a claim without devices: wherever the claim gets them, all its pods go. And for
pods with claims that may not mix with those of other kinds on a node.

Contract: counters of the pods that lead, by node; those that follow need one. Who leads is decided before
(`trimtab.planner.device_amounts.shared_claims`). Counters of the pods of each kind of claims; pods with other kinds of
the mixture need them empty. Source: plugin dynamicresources, v1.36.3.
"""

from typing import Final

import numpy as np

from trimtab.planner.classes.pod_classes import classes_by_spec
from trimtab.planner.classes.scheduling_specs import SchedulingSpec
from trimtab.planner.model.values import FOLLOWS, LEADS, ONE_KIND
from trimtab.planner.predicates.counter_kind import BuildContext, CountedPredicate
from trimtab.planner.predicates.presence import PRESENCE, PresenceBuilder
from trimtab.planner.predicates.topologies import OWN_NODE
from trimtab.v1.reason_pb2 import PredicateReason


def _shared(spec: SchedulingSpec, together: int) -> list[str]:
    return sorted({claim.shared for claim in spec.claims if claim.together == together})


def _add_counters(context: BuildContext, builder: PresenceBuilder) -> None:
    """Add a counter for each claim of pods that are planned together. O(specs)."""
    having = [at for at, spec in enumerate(context.specs.rows) if _concerns(spec)]
    if not having:
        return
    of_spec = classes_by_spec(context.classes, len(context.specs.rows))
    kinds: dict[str, set[str]] = {}
    for at in having:
        for mark in context.specs.rows[at].claims:
            if mark.together == ONE_KIND:
                kinds.setdefault(mark.shared, set()).add(mark.name)
    for at in having:
        members = np.asarray(of_spec[at], np.int64)
        for claim in _shared(context.specs.rows[at], LEADS):
            builder.adds(members, builder.counter(("claim", claim), OWN_NODE)[0])
        for claim in _shared(context.specs.rows[at], FOLLOWS):
            counter, _ = builder.counter(("claim", claim), OWN_NODE)
            builder.needs_filled(members, counter, PredicateReason.CLAIM_ALLOCATED_ELSEWHERE)
        for mark in context.specs.rows[at].claims:
            for kind in sorted(kinds[mark.shared]) if mark.together == ONE_KIND else ():
                counter, _ = builder.counter(("kind", mark.shared, kind), OWN_NODE)
                if kind == mark.name:
                    builder.adds(members, counter)
                else:
                    builder.needs_empty(members, counter, PredicateReason.DEVICES_NOT_AVAILABLE)


def _concerns(spec: SchedulingSpec) -> bool:
    return any(claim.together for claim in spec.claims)


SHARED_CLAIMS: Final = CountedPredicate(
    (PredicateReason.CLAIM_ALLOCATED_ELSEWHERE, PredicateReason.DEVICES_NOT_AVAILABLE),
    PRESENCE,
    add=_add_counters,
    concerns=_concerns,
)
