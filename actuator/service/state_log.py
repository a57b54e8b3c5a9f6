"""One structured log line for each change of state of each node, and for each refusal.

Decides only the form, from durable events: `node_state` (node, node_group, state, request_id; after an error also
reason and detail), `node_refused` (the same without state), `growth` (node_group, accepted, request_id, …). The reasons
are those of the contract. Never reads the cluster.
"""

from typing import Any

import structlog

from trimtab.actuator.tracker import events as e
from trimtab.actuator.tracker.states import NO_REASON, Deletion, State
from trimtab.actuator.tracker.tracker import Tracker
from trimtab.v1 import reason_pb2

log = structlog.get_logger("nodes")

# States that an operator has to know about.
WARNINGS = frozenset({State.FAILED, State.ROLLING_BACK})


class StateLog:
    """A listener of the processor."""

    def __init__(self) -> None:
        # Last logged state of each node in progress.
        self._states: dict[str, State] = {}

    def on_event(self, event: e.Event, tracker: Tracker, now_ms: int) -> None:
        """Log the changes by an event."""
        del now_ms
        if isinstance(event, e.SetAccepted):
            _log_refusals(event)
        if isinstance(event, e.GrowthAnswered):
            _log_growth(event)
        for deletion in touched(event, tracker):
            if self._states.get(deletion.node) is not deletion.state:
                _log_state(deletion)
            if deletion.node in tracker.data.deletions:
                self._states[deletion.node] = deletion.state
            else:
                self._states.pop(deletion.node, None)


def touched(event: e.Event, tracker: Tracker) -> list[Deletion]:
    """Return the deletions that an event may have changed, sorted by node."""
    data = tracker.data
    if isinstance(event, e.SetAccepted | e.SetTainted | e.SetFailed | e.InstancesAccepted):
        deletions = [deletion for deletion in data.deletions.values() if deletion.request_id == event.request_id]
        return sorted(deletions, key=lambda deletion: deletion.node)
    if not isinstance(event, e.NodeEvent):
        return []
    if event.node in data.deletions:
        return [data.deletions[event.node]]
    last = data.finished[-1:]
    # Other late events change nothing.
    ends = isinstance(event, e.InstanceGone | e.NodeGone | e.RolledBack)
    return [deletion for deletion in last if deletion.node == event.node and ends]


def _log_state(deletion: Deletion) -> None:
    level = log.warning if deletion.state in WARNINGS else log.info
    level(
        "node_state",
        node=deletion.node,
        node_group=deletion.node_group,
        state=deletion.state.name,
        request_id=deletion.request_id,
        drain=deletion.drain,
        **_why(deletion.reason, deletion.detail),
    )


def _log_refusals(event: e.SetAccepted) -> None:
    for answer in event.answers:
        if not answer.accepted:
            log.info(
                "node_refused",
                node=answer.node,
                node_group=answer.node_group,
                request_id=event.request_id,
                **_why(answer.reason, answer.detail),
            )


def _log_growth(event: e.GrowthAnswered) -> None:
    for answer in event.answers:
        why = {}
        if not answer.accepted:
            name = reason_pb2.GrowthReason.Code.Name(answer.reason)  # type: ignore[arg-type]
            why = {"reason": name, "detail": answer.detail}
        log.info("growth", node_group=answer.node_group, accepted=answer.accepted, request_id=event.request_id, **why)


def _why(reason: int, detail: str) -> dict[str, Any]:
    if reason == NO_REASON:
        return {}
    return {"reason": reason_pb2.DeletionReason.Code.Name(reason), "detail": detail}  # type: ignore[arg-type]
