"""One structured log line for each change of state of each node, and for each refusal.

Decides only the form, from durable events: `node_state` (node, node_group, state, request_id; after an error also
reason and detail), `node_refused` (the same without state), `growth` (node_group, accepted, request_id, …). The reasons
are those of the contract. Never reads the cluster.
"""

from collections import OrderedDict
from typing import Any, Final

import structlog
from opentelemetry import trace
from opentelemetry.context import Context

from trimtab.actuator.tracker import events as e
from trimtab.actuator.tracker.states import NO_REASON, Deletion, State
from trimtab.actuator.tracker.tracker import Tracker
from trimtab.v1 import reason_pb2

log = structlog.get_logger("nodes")
_NS_PER_MS: Final = 1_000_000
_MOST_KEPT: Final = 1000
_tracer = trace.get_tracer("trimtab.actuator")

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


class DeletionSpans:
    """A listener of the processor: writes a span for each deletion, from its beginning to its end, in a trace of its
    own. The span links to the call that requested the deletion, which goes on long after that call's trace has ended;
    the link is kept in memory, so it is missing after a restart.
    """

    def __init__(self) -> None:
        # Spans of calls whose request is not decided yet, by request; span of the deletion of each node in progress.
        self._requests: OrderedDict[str, trace.SpanContext] = OrderedDict()
        self._orders: dict[str, trace.SpanContext] = {}

    def ordered(self, request_id: str) -> None:
        """Note that the current call makes this request; its events may be handled in another call's thread."""
        order = trace.get_current_span().get_span_context()
        if order.is_valid:
            self._requests[request_id] = order
            # Refused ones never get an event.
            while len(self._requests) > _MOST_KEPT:
                self._requests.popitem(last=False)

    def on_event(self, event: e.Event, tracker: Tracker, now_ms: int) -> None:
        """Remember which call requested a deletion; write the span of a deletion that has ended."""
        if isinstance(event, e.SetAccepted):
            order = self._requests.pop(event.request_id, None)
            if order is not None:
                self._orders |= {node.node: order for node in event.nodes}
        for deletion in touched(event, tracker):
            if deletion.node not in tracker.data.deletions:
                self._write(deletion, now_ms)

    def _write(self, deletion: Deletion, now_ms: int) -> None:
        order = self._orders.pop(deletion.node, None)
        span = _tracer.start_span(
            "deletion",
            Context(),  # a trace of its own
            links=[trace.Link(order)] if order is not None else [],
            start_time=deletion.start_ms * _NS_PER_MS,
            attributes={
                "trimtab.node": deletion.node,
                "trimtab.node_group": deletion.node_group,
                "trimtab.request_id": deletion.request_id,
                "trimtab.state": deletion.state.name,
            },
        )
        span.end(now_ms * _NS_PER_MS)
