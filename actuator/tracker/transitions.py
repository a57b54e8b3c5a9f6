"""The only table of transitions of a deletion.

Decides the next state for a state and an event; an event that is in neither `EDGES` nor `LATE` is impossible. Depends
on nothing else.
"""

from typing import NamedTuple

from trimtab.actuator.tracker import events as e
from trimtab.actuator.tracker.states import FINAL_STATES, State


class Edge(NamedTuple):
    """In state `source`, `event` leads to `target`. `sentence` : why, for the documentation."""

    source: State
    event: type[e.Event]
    target: State
    sentence: str


EDGES = (
    Edge(State.PLANNED, e.SetTainted, State.TAINTED, "Every node of the set carries the taint; the work begins."),
    Edge(
        State.PLANNED,
        e.SetFailed,
        State.ROLLING_BACK,
        "A node was not tainted; no node of the set keeps the taint.",
    ),
    Edge(State.TAINTED, e.TaintRestored, State.TAINTED, "Another client removed the taint."),
    Edge(State.TAINTED, e.NodeEmpty, State.DRAINED, "A node without pods to move needs no drain."),
    Edge(State.TAINTED, e.DrainStarted, State.DRAINING, "The pods are recorded before the first eviction."),
    Edge(State.TAINTED, e.DeletionFailed, State.ROLLING_BACK, "The node is not as the plan assumed."),
    Edge(State.TAINTED, e.CancelRequested, State.ROLLING_BACK, "Cancelled before the first eviction."),
    Edge(State.TAINTED, e.NodeGone, State.FAILED, "The node vanished; there is no taint to remove."),
    Edge(State.DRAINING, e.DrainStarted, State.DRAINING, "The drain continues after a restart, or finds more pods."),
    Edge(State.DRAINING, e.TaintRestored, State.DRAINING, "Another client removed the taint."),
    Edge(State.DRAINING, e.PodsEvicted, State.DRAINING, "Evictions were granted."),
    Edge(State.DRAINING, e.DrainProgressed, State.DRAINING, "Pods have gone."),
    Edge(State.DRAINING, e.Drained, State.DRAINED, "No pod is left to move."),
    Edge(State.DRAINING, e.DeletionFailed, State.ROLLING_BACK, "A pod was not evicted in time."),
    Edge(State.DRAINING, e.CancelRequested, State.ROLLING_BACK, "Cancelled; evicted pods stay evicted."),
    Edge(State.DRAINING, e.NodeGone, State.FAILED, "The node vanished; there is no taint to remove."),
    Edge(State.DRAINED, e.TaintRestored, State.DRAINED, "The taint was away while no actuator was running."),
    Edge(
        State.DRAINED, e.DeleteBegun, State.DELETING, "The cloud is about to be called; from here on, no cancellation."
    ),
    Edge(State.DRAINED, e.DeletionFailed, State.ROLLING_BACK, "The step before the call to the cloud failed."),
    Edge(State.DRAINED, e.CancelRequested, State.ROLLING_BACK, "Cancelled before the cloud was called."),
    Edge(State.DRAINED, e.NodeGone, State.FAILED, "The node vanished; there is no taint to remove."),
    Edge(
        State.DELETING,
        e.TaintRestored,
        State.DELETING,
        "The taint was removed; pods may have come.",
    ),
    Edge(State.DELETING, e.DeleteAccepted, State.DELETING, "The cloud's target size no longer counts the node."),
    Edge(
        State.DELETING,
        e.InstanceLeft,
        State.DELETING,
        "The instance leaves; one that is listed again may be another machine.",
    ),
    Edge(State.DELETING, e.InstanceGone, State.DELETED, "Instance and node are gone."),
    Edge(State.DELETING, e.DeletionFailed, State.ROLLING_BACK, "The cloud failed to delete; the node stays."),
    Edge(State.ROLLING_BACK, e.RolledBack, State.FAILED, "The taint is gone (CANCELLED if a caller requested it)."),
)

# Late events of a task or a caller. They are harmless: they change only the record of evictions.
LATE: dict[State, frozenset[type[e.Event]]] = {
    State.DRAINED: frozenset({e.NodeEmpty, e.Drained, e.DrainProgressed, e.PodsEvicted}),
    State.DELETING: frozenset({e.DeleteBegun, e.NodeGone, e.CancelRequested}),
    State.PLANNED: frozenset({e.CancelRequested}),
    State.ROLLING_BACK: frozenset(
        {
            e.TaintRestored,
            e.NodeEmpty,
            e.DrainStarted,
            e.PodsEvicted,
            e.DrainProgressed,
            e.Drained,
            e.DeleteBegun,
            e.DeleteAccepted,
            e.InstanceLeft,
            e.DeletionFailed,
            e.CancelRequested,
            e.NodeGone,
        }
    ),
}

_TARGETS = {(edge.source, edge.event): edge.target for edge in EDGES}


class ImpossibleEventError(Exception):
    """An event that cannot happen in its deletion's state: a bug of the actuator, or a damaged store."""


def next_state(state: State, event: e.Event) -> State | None:
    """Return the next state; None when the event is late. Raises `ImpossibleEventError`."""
    target = _TARGETS.get((state, type(event)))
    if target is not None:
        return target
    if type(event) in LATE.get(state, frozenset()):
        return None
    raise ImpossibleEventError(f"{type(event).__name__} cannot happen to a deletion that is {state.name}")


def table() -> str:
    """Return the table as text, one edge per line."""
    return "\n".join(
        f"{edge.source.name:13}{edge.event.__name__:17}{edge.target.name:13}{edge.sentence}" for edge in EDGES
    )


def check_table() -> None:
    """Raise AssertionError if the table contradicts itself."""
    assert len(_TARGETS) == len(EDGES), "two edges with the same source and event"
    assert not [edge for edge in EDGES if edge.source in FINAL_STATES], "an edge leaves a final state"
    both = [(state, event) for state, events in LATE.items() for event in events if (state, event) in _TARGETS]
    assert not both, f"both an edge and late: {both}"
