"""The search for a pod's node, and the placement of waiting pods. A pod goes to its remembered node if it still fits
there, else to the first node in search order that it fits. Each class has a cursor before which no node has room for
it. Room only shrinks, so the whole search costs O(classes · N + pods) for classes that depend only on room. A class
without a place is not searched for again until a pod was placed. Source: Cluster Autoscaler,
scheduling.HintingSimulator, which goes round the nodes instead.

The place of the first pod of a group whose pods have to be together on one node.

Required affinity to pods of its own kind by hostname: wherever the first pod goes, the others have to follow. So it
goes to the node that takes most of those that come next, not to the first one that has room for it alone.

Which nodes admit a pod that has to leave its own, and why the others do not, in the current simulation. On its node,
a pod counts for spread, affinity and claims, its own included. A pod to which these matter is therefore taken off its
node while it is checked. Its own node is not a destination. The simulation is left unchanged.
Source: own.
"""

from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.compiled.by_reference import by_reference
from trimtab.planner.compiled.decorators import copied_kernel, inner_kernel, kernel, widened
from trimtab.planner.model.tuning import LOOK_AHEAD
from trimtab.planner.predicates.kernels import compose
from trimtab.planner.predicates.kernels.compose import is_unlike_its_class
from trimtab.planner.simulation.kernels import cordon, failing, fits, mark, place, remove, remove_from_topology, revert
from trimtab.planner.simulation.kernels.checks import fits_locally
from trimtab.planner.simulation.state import SimulationState
from trimtab.planner.snapshot.columns import NO_NODE, Bool, Int32, Int64


@copied_kernel
def alike_ahead(sim: SimulationState, pods: Int32, row: int) -> int:
    """Return how many of the next LOOK_AHEAD pods are of the class of the one in a row, itself included."""
    count = 0
    for other in range(row, min(len(pods), row + LOOK_AHEAD)):
        count += sim.pod_class[pods[other]] == sim.pod_class[pods[row]]
    return int(count)


