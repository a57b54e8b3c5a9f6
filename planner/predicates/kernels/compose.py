"""All dynamic predicates together: what the simulation and the placement ask of the counters.

The one place that calls the kernels of each kind, in the order of `trimtab.planner.predicates.counters.KINDS` or, where
only the speed depends on it, cheapest first. Everything is compiled into its callers. O(terms of the pod) each.
"""

from typing import cast

import numpy as np

from trimtab.planner.compiled.decorators import copied_kernel, inlined_kernel
from trimtab.planner.compiled.prefetch import prefetch
from trimtab.planner.predicates.counters import CounterNotes, Counters
from trimtab.planner.predicates.kernels import presence, spread, volumes
from trimtab.planner.snapshot.columns import Int32

ADMITTED, FOR_GOOD, FOR_NOW, THIS_POD = (cast(int, np.int64(n)) for n in range(4))
"""How a node refuses a pod while pods are only added: not at all; its whole class, permanently; its class, until
counters elsewhere change; only this pod."""


@copied_kernel
def count(counters: Counters, pod_class: int, node: int, sign: int) -> None:
    """Count `sign` pods of a class on a node; a negative number takes them off."""
    presence.count(counters.presence, pod_class, node, sign)
    spread.count(counters.spread, pod_class, node, sign)


@copied_kernel
def count_own(counters: Counters, pod: int, node: int, sign: int) -> None:
    """Count what a pod has of its own on a node (sign 1), or take it off (sign -1)."""
    row = counters.volumes.row[pod]
    if row >= 0:
        volumes.mount(counters.volumes, row, node, sign)


@inlined_kernel
def is_unlike_its_class(counters: Counters, pod: int) -> bool:
    """Return whether a pod is treated by what it has of its own, not by its class alone. O(1)."""
    return bool(counters.volumes.row[pod] >= 0)


@copied_kernel
def prefetch_own(counters: Counters, pod: int) -> None:
    """Load what tells whether a pod is unlike its class into the processor's cache."""
    prefetch(counters.volumes.row, pod)


@inlined_kernel
def refusal(counters: Counters, pod: int, pod_class: int, node: int) -> int:
    """Return how a node refuses a pod."""
    if presence.is_kept_out(counters.presence, pod_class, node):
        return FOR_GOOD
    if not spread.is_even(counters.spread, pod_class, node):
        return FOR_NOW
    if not presence.is_near_others(counters.presence, pod_class, node):
        return FOR_NOW
    row = counters.volumes.row[pod]
    if row >= 0 and volumes.because(counters.volumes, row, node) != 0:
        return THIS_POD
    return ADMITTED


@inlined_kernel
def because(counters: Counters, pod: int, pod_class: int, node: int) -> int:
    """Return the mask `1 << PredicateReason.Code` of the predicates for which a node refuses a pod; 0 = none."""
    mask = presence.because(counters.presence, pod_class, node) | spread.because(counters.spread, pod_class, node)
    row = counters.volumes.row[pod]
    if row >= 0:
        mask |= volumes.because(counters.volumes, row, node)
    return mask


@copied_kernel
def move_node(counters: Counters, node: int, sign: int, stays: int) -> None:
    """Let a node join the topology (sign 1) or leave it (sign -1): for the predicates that ignore a cordoned node
    (stays 0), or for those that count it still (stays 1)."""
    spread.move_node(counters.spread, node, sign, stays)


@copied_kernel
def move_shared_domains(counters: Counters, node: int, sign: int) -> None:
    """Let the domains that a closed node would share with others count (sign 1), or no longer (sign -1)."""
    spread.move_shared_domains(counters.spread, node, sign)


@copied_kernel
def look_like(counters: Counters, node: int, like: int) -> None:
    """Copy a template's columns from one node to another, which keeps its name. O(node sets + topology rows)."""
    presence.look_like(counters.presence, node, like)
    spread.look_like(counters.spread, node, like)
    volumes.look_like(counters.volumes, node, like)


@inlined_kernel
def may_need_others(counters: Counters, pod_class: int) -> bool:
    """Return whether the placement of a class can need other pods at their places. O(1)."""
    return presence.may_need_others(counters.presence, pod_class) or spread.is_limited(counters.spread, pod_class)


@inlined_kernel
def excludes_pods(counters: Counters, pod_class: int) -> bool:
    """Return whether other pods on a node, its own kind maybe among them, can keep a class out of it. O(1)."""
    return presence.excludes_pods(counters.presence, pod_class)


@copied_kernel
def starts_on_one_node(counters: Counters, pod_class: int) -> bool:
    """Return whether all pods of a class have to be on one node, and none has a place. O(affinity terms)."""
    return presence.starts_on_one_node(counters.presence, pod_class)


@copied_kernel
def is_refused_in_domains(counters: Counters, pod_class: int, node: int) -> bool:
    """Return whether a class is refused in the domains that a node shares with others."""
    if spread.is_refused_in_domains(counters.spread, pod_class, node):
        return True
    return presence.is_refused_in_domains(counters.presence, pod_class, node)


@copied_kernel
def forget(counters: Counters, notes: CounterNotes, pod_class: int) -> None:
    """Forget what was noted when nodes that refuse a class for now were skipped."""
    spread.forget(counters.spread, notes.spread, pod_class)


@copied_kernel
def may_pass_again(counters: Counters, notes: CounterNotes, pod_class: int) -> bool:
    """Return whether nodes that were skipped may admit a class now; note the counters of this moment."""
    risen = spread.has_risen(counters.spread, notes.spread, pod_class)
    return risen or presence.may_need_others(counters.presence, pod_class)


@copied_kernel
def note_failure(counters: Counters, notes: CounterNotes, pod_class: int) -> None:
    """Note the counters on which it depends that no node admits a class."""
    spread.note_failure(counters.spread, notes.spread, pod_class)
    presence.note_failure(counters.presence, notes.presence, pod_class)


@copied_kernel
def may_fit_now(counters: Counters, notes: CounterNotes, pod_class: int) -> bool:
    """Return whether a class that no node admitted should be tried again."""
    if spread.may_fit_now(counters.spread, notes.spread, pod_class):
        return True
    return presence.has_changed(counters.presence, notes.presence, pod_class)


@copied_kernel
def chained_limit(counters: Counters, chain: Int32, pod_class: int) -> int:
    """Return the first constraint of a class that excludes whole domains of a row with chain[row] >= 0; -1 = none.

    chain : int32[rows].
    """
    return spread.chained_limit(counters.spread, chain, pod_class)


@copied_kernel
def row_of_limit(counters: Counters, limit: int) -> int:
    """Return the topology row of a constraint."""
    return spread.row_of_limit(counters.spread, limit)


@copied_kernel
def excludes_domain(counters: Counters, limit: int, domain: int) -> bool:
    """Return whether a constraint excludes a domain."""
    return spread.excludes_domain(counters.spread, limit, domain)
