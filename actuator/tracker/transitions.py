"""The one table of what may happen to a deletion.

Decides, for a state and an event, the next state; an event that is in neither `EDGES` nor `LATE` is impossible. Never
looks at anything but the two.
"""

from typing import NamedTuple

from actuator.tracker import events as e
from actuator.tracker.states import FINAL_STATES, State


class Edge(NamedTuple):
    """From `source`, `event` leads to `target`."""

    source: State
    event: type[e.Event]
    target: State
    sentence: str


EDGES = (
    Edge(State.PLANNED, e.SetTainted, State.TAINTED, "Every node of the set carries the taint, so the work begins."),
    Edge(State.PLANNED, e.SetFailed, State.ROLLING_BACK, "One node of the set took no taint, so none keeps it."),
    Edge(State.TAINTED, e.NodeEmpty, State.DRAINED, "A node without pods to move needs no drain."),
    Edge(State.TAINTED, e.DrainStarted, State.DRAINING, "The pods to go are written down before the first one goes."),
    Edge(State.TAINTED, e.DeletionFailed, State.ROLLING_BACK, "The node is not as the plan assumed."),
    Edge(State.TAINTED, e.CancelRequested, State.ROLLING_BACK, "Cancelled before the first eviction."),
    Edge(State.TAINTED, e.NodeGone, State.FAILED, "The node vanished; there is no taint to take back."),
    Edge(State.DRAINING, e.DrainStarted, State.DRAINING, "The drain goes on after a restart, or finds more pods."),
    Edge(State.DRAINING, e.PodsEvicted, State.DRAINING, "Pods were told to go."),
    Edge(State.DRAINING, e.DrainProgressed, State.DRAINING, "Pods have gone."),
    Edge(State.DRAINING, e.Drained, State.DRAINED, "No pod to move is left."),
    Edge(State.DRAINING, e.DeletionFailed, State.ROLLING_BACK, "A pod would not go in time."),
    Edge(State.DRAINING, e.CancelRequested, State.ROLLING_BACK, "Cancelled; pods that have gone stay gone."),
    Edge(State.DRAINING, e.NodeGone, State.FAILED, "The node vanished; there is no taint to take back."),
    Edge(State.DRAINED, e.DeleteBegun, State.DELETING, "The cloud is about to be asked; no cancelling any more."),
    Edge(State.DRAINED, e.DeletionFailed, State.ROLLING_BACK, "The step to the cloud was given up."),
    Edge(State.DRAINED, e.CancelRequested, State.ROLLING_BACK, "Cancelled before the cloud was asked."),
    Edge(State.DRAINED, e.NodeGone, State.FAILED, "The node vanished; there is no taint to take back."),
    Edge(State.DELETING, e.DeleteAccepted, State.DELETING, "The cloud's target size counts the node out."),
    Edge(State.DELETING, e.InstanceGone, State.DELETED, "Instance and node are gone."),
    Edge(State.DELETING, e.DeletionFailed, State.ROLLING_BACK, "The cloud would not delete; the node is given back."),
    Edge(State.ROLLING_BACK, e.RolledBack, State.FAILED, "The taint is gone (CANCELLED if a caller wanted it so)."),
)

# What a worker or a caller may still say when the deletion has gone on: harmless, and changes nothing but the record of
# evictions.
LATE: dict[State, frozenset[type[e.Event]]] = {
    State.DRAINED: frozenset({e.NodeEmpty, e.Drained, e.DrainProgressed, e.PodsEvicted}),
    State.DELETING: frozenset({e.DeleteBegun, e.NodeGone, e.CancelRequested}),
    State.PLANNED: frozenset({e.CancelRequested}),
    State.ROLLING_BACK: frozenset(
        {
            e.NodeEmpty,
            e.DrainStarted,
            e.PodsEvicted,
            e.DrainProgressed,
            e.Drained,
            e.DeleteBegun,
            e.DeleteAccepted,
            e.DeletionFailed,
            e.CancelRequested,
            e.NodeGone,
        }
    ),
}

_TARGETS = {(edge.source, edge.event): edge.target for edge in EDGES}


class ImpossibleEventError(Exception):
    """An event that cannot happen in its deletion's state: a fault of the actuator, or of its store."""


def next_state(state: State, event: e.Event) -> State | None:
    """Say where an event leads; None when it comes late. Raises `ImpossibleEventError`."""
    target = _TARGETS.get((state, type(event)))
    if target is not None:
        return target
    if type(event) in LATE.get(state, frozenset()):
        return None
    raise ImpossibleEventError(f"{type(event).__name__} cannot happen to a deletion that is {state.name}")


def table() -> str:
    """The table for people, one edge a line."""
    return "\n".join(
        f"{edge.source.name:13}{edge.event.__name__:17}{edge.target.name:13}{edge.sentence}" for edge in EDGES
    )


def check_table() -> None:
    """Raise AssertionError if the table contradicts itself."""
    assert len(_TARGETS) == len(EDGES), "two edges with the same source and event"
    assert not [edge for edge in EDGES if edge.source in FINAL_STATES], "an edge leaves a final state"
    both = [(state, event) for state, events in LATE.items() for event in events if (state, event) in _TARGETS]
    assert not both, f"both an edge and late: {both}"