@copied_kernel
def room_for(sim: SimulationState, pod_class: int, node: int, limit: int) -> int:
    """Return how many pods of a class, up to `limit`, fit the free amounts of a node. O(R)."""
    free, request = sim.resources.free, sim.resources.request
    room = limit
    for resource in range(free.shape[1]):
        if request[pod_class, resource] > 0:
            if free[node, resource] < request[pod_class, resource]:
                return 0
            room = min(room, free[node, resource] // request[pod_class, resource])
    return int(room)


REMEMBERED, SEARCHES = 0, 1
"""Positions in `counts`."""


class Domains(NamedTuple):
    """Search order by topology domain: domains that a spread constraint rules out are skipped as a whole.

    chain : int32[rows] of each topology row its place in the other arrays, -1 = not there; head : int32[Q, most] by
    domain the first position in search order, -1 = none, following : int32[Q, D] by position the next one in the same
    domain; at : int32[most] scratch, by domain the position before which no node has room for a class; of : int64[1]
    that class, -1 = none. Empty arrays = no domains are known.
    """

    chain: Int32
    head: Int32
    following: Int32
    at: Int32
    of: Int64


_NONE = np.zeros(0, np.int32)
NO_DOMAINS = Domains(_NONE, np.zeros((0, 0), np.int32), np.zeros((0, 0), np.int32), _NONE, np.zeros(0, np.int64))


UNKNOWN: Final = np.iinfo(np.int64).max
"""An upper bound in `Search.most_free` that excludes nothing."""
NO_MOST: Final = np.zeros((0, 2), np.int64)
NO_MIX: Final = np.zeros(0, np.int64)


@by_reference()
class Search(NamedTuple):
    """The nodes of a search; what it remembers is written in place."""

    order: Int32
    """int32[D] nodes, best first."""
    allowed: Bool
    """bool[N]"""
    cursor: Int64
    """int64[S] by pod class the position in `order` before which no node has room."""
    failed: Int64
    """int64[S] by pod class 1 + the length of the log when the last search of `place_all` found nothing, 0 = none."""
    domains: Domains = NO_DOMAINS
    """Used by `place_all` only."""
    most_free: Int64 = NO_MOST
    """int64[D, 2] by position in `order` upper bounds of what the node has free of the first two resources, UNKNOWN =
    none, negative = not allowed for good; empty = not kept. Reading them in order takes a fraction of the time of a
    check. Room must not grow while they are used."""
    mix: Int64 = NO_MIX
    """int64[2], the scarce resource and another one: pods rather go where the other one will not run out before the
    scarce one, empty = anywhere."""
    mixed: Int64 = NO_MIX
    """int64[S] by pod class the position in `order` up to which no such node was found."""


def unknown_room(order: Int32) -> Int64:
    """Return bounds of which none is known, for a search in which room only shrinks. order : int32[D]. int64[D, 2]."""
    return np.full((len(order), 2), UNKNOWN, np.int64)


@inner_kernel
def has_room_left(sim: SimulationState, search: Search, pod: int, candidate: int) -> bool:
    """Return whether any allowed node has room for a pod; move the cursor of its class up to it. Call only while
    nothing is placed tentatively: the nodes that the cursor passes are then full permanently. It does not pass the
    candidate (-1 = none), which may receive pods again if it stays.
    """
    of_class = widened(sim.pod_class[pod])
    need, most_free = sim.resources.need, search.most_free
    first, second = need[of_class, 0], need[of_class, 1]
    at, passed = search.cursor[of_class], widened(-1)
    while at < len(search.order):
        if len(most_free) == 0 or (most_free[at, 0] >= first and most_free[at, 1] >= second):
            node = widened(search.order[at])
            if search.allowed[node]:
                if fits_locally(sim, of_class, node):
                    break
                if len(most_free) > 0 and sim.blocked[of_class, sim.node_class[node]] == 0:
                    most_free[at, 0] = sim.resources.free[node, 0]
                    most_free[at, 1] = sim.resources.free[node, 1]
            elif node == candidate:
                passed = at if passed < 0 else passed
            elif len(most_free) > 0:
                most_free[at, 0] = -1
        at += 1
    search.cursor[of_class] = at if passed < 0 else passed
    return bool(at < len(search.order))


@inner_kernel
def seek_by_mix(sim: SimulationState, search: Search, pod: int) -> int:
    """Return the first allowed node in search order that fits a pod, and where the other resource is not less for the
    scarce one, of what is free, than the pod requests; -1 if none. Nodes are looked at once for each class: looking
    again as they fill up finds little more (0.998 of the bound in place of 0.996) and takes three times as long.
    """
    of_class = widened(sim.pod_class[pod])
    scarce, other = search.mix[0], search.mix[1]
    free, most_free = sim.resources.free, search.most_free
    first, second = sim.resources.need[of_class, 0], sim.resources.need[of_class, 1]
    of_scarce = float(sim.resources.request[of_class, scarce])
    of_other = float(sim.resources.request[of_class, other])
    at, target = max(search.mixed[of_class], search.cursor[of_class]), widened(-1)
    while at < len(search.order):
        if len(most_free) == 0 or (most_free[at, 0] >= first and most_free[at, 1] >= second):
            node = widened(search.order[at])
            is_like = of_other * float(free[node, scarce]) <= of_scarce * float(free[node, other])
            if is_like and search.allowed[node] and fits(sim, pod, node):
                target = node
                break
        at += 1
    search.mixed[of_class] = at
    return int(target)


@inner_kernel
def seek(sim: SimulationState, search: Search, pod: int) -> int:
    """Return the first allowed node in search order that fits a pod, -1 if none."""
    pinned = widened(sim.pinned[pod])
    if pinned >= 0:
        return int(pinned) if search.allowed[pinned] and fits(sim, pod, pinned) else -1
    of_class = widened(sim.pod_class[pod])
    if len(search.mix) > 0:
        target = widened(seek_by_mix(sim, search, pod))
        if target >= 0:
            return int(target)
    need, most_free = sim.resources.need, search.most_free
    first, second = need[of_class, 0], need[of_class, 1]
    for at in range(search.cursor[of_class], len(search.order)):
        if len(most_free) > 0 and (most_free[at, 0] < first or most_free[at, 1] < second):
            continue
        node = widened(search.order[at])
        if search.allowed[node] and fits(sim, pod, node):
            return int(node)
    return -1


@copied_kernel
def hinted(sim: SimulationState, search: Search, hint: Int32, pod: int) -> int:
    """Return the hinted node of a pod, -1 if there is none or it no longer admits the pod."""
    target = widened(hint[pod])
    return int(target) if target >= 0 and search.allowed[target] and fits(sim, pod, target) else -1


@inner_kernel
def destination_of(sim: SimulationState, search: Search, hint: Int32, counts: Int64, pod: int) -> int:
    """Return a pod's destination: its hint if that still fits, else the first node that does; -1 if none.

    hint : int32[P] node or -1; counts : int64, in place, adds to REMEMBERED or SEARCHES.
    """
    target = hinted(sim, search, hint, pod)
    if target >= 0:
        counts[REMEMBERED] += 1
        return int(target)
    counts[SEARCHES] += 1
    return seek(sim, search, pod)


@kernel
def place_all(
    sim: SimulationState, search: Search, hint: Int32, destination: Int32, counts: Int64, pods: Int32, strict: bool
) -> int:
    """Place pods : int32[M], hints first; with `strict`, return the first one without a place, -1 if none. A pod that
    is on a node stays. Writes destination : int32[P], -1 = no place, and `counts`; nothing is undone.
    """
    search.failed[:] = 0
    search.domains.of[:] = -1
    for row in range(len(pods)):
        pod = widened(pods[row])
        if sim.pod_node[pod] != NO_NODE:
            destination[pod] = sim.pod_node[pod]
            continue
        target = hinted(sim, search, hint, pod)
        if target >= 0:
            counts[REMEMBERED] += 1
        else:
            counts[SEARCHES] += 1
            target = seek_for_all(sim, search, pods, widened(row))
        destination[pod] = target
        if target >= 0:
            place(sim, pod, target)
        elif strict:
            return int(pod)
    return -1


@inner_kernel
def seek_for_all(sim: SimulationState, search: Search, pods: Int32, row: int) -> int:
    """Return the result of `seek` for pods[row], without repeating the search for pods like the one before; for the
    first pod of a group that has to be on one node, that of `seek_roomiest`.
    """
    pod = widened(pods[row])
    of_class = sim.pod_class[pod]
    # Pods of a class differ in the node that they are pinned to and in their volumes.
    alike = sim.pinned[pod] == -1 and not compose.is_unlike_its_class(sim.counters, pod)
    if alike and search.failed[of_class] == 1 + sim.log.length[0]:
        return -1
    limit = widened(-1)
    if sim.pinned[pod] == -1 and len(search.domains.chain) > 0:
        limit = widened(compose.chained_limit(sim.counters, search.domains.chain, of_class))
    if sim.pinned[pod] == -1 and compose.starts_on_one_node(sim.counters, of_class):
        target = seek_roomiest(sim, search, pod, widened(alike_ahead(sim, pods, row)))
    elif limit >= 0:
        target = seek_by_domain(sim, search, pod, limit)
    else:
        has_room_left(sim, search, pod, widened(-1))
        target = seek(sim, search, pod)
    if alike and target < 0:
        search.failed[of_class] = 1 + sim.log.length[0]
    return int(target)


@inner_kernel
def seek_roomiest(sim: SimulationState, search: Search, pod: int, several: int) -> int:
    """Return the allowed node that takes most of several pods like one, the first in search order of equal ones; -1 if
    none fits the pod.
    """
    best, largest = widened(-1), widened(0)
    for at in range(len(search.order)):
        node = widened(search.order[at])
        if largest < several and search.allowed[node] and fits(sim, pod, node):
            room = room_for(sim, sim.pod_class[pod], node, several)
            if room > largest:
                best, largest = node, widened(room)
    return int(best)


@inner_kernel
def seek_by_domain(sim: SimulationState, search: Search, pod: int, limit: int) -> int:
    """Return the first allowed node in search order that fits a pod, -1 if none. O(domains + nodes skipped)."""
    domains, of_class = search.domains, sim.pod_class[pod]
    chain = domains.chain[compose.row_of_limit(sim.counters, limit)]
    if domains.of[0] != of_class:
        for domain in range(len(domains.at)):
            domains.at[domain] = domains.head[chain, domain]
        domains.of[0] = of_class
    best = widened(len(search.order))
    for domain in range(len(domains.at)):
        at = widened(domains.at[domain])
        if at < 0 or at >= best or compose.excludes_domain(sim.counters, limit, domain):
            continue
        full_so_far = True
        while 0 <= at < best:
            node = widened(search.order[at])
            if search.allowed[node] and fits(sim, pod, node):
                best = at
                break
            full_so_far = full_so_far and not (search.allowed[node] and fits_locally(sim, of_class, node))
            at = widened(domains.following[chain, at])
            if full_so_far:
                domains.at[domain] = at
    return int(search.order[best]) if best < len(search.order) else -1


@kernel
def evacuate(sim: SimulationState, nodes: Int32, pods: Int32, gone: bool) -> None:
    """Close nodes and take pods off them; with `gone`, the nodes, then without pods, also leave the topology."""
    for node in nodes:
        cordon(sim, widened(node))
    for pod in pods:
        remove(sim, widened(pod))
    for row in range(len(nodes) if gone else 0):
        remove_from_topology(sim, widened(nodes[row]))


@kernel
def count_failures(sim: SimulationState, pods: Int32, allowed: Bool, counts: Int64) -> None:
    """Add to counts : int64[K, REASONS] how many allowed nodes each predicate rules out for each pod, its own node
    included. counts[:, 0] counts the nodes that no predicate rules out. O(K · N).
    """
    for row in range(len(pods)):
        fork = mark(sim)
        remove_if_it_affects_others(sim, widened(pods[row]))
        for node in range(len(allowed)):
            if allowed[node]:
                count_failure(sim, widened(pods[row]), widened(node), widened(1), counts[row])
        revert(sim, fork)


@kernel
def discount_failures(sim: SimulationState, pods: Int32, nodes: Int32, counts: Int64) -> None:
    """Subtract one node for each pod from its counts : int64[K, REASONS]. O(K)."""
    for row in range(len(pods)):
        fork = mark(sim)
        remove_if_it_affects_others(sim, widened(pods[row]))
        count_failure(sim, widened(pods[row]), widened(nodes[row]), widened(-1), counts[row])
        revert(sim, fork)


@copied_kernel
def remove_if_it_affects_others(sim: SimulationState, pod: int) -> None:
    """Take a pod off its node if that can affect which nodes admit it."""
    if sim.local_class[sim.pod_class[pod]] == 0 or is_unlike_its_class(sim.counters, pod):
        remove(sim, pod)


@inner_kernel
def count_failure(sim: SimulationState, pod: int, node: int, step: int, counts: Int64) -> None:
    """Add `step` to counts : int64[32] for each failing predicate, or to counts[0] if none fails."""
    mask = failing(sim, pod, node)
    if mask == 0:
        counts[0] += step
    for reason in range(1, len(counts)):
        counts[reason] += step * ((mask >> reason) & 1)
