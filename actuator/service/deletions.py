"""StartDeletion and CancelDeletion.

Decides when they answer: once every accepted node carries the taint, or the set has been rolled back.
`trimtab.actuator.tracker.admission` decides which nodes are accepted. Times are Unix milliseconds.
"""

from collections.abc import Callable, Sequence
from functools import partial

import grpc
import structlog

from trimtab.actuator.runner.event_processor import EventProcessor
from trimtab.actuator.runner.observe import observe
from trimtab.actuator.runner.tasks import TaskContext
from trimtab.actuator.service.settings import ActuatorSettings
from trimtab.actuator.service.validation import check_epoch, check_nodes, check_same, digest_request, node_requests
from trimtab.actuator.tracker.admission import (
    Admission,
    DecisionTime,
    DeletionLimits,
    NodeRequest,
    admit,
    pending_nodes,
)
from trimtab.actuator.tracker.events import CancelRequested, Event, SetAccepted
from trimtab.actuator.tracker.states import NodeAnswer, State
from trimtab.actuator.tracker.tracker import Tracker
from trimtab.common.rpc.errors import Reason, ServiceError
from trimtab.v1 import actuator_pb2

log = structlog.get_logger("deletions")

CANCEL_WAIT_S = 10.0


class Deletions:
    """Starts and cancels deletions."""

    def __init__(self, processor: EventProcessor, context: TaskContext, settings: ActuatorSettings) -> None:
        self._processor = processor
        self._context = context
        self._settings = settings

    def start(self, request: actuator_pb2.StartDeletionRequest) -> Sequence[NodeAnswer]:
        """Carry out a request, or return its earlier answer."""
        self.begin(request)
        self._processor.wait_until(lambda tracker, _: _settled(tracker, request.request_id), self._settings.answer_s)
        answers = self.answers(request)
        if answers is None:
            raise ServiceError(
                grpc.StatusCode.UNAVAILABLE,
                Reason.BACKEND_UNAVAILABLE,
                f"not all taints were written within {self._settings.answer_s:g} s; the work continues, repeat the "
                "call with the same request_id",
            )
        return answers

    def begin(self, request: actuator_pb2.StartDeletionRequest) -> None:
        """Decide on a request and record the decision, unless it was decided before."""
        requested = node_requests(request)
        request_id, digest = request.request_id, digest_request(request)
        if not self._processor.read(lambda tracker, _: _known(tracker, request_id, digest)):
            self._decide(request, requested, digest)

    def answers(self, request: actuator_pb2.StartDeletionRequest) -> tuple[NodeAnswer, ...] | None:
        """Return the answers to a request, in its order; None = the taints are not all written yet."""
        request_id, digest = request.request_id, digest_request(request)
        return self._processor.read(lambda tracker, _: _answers(tracker, request_id, digest))

    def cancel(self, nodes: Sequence[str], detail: str) -> tuple[list[str], list[str]]:
        """Stop deletions; returns the stopped ones and the others, in the order of the request."""
        check_nodes("nodes", nodes)
        self._processor.wait_until(lambda tracker, _: not _any_in(tracker, nodes, State.PLANNED), CANCEL_WAIT_S)
        cancelled, not_cancelled = self.begin_cancel(nodes, detail)
        self._processor.wait_until(
            lambda tracker, _: not _any_in(tracker, cancelled, State.ROLLING_BACK), CANCEL_WAIT_S
        )
        return cancelled, not_cancelled

    def begin_cancel(self, nodes: Sequence[str], detail: str) -> tuple[list[str], list[str]]:
        """Cancel the deletions that can be cancelled, without waiting until their taints are removed. Deletions
        cancelled before count as cancelled: the answer to the first request may have been lost.
        """
        cancelled: list[str] = []
        not_cancelled: list[str] = []
        for node in nodes:
            event = self._processor.propose(_cancel_proposal(node, detail or "cancelled by a caller"))
            stopped = event is not None or self._processor.read(partial(_is_cancelled, node=node))
            (cancelled if stopped else not_cancelled).append(node)
        return cancelled, not_cancelled

    def _decide(self, request: actuator_pb2.StartDeletionRequest, requested: list[NodeRequest], digest: str) -> None:
        """Observe the cluster, decide, and record the decision."""
        pending = self._processor.read(lambda tracker, _: pending_nodes(tracker.data))
        facts = observe(self._context, requested, pending)
        limits = self._limits(request)
        plan_ms = request.plan_time.ToMilliseconds() if request.HasField("plan_time") else None

        def proposal(tracker: Tracker, now_ms: int) -> Event | None:
            if _known(tracker, request.request_id, digest):
                return None
            check_epoch(request.epoch, tracker.data)
            age_s = None if plan_ms is None else (now_ms - plan_ms) / 1000
            admission = admit(tracker.data, requested, facts, limits, DecisionTime(now_ms, age_s))
            return self._accept(request, digest, admission)

        self._processor.propose(proposal)

    def _accept(self, request: actuator_pb2.StartDeletionRequest, digest: str, admission: Admission) -> SetAccepted:
        request_id = request.request_id
        log.info("deletion decided", request_id=request_id, accepted=len(admission.nodes), asked=len(admission.answers))
        timeout_s = self._settings.work.drain.timeout_s
        return SetAccepted(request_id, digest, admission.nodes, admission.answers, timeout_s, request.epoch)

    def _limits(self, request: actuator_pb2.StartDeletionRequest) -> DeletionLimits:
        """Return the actuator's limits; a request may only lower them."""
        own = self._settings.present_limits()
        return own._replace(
            max_parallelism=min(request.max_parallelism or own.max_parallelism, own.max_parallelism),
            max_drain_parallelism=min(
                request.max_drain_parallelism or own.max_drain_parallelism, own.max_drain_parallelism
            ),
        )


