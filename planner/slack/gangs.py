"""Places for gangs of placeholders: for all of one, or for none.

First, all keep the nodes of the last loop as far as there is room. A gang that is not whole then looks for more; with a
topology key, it looks in each domain of nodes, as the scheduler does, and takes the first one with room for all of it.
One that finds no room leaves its nodes, to be placed by scale-up as a whole, on these and new ones. O(N) for each gang
and domain that amounts do not rule out.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.facts.label_values import values_by_label_set
from trimtab.planner.predicates.topologies import HOSTNAME
from trimtab.planner.round.round import HeldGang
from trimtab.planner.simulation.build import Simulation
from trimtab.planner.simulation.kernels import remove
from trimtab.planner.slack.kernels.places import place_placeholders
from trimtab.planner.slack.placeholder_sets import PlaceholderSet
from trimtab.planner.snapshot.columns import NO_NODE, Bool, Int32, Int64

_NO_DOMAIN: Final = -1
_MOST: Final = 2**31


class SearchedNodes(NamedTuple):
    """order : int32, nodes to search, best first; allowed : bool[N']."""

    order: Int32
    allowed: Bool


def held_gangs(sets: Sequence[PlaceholderSet]) -> tuple[HeldGang, ...]:
    """Return the gangs among sets of placeholders, in their order. On one node each, an affinity is enough: new nodes
    have no domain before they have a name."""
    return tuple(
        HeldGang(at, one.pod.namespace, one.name, "" if one.topology_key == HOSTNAME else one.topology_key)
        for at, one in enumerate(sets)
        if one.is_gang
    )


def place_gangs(
    simulation: Simulation,
    sets: Sequence[PlaceholderSet],
    nodes: SearchedNodes,
    bounds: Int64,
    pods: Int64,
    hint: Int32,
) -> None:
    """Place all placeholders with a hint, then gangs in their order. bounds : int64[Q+1], pods of each set; pods :
    int64[M]; hint : int32[M] node or -1."""
    state = simulation.state
    place_placeholders(state, bounds, pods, hint, nodes.order[:0], nodes.allowed, np.zeros(len(sets), np.int64))
    domains: dict[str, Int32] = {}
    for one in held_gangs(sets):
        mine = pods[bounds[one.set] : bounds[one.set + 1]]
        if _is_whole(simulation, mine, nodes):
            continue
        key = sets[one.set].topology_key
        if key and key not in domains:
            domains[key] = _domain_of_nodes(simulation, key)
        _remove(simulation, mine)
        for order in _domains(simulation, mine, nodes, domains[key]) if key else ():
            if _is_whole(simulation, mine, SearchedNodes(order, nodes.allowed)):
                break
            _remove(simulation, mine)


def _is_whole(simulation: Simulation, pods: Int64, nodes: SearchedNodes) -> bool:
    """Place those of a gang's pods that are on no node; return whether all have one."""
    state, none = simulation.state, np.full(len(pods), NO_NODE, np.int32)
    bounds = np.array([0, len(pods)], np.int64)
    place_placeholders(state, bounds, pods, none, nodes.order, nodes.allowed, np.zeros(1, np.int64))
    return bool((state.pod_node[pods] != NO_NODE).all())


def _remove(simulation: Simulation, pods: Int64) -> None:
    for pod in pods[simulation.state.pod_node[pods] != NO_NODE].tolist():
        remove(simulation.state, pod)


def _domains(simulation: Simulation, pods: Int64, nodes: SearchedNodes, domain: Int32) -> Iterator[Int32]:
    """Yield the nodes of each domain that has room for all pods by amounts, in the order in which they are searched.
    domain : int32[N']."""
    order = nodes.order[domain[nodes.order] != _NO_DOMAIN]
    if not len(order):
        return
    resources = simulation.state.resources
    request = resources.request[simulation.state.pod_class[pods[0]]]
    asked = np.flatnonzero(request > 0)
    room = np.maximum(resources.free[np.ix_(order, asked)], 0) // request[asked]
    slots = np.bincount(domain[order], room.min(axis=1, initial=_MOST))
    for value in np.flatnonzero(slots >= len(pods)).tolist():
        yield order[domain[order] == value]


def _domain_of_nodes(simulation: Simulation, key: str) -> Int32:
    """Return the domain of each node, virtual ones included, by a label : int32[N'], _NO_DOMAIN without it."""
    if key == HOSTNAME:
        return np.arange(len(simulation.state.node_state), dtype=np.int32)
    snapshot = simulation.snapshot
    by_set = values_by_label_set(snapshot, key)
    values = [by_set[at] for at in snapshot.nodes.label_set.tolist()]
    for one in simulation.virtual.nodes:
        values += [dict(one.template.labels).get(key)] * len(one.names)
    number = {name: at for at, name in enumerate(sorted({value for value in values if value is not None}))}
    return np.array([_NO_DOMAIN if value is None else number[value] for value in values], np.int32)
