"""One round: the common input of all decisions of a plan. The decisions of a plan work on one simulation, one after the
other. The moves of a decision (placeholders and pods placed, nodes opened or drained) stay for the next one; before the
first, every running pod is on its node and awaited pods (recent evictions) are on none. Reads no clock: the time comes
with the request, and the caller provides tools (`Work`): a stop-watch, a bound, a cache.
"""

from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from trimtab.planner.facts.nodes import being_deleted
from trimtab.planner.facts.pods import awaited
from trimtab.planner.facts.readiness import is_ready
from trimtab.planner.model.execution import SEQUENTIAL, UNLIMITED, Parallel, RequestLimits
from trimtab.planner.model.settings import PlannerSettings
from trimtab.planner.model.values import RecentEviction
from trimtab.planner.placement.waiting import place_where
from trimtab.planner.simulation.build import Simulation
from trimtab.planner.simulation.growth import NO_GROWTH, Growth
from trimtab.planner.simulation.log import commit, with_larger_log
from trimtab.planner.simulation.virtual_rows import NO_KINDS, Kinds, VirtualPod, evicted_pods
from trimtab.planner.snapshot.caches import UNCACHED, SnapshotCache
from trimtab.planner.snapshot.columns import NO_NODE, Bool, Int32, Int64, Snapshot


def no_stop_watch(name: str) -> AbstractContextManager[None]:  # noqa: ARG001
    """Measure nothing."""
    return nullcontext()


class Work(NamedTuple):
    """stage : context of a named stage, which may raise if nobody waits for the answer any more;

    time_left : False once a simulation should stop, None = no bound; cache : values of the snapshot; limits : see
    `RequestLimits`; parallel : see `Parallel`; ends_request : errors that `stage` and `limits` raise.
    """

    stage: Callable[[str], AbstractContextManager[None]] = no_stop_watch
    time_left: Callable[[], bool] | None = None
    cache: SnapshotCache = UNCACHED
    limits: RequestLimits = UNLIMITED
    parallel: Parallel = SEQUENTIAL
    ends_request: tuple[type[Exception], ...] = ()


class SimulationFactory(Protocol):
    """Returns a simulation of the snapshot with virtual pods, numbered from P on in the order given.

    kinds : examples of virtual pods of which the snapshot may have none; the cached simulation already has their
    classes, which virtual pods that are the same objects take over.
    """

    def __call__(self, virtual: tuple[VirtualPod, ...], kinds: Kinds = NO_KINDS) -> Simulation:
        """Return the simulation."""


class GrowthOf(Protocol):
    """Returns the virtual nodes with which a decision lets groups grow."""

    def __call__(self, code: int, virtual_pod_count: int) -> Growth:
        """Return those of the decision of this code; without its own requirements, upcoming nodes only."""


def no_growth(code: int, virtual_pod_count: int) -> Growth:  # noqa: ARG001
    """Return no nodes."""
    return NO_GROWTH.growth


class RoomDemand(Protocol):
    """How many placeholders of Q sets are requested, depending on nodes."""

    def without(self, nodes: Int32) -> Int64:
        """Return how many of each set would be requested without these nodes of the snapshot. int64[Q]."""

    def kind(self, node: int) -> Hashable:
        """Return the properties of a node on which that depends."""


class _NoDemand:
    """The demand if slack requests nothing."""

    def without(self, nodes: Int32) -> Int64:  # noqa: ARG002
        return np.zeros(0, np.int64)

    def kind(self, node: int) -> Hashable:
        return node


class HeldGang(NamedTuple):
    """A set of placeholders that all have places or none. set : its position; name : of the set; topology_key : label
    that the nodes of new places share, "" = none."""

    set: int
    namespace: str
    name: str
    topology_key: str


class HeldRoom(NamedTuple):
    """The placeholders that keep room: sets of equal ones, each set consecutive. names : of all M; bounds : int64[Q+1],
    the placeholders of each set; demand : how many there should be; gangs : sets of which all have places or none.
    """

    names: Sequence[str]
    bounds: Int64
    demand: RoomDemand
    gangs: tuple[HeldGang, ...] = ()


_NO_ROOM: Final = HeldRoom((), np.zeros(1, np.int64), _NoDemand())


class BookedRoom(NamedTuple):
    """Room that is held for pods of ProvisioningRequests which have not started. pods : virtual pods, those of a set
    consecutive and the same object; names : of each; counts : int64[Q] pods of each set; kinds : one pod of each kind;
    node : int32[M] existing node of each, NO_NODE = on one that is coming; group, number : int32[M] node group, and
    number among its coming nodes.
    """

    pods: tuple[VirtualPod, ...]
    names: tuple[str, ...]
    counts: Int64
    kinds: Kinds
    node: Int32
    group: Int32
    number: Int32


NOTHING_BOOKED: Final = BookedRoom((), (), np.zeros(0, np.int64), NO_KINDS, *np.zeros((3, 0), np.int32))


class RoundInput(NamedTuple):
    """What decisions that are taken before the round give to it. snapshot : with the nodes that they order as
    requested; booked : the room that they hold; requested : bool[P] pods that wait for booked room, which no other
    decision serves.
    """

    snapshot: Snapshot
    booked: BookedRoom
    requested: Bool


class _DemandAndBookings:
    """The demand for placeholders, followed by booked room, which does not depend on nodes."""

    def __init__(self, demand: RoomDemand, counts: Int64) -> None:
        self._demand, self._counts = demand, counts

    def without(self, nodes: Int32) -> Int64:
        return np.concatenate([self._demand.without(nodes), self._counts])

    def kind(self, node: int) -> Hashable:
        return self._demand.kind(node)


