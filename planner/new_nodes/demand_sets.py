"""Sets of pods that get places together: as many of a set as are needed, in one domain if it has a topology key, or
none. Gangs, ProvisioningRequests and room for gangs are such sets; who makes them says in which order they are served,
how pods are placed, and why some have no place.

Everything that was tried for a set is undone before something else is tried; only the moves of the way that serves it
stay. Of the domains in which a set may be, the cheapest is taken in which it is whole: one for each value of its
topology key, of existing nodes and of the new nodes that groups could open. A set with running pods stays in their
domain. New nodes whose template lacks the label are in no domain: nobody knows where they would come up. By the label
of host names, every node is a domain of its own, and new nodes have none yet. Sets like one that was not served are not
tried, because room only becomes less; this holds if a node alone decides whether it takes the pods.
Source: kube-scheduler 1.36.3, plugins/topologyaware/topology_placement.go.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from trimtab.planner.facts.labels import values_by_label_set
from trimtab.planner.predicates.topologies import HOSTNAME
from trimtab.planner.simulation.build import Simulation
from trimtab.planner.simulation.state import SimulationState
from trimtab.planner.snapshot.columns import Bool, Int32, Int64
from trimtab.planner.snapshot.references import take_or

NO_DOMAIN: Final = -1
NOBODY: Final = np.zeros(0, np.int32)
_MOST: Final = 2**31


class DemandSet(NamedTuple):
    """Pods that get places together.

    key : name, no other set has it; pods : int32, on no node, in the order in which they get places; need : how many of
    them have to have one; may_add : bool[pods] nodes may be added for these; topology_key : label whose value all their
    nodes share, "" = none; bound : int32 pods of the snapshot that run already.
    """

    key: str
    pods: Int32
    need: int
    may_add: Bool
    topology_key: str = ""
    bound: Int32 = NOBODY


class Reach(NamedTuple):
    """A part of the cluster. nodes : bool[N'] its nodes, but for new ones; groups : bool[G] the groups whose new nodes
    are in it."""

    nodes: Bool
    groups: Bool


class Domain(NamedTuple):
    """value : of the topology key, "" = everywhere; reach : its nodes, None = all."""

    value: str
    reach: Reach | None


EVERYWHERE: Final = Domain("", None)


class PlacedSet(NamedTuple):
    """lacking : pods without a place that are needed; cost : of the new nodes, smaller is better: nodes of unknown
    price, price, nodes, pods without a place."""

    lacking: int
    cost: tuple[int, float, int, int]

    @property
    def is_best(self) -> bool:
        """Whether no other place is better: all pods are on nodes that are there."""
        return not self.cost[2] and not self.cost[3]


class _ServedIn(NamedTuple):
    domain: Domain
    way: int
    cost: tuple[int, float, int, int]


Before = TypeVar("Before")
Shortage = TypeVar("Shortage")
Shortage_co = TypeVar("Shortage_co", covariant=True)


class SetPlacer(Protocol[Before, Shortage_co]):
    """How the pods of a set are placed."""

    @property
    def state(self) -> SimulationState:
        """The simulation's state."""

    def checkpoint(self) -> Before:
        """Return the plan as it is, to go back to."""

    def return_to(self, before: Before) -> None:
        """Undo everything since a checkpoint."""

    def ways(self, demand: DemandSet) -> Sequence[int]:
        """Return the ways of placing a set, in the order in which they are tried; at least one."""

    def place(self, demand: DemandSet, domain: Domain, way: int) -> PlacedSet:
        """Place the pods of a set in a domain as far as possible; the moves stay."""

    def why(self, demand: DemandSet, domain: Domain, lacking: int) -> Shortage_co:
        """Return why a set has no places. To be called while the simulation has the moves of `place`."""

    def in_time(self) -> bool:
        """Return whether there was time for everything that was tried."""


class DemandServer(Generic[Before, Shortage]):
    """Serves the sets of a plan, one after the other."""

    def __init__(self, placer: SetPlacer[Before, Shortage]) -> None:
        self._placer = placer
        self._shortages: dict[tuple[object, ...], Shortage] = {}
        self._served_in: dict[tuple[object, ...], _ServedIn] = {}

    def serve(self, demand: DemandSet, domains: Sequence[Domain]) -> Shortage | None:
        """Give a set places in one of some domains, at least one; else change nothing, and return why."""
        placer, like = self._placer, self._likeness(demand)
        if like in self._shortages:
            return self._shortages[like]
        best = self._served_in.get(like) if len(domains) > 1 else None
        before, shortage, least = placer.checkpoint(), None, 0
        if best is not None:
            # No other domain has become cheaper since.
            placed = placer.place(demand, best.domain, best.way)
            if not placed.lacking and placed.cost <= best.cost:
                return None
            placer.return_to(before)
            best = None
        for domain in domains:
            for way in placer.ways(demand):
                placed = placer.place(demand, domain, way)
                if not placed.lacking:
                    if len(domains) == 1 or placed.is_best:
                        return None
                    if best is None or placed.cost < best.cost:
                        best = _ServedIn(domain, way, placed.cost)
                elif best is None and (shortage is None or placed.lacking < least):
                    shortage, least = placer.why(demand, domain, placed.lacking), placed.lacking
                placer.return_to(before)
                if not placed.lacking:
                    break
        if best is not None:
            self._served_in[like] = best
            placer.place(demand, best.domain, best.way)
            return None
        if shortage is not None and placer.in_time():
            self._shortages[like] = shortage
        return shortage

    def _likeness(self, demand: DemandSet) -> tuple[object, ...]:
        """Return a key that sets share if one is served wherever the other is; unique if there are none such."""
        state = self._placer.state
        classes, counts = np.unique(state.pod_class[demand.pods], return_counts=True)
        if (demand.topology_key and len(demand.bound)) or not state.local_class[classes].all():
            return (demand.key,)
        return classes.tobytes(), counts.tobytes(), demand.need, int(demand.may_add.sum()), demand.topology_key


class _Values(NamedTuple):
    """The value of a label by node and by group. names : distinct values, sorted; of_node : int64[N'], of_group :
    int64[G] into it, NO_DOMAIN = none."""

    names: list[str]
    of_node: Int64
    of_group: Int64


class TopologyDomains:
    """The domains of every topology key that sets of a plan have, each computed once. labels : of a new node of each
    group; nodes : int32 those on which pods may be placed, new ones excepted."""

    def __init__(self, simulation: Simulation, labels: Sequence[Mapping[str, str]], nodes: Int32) -> None:
        self._simulation, self._labels, self._nodes = simulation, labels, nodes
        self._values: dict[str, _Values] = {}

    def of(self, demand: DemandSet) -> list[Domain] | None:
        """Return the domains in which a set may be placed, by value; None if its running pods are in several or in
        none. Those in which no group grows, and that have too little room by amounts, are left out, but for the one
        that has most."""
        if not demand.topology_key:
            return [EVERYWHERE]
        values = self._of_key(demand.topology_key)
        if len(demand.bound):
            on = self._simulation.snapshot.pods.node[demand.bound]
            present = np.unique(np.where(on >= 0, values.of_node[np.maximum(on, 0)], NO_DOMAIN))
            if len(present) != 1 or present[0] == NO_DOMAIN:
                return None
            chosen = present
        else:
            slots = self._slots(demand, values)
            grows = np.isin(np.arange(len(slots)), values.of_group)
            chosen = np.flatnonzero(grows | (slots >= demand.need))
            chosen = chosen if len(chosen) or not len(slots) else np.array([slots.argmax()])
        return [Domain(values.names[at], Reach(values.of_node == at, values.of_group == at)) for at in chosen.tolist()]

    def _slots(self, demand: DemandSet, values: _Values) -> Int64:
        """Return how many pods, by amounts, each domain has room for at most. int64[domains]."""
        resources, nodes = self._simulation.state.resources, self._nodes[values.of_node[self._nodes] >= 0]
        request = resources.request[np.unique(self._simulation.state.pod_class[demand.pods])].min(axis=0, initial=_MOST)
        requested = np.flatnonzero(request > 0)
        room = np.maximum(resources.free[np.ix_(nodes, requested)], 0) // request[requested]
        slots = np.zeros(len(values.names), np.int64)
        np.add.at(slots, values.of_node[nodes], room.min(axis=1, initial=_MOST))
        return slots

    def of_nodes(self, key: str, nodes: Int64, opened: Int64, group_of: Sequence[int]) -> list[str]:
        """Return the values of a topology key on nodes : int64, -1 = none, sorted; "" = it is missing. opened, group_of
        : int64 new nodes, and the group of each."""
        if not key:
            return []
        values, nodes = self._of_key(key), np.unique(nodes[nodes >= 0])
        group = np.full(len(values.of_node), NO_DOMAIN, np.int64)
        group[opened] = group_of
        is_new = group[nodes] >= 0
        value = np.where(is_new, take_or(values.of_group, group[nodes], NO_DOMAIN), values.of_node[nodes])
        return sorted({values.names[at] if at >= 0 else "" for at in value.tolist()})

    def _of_key(self, key: str) -> _Values:
        if key in self._values:
            return self._values[key]
        snapshot = self._simulation.snapshot
        by_set = values_by_label_set(snapshot, key)
        values = [by_set[at] for at in snapshot.nodes.label_set.tolist()]
        for nodes in self._simulation.virtual.nodes:
            value = dict(nodes.template.labels).get(key) if nodes.is_open and key != HOSTNAME else None
            values += [value] * len(nodes.names)
        new = [None if key == HOSTNAME else labels.get(key) for labels in self._labels]
        names = sorted({*filter(None, values), *filter(None, new)})
        rank: dict[str | None, int] = {name: at for at, name in enumerate(names)}
        of_node, of_group = (np.array([rank.get(value, NO_DOMAIN) for value in of], np.int64) for of in (values, new))
        self._values[key] = _Values(names, of_node, of_group)
        return self._values[key]
