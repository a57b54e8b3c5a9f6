"""One deletion: the only table of its transitions, what an event changes in it, the work that its state requires, and
what it never contradicts.

Nodes from which a gang moves whole wait while the drain of one of them has not begun: until then no pod of any of them
is evicted, and if one of them ends, all are rolled back. From then on each node continues by itself, as the gang is
disrupted anyway. The nodes of a gang are those of one request with one `NodeToDelete.gang`.
"""

from typing import Final

from trimtab.actuator.tracker import events as e
from trimtab.actuator.tracker import instructions as i
from trimtab.actuator.tracker.states import NO_REASON, Deletion, PodRef, Reason, State, TrackerData
from trimtab.actuator.tracker.transitions import Edge, TransitionTable

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
_NOT_BEGUN: Final = (State.PLANNED, State.TAINTED)


EDGES: Final[tuple[Edge[State], ...]] = (
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


TABLE: Final = TransitionTable("a deletion", EDGES, LATE)


def next_state(state: State, event: e.Event) -> State | None:
    """Return the next state; None when the event is late. Raises `ImpossibleEventError`."""
    return next(iter(TABLE.following(state, event)), None)


def apply(deletion: Deletion, event: e.NodeEvent, now_ms: int) -> None:
    """Write the event's content into the deletion."""
    match event:
        case e.TaintRestored():
            deletion.taint_restored = True
        case e.DeleteBegun():
            deletion.begun_ms = now_ms
        case e.DeleteAccepted():
            deletion.target_reduced = True
        case e.InstanceLeft():
            deletion.has_left = True
        case e.DeletionFailed(reason=reason, detail=detail, pods_left=pods_left):
            deletion.ending = State.FAILED
            deletion.reason, deletion.detail, deletion.pods_left = reason, detail, pods_left
        case e.NodeGone():
            deletion.reason, deletion.detail = (
                Reason.NODE_GONE,
                "the node vanished before the cloud was asked to delete it",
            )
        case e.CancelRequested(detail=detail):
            deletion.ending = State.CANCELLED
            deletion.reason, deletion.detail = Reason.CANCELLED, detail
        case _:
            _apply_drain(deletion, event, now_ms)


def _apply_drain(deletion: Deletion, event: e.NodeEvent, now_ms: int) -> None:
    """Write the content of a drain's event into the deletion."""
    match event:
        case e.DrainStarted(pods=pods):
            deletion.pods = {**deletion.pods, **{pod.uid: pod.compact() for pod in pods}}
            deletion.pods_count = len(deletion.pods)
            deletion.drain_deadline_ms = deletion.drain_deadline_ms or now_ms + int(deletion.drain_timeout_s * 1000)
        case e.PodsEvicted(pods=pods):
            deletion.evicted = deletion.evicted | {deletion.pods.get(pod.uid, pod).uid for pod in pods}
        case e.DrainProgressed(gone_count=count):
            deletion.gone_count = max(deletion.gone_count, min(count, deletion.pods_count))
        case e.Drained():
            deletion.gone_count = deletion.pods_count


def instruction_of(deletion: Deletion, waits_for_gang: bool = False) -> i.Instruction:
    """Return the instruction that a deletion's state requires. waits_for_gang : no pod may be evicted yet."""
    match deletion.state:
        case State.TAINTED if not deletion.drain:
            return i.CheckEmpty(deletion.node, deletion.node_uid, deletion.taint_restored)
        case State.TAINTED | State.DRAINING:
            return i.Drain(
                node=deletion.node,
                timeout_s=deletion.drain_timeout_s,
                deadline_ms=deletion.drain_deadline_ms,
                planned_uids=deletion.planned_uids,
                pods=_pods(deletion),
                evicted=frozenset(deletion.evicted),
                node_uid=deletion.node_uid,
                taint_restored=deletion.taint_restored,
                waits_for_gang=waits_for_gang,
            )
        case State.DRAINED:
            return i.BeginDelete(deletion.node)
        case State.DELETING:
            return i.DeleteInstance(
                deletion.node,
                deletion.node_group,
                deletion.provider_id,
                deletion.node_uid,
                deletion.drained_by_caller,
                # Once the cloud has accepted it, pods that came change nothing.
                deletion.taint_restored and not deletion.target_reduced,
                deletion.target_reduced,
                deletion.has_left,
                deletion.group_grew,
            )
        case State.ROLLING_BACK:
            if deletion.gone_count == deletion.pods_count:
                return i.RollBack(deletion.node, deletion.node_uid, drained_by_caller=deletion.drained_by_caller)
            return i.RollBack(deletion.node, deletion.node_uid, _pods(deletion), frozenset(deletion.evicted))
        case _:
            raise AssertionError(f"{deletion.node}: nothing to do in state {deletion.state.name}")


def _pods(deletion: Deletion) -> tuple[PodRef, ...]:
    """Return the pods to evict, by uid."""
    return tuple(deletion.pods[uid] for uid in sorted(deletion.pods))


def check_deletion(deletion: Deletion) -> None:
    """Raise AssertionError if one deletion contradicts itself."""
    node, state = deletion.node, deletion.state
    given_up = state in (State.ROLLING_BACK, State.FAILED, State.CANCELLED)
    assert given_up == (deletion.reason != NO_REASON), f"{node}: {state.name} with reason {deletion.reason}"
    assert 0 <= deletion.gone_count <= deletion.pods_count, f"{node}: {deletion.gone_count} pods gone"
    assert deletion.drain or not deletion.pods_count, f"{node}: pods without drain"
    assert (state is not State.DRAINING) or deletion.drain_deadline_ms > 0, f"{node}: drains without deadline"
    if state is State.ROLLING_BACK:
        assert deletion.ending in (State.FAILED, State.CANCELLED), f"{node}: rolls back to nothing"


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
    return any(node.state in _NOT_BEGUN for node in nodes_of_gang(data, deletion))


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