def fixed_demand(counts: Int64) -> RoomDemand:
    """Return the demand for sets whose numbers do not depend on nodes. counts : int64[Q]."""
    return _DemandAndBookings(_NoDemand(), counts)


def _with_bookings(room: HeldRoom, booked: BookedRoom) -> HeldRoom:
    """Return placeholders followed by booked room."""
    if not booked.pods:
        return room
    bounds = np.concatenate([room.bounds, room.bounds[-1] + np.cumsum(booked.counts)])
    names = [*room.names, *booked.names]
    return HeldRoom(names, bounds, _DemandAndBookings(room.demand, booked.counts), room.gangs)


@dataclass(eq=False)
class Round:
    """A decision is a function of this, its settings and its state, within the bounds of `work`.

    It has two states: until something simulates, placeholders may be added (`hold_room`); from the first use of
    `simulation` or `growth_of` on, the virtual pods and nodes are fixed.

    now_ns : Unix nanoseconds; work : bounds and caches; decided : the `Decided` of the decisions taken before in this
    round, by `Decision.Code`; grow : see `GrowthOf`; explained : int32 nodes whose blocking pods are all listed,
    ascending; booked, requested : see `RoundInput`, requested None = none.
    """

    snapshot: Snapshot
    simulate: SimulationFactory
    now_ns: int
    seed: int = 0
    settings: PlannerSettings = field(default_factory=PlannerSettings)
    work: Work = field(default_factory=Work)
    decided: dict[int, Any] = field(default_factory=dict)
    grow: GrowthOf = no_growth
    explained: Int32 = field(default_factory=lambda: np.zeros(0, np.int32))
    booked: BookedRoom = NOTHING_BOOKED
    requested: Bool | None = None
    _room: HeldRoom = field(default=_NO_ROOM, init=False)
    _simulation: Simulation | None = field(default=None, init=False)
    _is_fixed: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._room = _with_bookings(_NO_ROOM, self.booked)

    def in_time(self) -> bool:
        """Return whether there is time left."""
        return self.work.time_left is None or self.work.time_left()

    @cached_property
    def leaving(self) -> Bool:
        """Which nodes of the snapshot are being deleted. bool[N]."""
        return being_deleted(self.snapshot, self.now_ns)

    @cached_property
    def ready(self) -> Bool:
        """Which nodes of the snapshot are ready. bool[N]."""
        return is_ready(self.snapshot, self.settings.readiness, self.now_ns)

    @cached_property
    def evictions(self) -> tuple[RecentEviction, ...]:
        """Recently evicted pods that will be recreated but are not yet; they follow the snapshot's pods."""
        return awaited(self.snapshot, self.now_ns, self.settings.recent_eviction_ttl_ns)

    @property
    def simulation(self) -> Simulation:
        """The one simulation of the round, built on first use."""
        self._is_fixed = True
        if self._simulation is None:
            self._simulation = self._simulated((), NO_KINDS)
        return self._simulation

    @property
    def is_simulated(self) -> bool:
        """Whether the simulation has been built."""
        return self._simulation is not None

    @property
    def room(self) -> HeldRoom:
        """The placeholders that keep room, as virtual pods after `evictions`."""
        return self._room

    @property
    def placeholders(self) -> Sequence[str]:
        """Names of the placeholders that keep room."""
        return self._room.names

    def growth_of(self, code: int) -> Growth:
        """Return the virtual nodes of `simulation` with which a decision lets groups grow; without requirements of its
        own, the upcoming nodes alone. code : a `Decision.Code`.
        """
        self._is_fixed = True
        return self.grow(code, len(self.evictions) + len(self._room.names))

    def hold_room(self, room: HeldRoom, pods: tuple[VirtualPod, ...], kinds: Kinds) -> None:
        """Add placeholders to the round, on no node yet. kinds : one pod of each kind among them. Raises RuntimeError
        if something simulates already.
        """
        if self._is_fixed:
            raise RuntimeError("placeholders come before everything that simulates")
        self._is_fixed, self._room = True, _with_bookings(room, self.booked)
        self._simulation = self._simulated(pods, kinds)

    def _simulated(self, placeholders: tuple[VirtualPod, ...], kinds: Kinds) -> Simulation:
        """Return the simulation with placeholders on no node, followed by booked room on its nodes."""
        booked = self.booked
        pods = evicted_pods(self.snapshot, self.evictions) + placeholders + booked.pods
        simulation = self.simulate(pods, kinds.and_of(booked.kinds))
        if booked.pods:
            state, first = simulation.state, len(simulation.state.pod_node) - len(booked.pods)
            target = np.full(len(state.pod_node), NO_NODE, np.int32)
            target[first:] = self._booked_nodes()
            rows = np.arange(first, len(target), dtype=np.int32)
            place_where(state, np.ones(len(state.node_state), bool), rows, target)
            commit(state)
        return simulation

    def _booked_nodes(self) -> Int32:
        """Return the node of the simulation of each booked pod, NO_NODE = no decision asks for nodes that are coming.
        int32[M]."""
        booked, growth = self.booked, self.growth_of(0)
        node = booked.node.copy()
        coming = np.flatnonzero((node == NO_NODE) & (booked.group >= 0))
        if len(coming) and len(growth.template_node):
            group, number = booked.group[coming], booked.number[coming]
            first, last = growth.upcoming_offsets[group], growth.upcoming_offsets[group + 1]
            there = first + number < last
            node[coming[there]] = growth.upcoming[(first + number)[there]]
        return node

    def enlarge_log(self, mark: int) -> None:
        """Undo all moves since a mark, and give the simulation's log room for several times as many."""
        simulation = self.simulation
        self._simulation = simulation._replace(state=with_larger_log(simulation.state, mark))
