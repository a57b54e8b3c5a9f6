"""Nodes from which a gang moves whole: their drains begin together, or none does.

Such a gang waits while the drain of one of its nodes has not begun: until then no pod of any of them is evicted, and if
one of them ends, all are rolled back. From then on each node continues by itself, as the gang is disrupted anyway. The
nodes of a gang are those of one request with one `NodeToDelete.gang`. Source: ours.
"""

from typing import Final

from trimtab.actuator.tracker import events as e
from trimtab.actuator.tracker.deletion_steps import apply
from trimtab.actuator.tracker.states import Deletion, Reason, State, TrackerData
from trimtab.actuator.tracker.transitions import next_state

_NOT_BEGUN: Final = (State.PLANNED, State.TAINTED)


def gang_detail(gang: str, node: str, what: str) -> str:
    """Return why a node stays whose gang stays. what : why the other node does, for people."""
    return f"gang {gang} moves whole or not at all, and {node} stays: {what}"


def nodes_of_gang(data: TrackerData, deletion: Deletion) -> list[Deletion]:
    """Return the deletions in progress with the gang of this one, itself included, by node; none if it has no gang."""
    if not deletion.gang:
        return []
    found = (one for one in data.deletions.values() if one.gang == deletion.gang)
    return sorted((one for one in found if one.request_id == deletion.request_id), key=lambda one: one.node)


def waits_for_gang(data: TrackerData, deletion: Deletion) -> bool:
    """Return whether the drain of a node of its gang has not begun, so that none may evict."""
    return any(one.state in _NOT_BEGUN for one in nodes_of_gang(data, deletion))


def end_with(deletion: Deletion, cause: Deletion, event: e.NodeEvent, now_ms: int) -> State:
    """Apply to a deletion that another one of its gang, `cause`, was ended by an event; return the next state."""
    own: e.NodeEvent
    if isinstance(event, e.CancelRequested):
        own = e.CancelRequested(deletion.node, gang_detail(deletion.gang, cause.node, "its deletion was cancelled"))
    else:
        detail = gang_detail(deletion.gang, cause.node, cause.detail)
        own = e.DeletionFailed(deletion.node, Reason.GANG_STAYS, detail)
    target = next_state(deletion.state, own)
    assert target is not None, f"{deletion.node}: in state {deletion.state.name} before its gang has begun"
    apply(deletion, own, now_ms)
    return target


def check(data: TrackerData) -> None:
    """Raise AssertionError if a gang is torn."""
    for deletion in data.deletions.values():
        assert deletion.drain or not deletion.gang, f"{deletion.node}: of a gang, but not drained"
        if deletion.state is State.TAINTED:
            for other in nodes_of_gang(data, deletion):
                assert other.state in (State.TAINTED, State.DRAINING), f"{deletion.node}: its gang is torn"
                assert not other.evicted, f"{other.node}: evicts before the drain of {deletion.node} has begun"
