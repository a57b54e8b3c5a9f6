"""One round: the common input of all decisions of a plan. The decisions of a plan work on one simulation, one after the
other. The moves of a decision (placeholders and pods placed, nodes opened or drained) stay for the next one; before the
first, every running pod is on its node and awaited pods (recent evictions) are on none. Reads no clock: the time comes
with the request.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from trimtab.planner.facts.recent_evictions import awaited
from trimtab.planner.model.settings import PlannerSettings
from trimtab.planner.model.values import RecentEviction
from trimtab.planner.round.work import Work
from trimtab.planner.simulation.build import Simulation
from trimtab.planner.simulation.growth import NO_GROWTH, Growth
from trimtab.planner.simulation.virtual_rows import NO_KINDS, Kinds, VirtualPod, evicted_pods
from trimtab.planner.snapshot.columns import Int32, Int64, Snapshot


class SimulationFactory(Protocol):
    """Returns a simulation of the snapshot with virtual pods, numbered from P on in the order given.

    kinds : examples of virtual pods of which the snapshot may have none; the cached simulation already has their
    classes, which virtual pods that are the same objects take over.
    """

    def __call__(self, virtual: tuple[VirtualPod, ...], kinds: Kinds = NO_KINDS) -> Simulation:
        """Return the simulation."""


class HeldRoom(NamedTuple):
    """The placeholders that keep room: sets of equal ones, each set consecutive. names : of all M; bounds : int64[Q+1],
    the placeholders of each set; without : returns how many of each set would be requested without these nodes : int32
    of the snapshot, int64[Q]; kind : returns the properties of a node on which that depends.
    """

    names: Sequence[str]
    bounds: Int64
    without: Callable[[Int32], Int64]
    kind: Callable[[int], Hashable]


@dataclass(frozen=True)
class Round:
    """A decision is a function of this, its settings and its state, within the bounds of `work`. now_ns : Unix
    nanoseconds; work : bounds and caches; decided : the `Decided` of the decisions taken before in this round, by
    `Decision.Code`; grow : returns the virtual nodes with which groups grow, given the number of virtual pods;
    explained : int32 nodes whose blocking pods are all listed, ascending.
    """

    snapshot: Snapshot
    simulate: SimulationFactory
    now_ns: int
    seed: int = 0
    settings: PlannerSettings = field(default_factory=PlannerSettings)
    work: Work = field(default_factory=Work)
    decided: dict[int, Any] = field(default_factory=dict)
    grow: Callable[[int], Growth] = lambda _: NO_GROWTH.growth
    explained: Int32 = field(default_factory=lambda: np.zeros(0, np.int32))

    def in_time(self) -> bool:
        """Return whether there is time left."""
        return self.work.time_left is None or self.work.time_left()

    @cached_property
    def evictions(self) -> tuple[RecentEviction, ...]:
        """Recently evicted pods that will be recreated but are not yet; they follow the snapshot's pods."""
        return awaited(self.snapshot, self.now_ns, self.settings.recent_eviction_ttl_ns)

    @cached_property
    def growth(self) -> Growth:
        """The virtual nodes of `simulation` with which groups grow, none if no decision requires them."""
        return self.grow(len(self.evictions) + len(self.room.names))

    @cached_property
    def simulation(self) -> Simulation:
        """The one simulation of the round, built on first use."""
        return self.simulate(evicted_pods(self.snapshot, self.evictions))

    @cached_property
    def room(self) -> HeldRoom:
        """The placeholders that keep room, as virtual pods after `evictions`; slack adds them."""
        return HeldRoom((), np.zeros(1, np.int64), lambda _: np.zeros(0, np.int64), int)

    @property
    def placeholders(self) -> Sequence[str]:
        """Names of the placeholders that keep room."""
        return self.room.names

    def hold_room(self, room: HeldRoom, pods: tuple[VirtualPod, ...], kinds: Kinds) -> None:
        """Add placeholders to the round, on no node yet, before its simulation is first used. kinds : one pod of each
        kind among them. Raises RuntimeError if the simulation exists already.
        """
        if not vars(self).keys().isdisjoint(("simulation", "growth")):
            raise RuntimeError("placeholders come before everything that simulates")
        vars(self)["room"] = room
        vars(self)["simulation"] = self.simulate(evicted_pods(self.snapshot, self.evictions) + pods, kinds)

    def go_on_with(self, simulation: Simulation) -> None:
        """Replace the simulation of the round: the same cluster and moves, with more room for moves, or with more
        virtual pods and nodes (`trimtab.planner.simulation.virtual`)."""
        vars(self)["simulation"] = simulation