def deletion_response(answers: Sequence[NodeAnswer]) -> actuator_pb2.StartDeletionResponse:
    """Return the answers as a message."""
    return actuator_pb2.StartDeletionResponse(
        nodes=[
            actuator_pb2.NodeDeletionAnswer(
                node=answer.node,
                accepted=answer.accepted,
                reason=answer.reason,  # type: ignore[arg-type]
                detail=answer.detail,
            )
            for answer in answers
        ]
    )


def _known(tracker: Tracker, request_id: str, digest: str) -> bool:
    """Return whether the request was decided before. Raises when the id belongs to another request."""
    record = tracker.data.requests.get(request_id)
    if record is None:
        return False
    check_same(request_id, record.digest, digest, "StartDeletion")
    return True


def _settled(tracker: Tracker, request_id: str) -> bool:
    """Return whether the answer is final and, if the set failed, its taints are removed."""
    record = tracker.data.requests.get(request_id)
    if record is None or not record.settled:
        return record is None
    failed = {answer.node for answer in record.answers if not answer.accepted}
    return not any(
        deletion.request_id == request_id and deletion.node in failed and deletion.state is State.ROLLING_BACK
        for deletion in tracker.data.deletions.values()
    )


def _answers(tracker: Tracker, request_id: str, digest: str) -> tuple[NodeAnswer, ...] | None:
    if not _known(tracker, request_id, digest):
        return None
    record = tracker.data.requests[request_id]
    return record.answers if record.settled else None


def _any_in(tracker: Tracker, nodes: Sequence[str], state: State) -> bool:
    deletions = tracker.data.deletions
    return any(node in deletions and deletions[node].state is state for node in nodes)


def _is_cancelled(tracker: Tracker, _now_ms: int, *, node: str) -> bool:
    return tracker.is_cancelled(node)


def _cancel_proposal(node: str, detail: str) -> Callable[[Tracker, int], Event | None]:
    return lambda tracker, _now_ms: CancelRequested(node, detail) if tracker.cancellable(node) else None
