"""The form of both tables of transitions: the only place that says which state may follow a state by an event.

Decides what an event means that is in no edge: it is late, and harmless, or impossible. Never changes data.
"""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Generic, NamedTuple, TypeVar

from trimtab.actuator.tracker.events import Event

S = TypeVar("S", bound=IntEnum)


class ImpossibleEventError(Exception):
    """An event that cannot happen in its state: a bug of the actuator, or a damaged store."""


class Edge(NamedTuple, Generic[S]):
    """In state `source`, `event` may lead to `target`. `sentence` : when and why, for the documentation."""

    source: S
    event: type[Event]
    target: S
    sentence: str


class TransitionTable(Generic[S]):
    """Edges, and the events that are late in a state: a caller's, or of a task that saw an earlier one. `what` : what
    has the states, for errors.
    """

    def __init__(self, what: str, edges: Sequence[Edge[S]], late: Mapping[S, frozenset[type[Event]]]) -> None:
        self.edges, self.late = edges, late
        self._what = what
        self._targets: dict[tuple[S, type[Event]], frozenset[S]] = {}
        for edge in edges:
            known = self._targets.get((edge.source, edge.event), frozenset())
            self._targets[edge.source, edge.event] = known | {edge.target}

    def following(self, state: S, event: Event) -> frozenset[S]:
        """Return the states that may follow; none = the event is late. Raises `ImpossibleEventError`."""
        targets = self._targets.get((state, type(event)))
        if targets is None and type(event) not in self.late.get(state, frozenset()):
            raise ImpossibleEventError(f"{type(event).__name__} cannot happen to {self._what} that is {state.name}")
        return targets or frozenset()
