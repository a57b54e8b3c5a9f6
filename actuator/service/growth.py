"""ScaleUp: increase the sizes of node groups, each once for each request; the cloud accepts or refuses.

Durations in seconds.
"""

import time
from collections.abc import Sequence

import grpc

from trimtab.actuator.runner.event_processor import EventProcessor
from trimtab.actuator.service.validation import check_epoch, check_same, digest_request, growths
from trimtab.actuator.tracker.events import Event, GrowthRequested
from trimtab.actuator.tracker.states import GrowthAnswer, GrowthRecord
from trimtab.actuator.tracker.tracker import Tracker
from trimtab.clients.rpc.errors import Reason, ServiceError
from trimtab.v1 import actuator_pb2


class Growths:
    """Scales node groups up."""

    def __init__(self, processor: EventProcessor, answer_s: float) -> None:
        self._processor = processor
        self._answer_s = answer_s

    def grow(self, request: actuator_pb2.ScaleUpRequest) -> Sequence[GrowthAnswer]:
        """Carry out a request, or return its earlier answer."""
        self.begin(request)
        return self._wait(request.request_id)

    def begin(self, request: actuator_pb2.ScaleUpRequest) -> None:
        """Record a request, unless it was recorded before."""
        wanted = growths(request)
        request_id, digest = request.request_id, digest_request(request)

        def proposal(tracker: Tracker, _now_ms: int) -> Event | None:
            record = tracker.data.growths.get(request_id)
            if record is None:
                check_epoch(request.epoch, tracker.data)
                return GrowthRequested(request_id, digest, wanted, request.epoch)
            check_same(request_id, record.digest, digest, "ScaleUp")
            return None

        self._processor.propose(proposal)

    def answers(self, request_id: str) -> Sequence[GrowthAnswer] | None:
        """Return the answers to a recorded request; None = the cloud has not answered yet. Raises `ServiceError` if its
        record is no longer kept.
        """
        return self._processor.read(lambda tracker, _: growth_record(tracker, request_id).answers)

    def _wait(self, request_id: str) -> Sequence[GrowthAnswer]:
        until = time.monotonic() + self._answer_s
        revision = -1
        while (left_s := until - time.monotonic()) > 0:
            revision = self._processor.wait_for_change(revision, left_s)
            answers = self.answers(request_id)
            if answers is not None:
                return answers
        raise ServiceError(
            grpc.StatusCode.UNAVAILABLE,
            Reason.BACKEND_UNAVAILABLE,
            f"the cloud has not answered after {self._answer_s:g} s; repeat the call with the same request_id",
        )


def growth_record(tracker: Tracker, request_id: str) -> GrowthRecord:
    """Return the record of a scale-up. Raises `ServiceError` if it is no longer kept."""
    record = tracker.data.growths.get(request_id)
    if record is None:
        raise ServiceError(
            grpc.StatusCode.UNAVAILABLE,
            Reason.BACKEND_UNAVAILABLE,
            f"the answer to request {request_id} is no longer kept; read the sizes of the groups and plan again",
            {"request_id": request_id},
        )
    return record


def growth_response(answers: Sequence[GrowthAnswer]) -> actuator_pb2.ScaleUpResponse:
    """Return the answers as a message."""
    return actuator_pb2.ScaleUpResponse(
        splits=[
            actuator_pb2.ScaleUpAnswer(
                node_group=answer.node_group,
                accepted=answer.accepted,
                detail=answer.detail,
                reason=answer.reason,  # type: ignore[arg-type]
            )
            for answer in answers
        ]
    )
