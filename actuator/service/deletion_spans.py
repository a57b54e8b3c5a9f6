"""A span for each deletion, from its beginning to its end, in a separate trace. The span links to the call that
requested the deletion, which goes on long after that call's trace has ended. The link is kept in memory, so it is
missing after a restart. Never decides what is traced elsewhere.
"""

from collections import OrderedDict
from typing import Final

from opentelemetry import trace
from opentelemetry.context import Context

from trimtab.actuator.service.state_log import touched
from trimtab.actuator.tracker import events as e
from trimtab.actuator.tracker.states import Deletion
from trimtab.actuator.tracker.tracker import Tracker

_NS_PER_MS: Final = 1_000_000
_MOST_KEPT: Final = 1000
_tracer = trace.get_tracer("trimtab.actuator")


class DeletionSpans:
    """A listener of the processor."""

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
