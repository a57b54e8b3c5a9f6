"""ScaleUp and LowerTargets: change the target sizes of node groups, each once for each request; the cloud accepts or
refuses.

Durations in seconds.
"""

from collections.abc import Sequence

import grpc

from trimtab.actuator.runner.event_processor import EventProcessor
from trimtab.actuator.service.validation import check_epoch, check_same, digest_request, growths, reductions
from trimtab.actuator.tracker.events import Event, GrowthRequested
from trimtab.actuator.tracker.groups import LOWERING
from trimtab.actuator.tracker.states import GroupGrowth, GrowthAnswer, GrowthRecord
from trimtab.actuator.tracker.tracker import Tracker
from trimtab.common.rpc.errors import Reason, ServiceError
from trimtab.v1 import actuator_pb2


class Growths:
    """Scales node groups up, and lowers their targets. sized_by_caller : another autoscaler sets the sizes."""

    def __init__(self, processor: EventProcessor, answer_s: float, sized_by_caller: bool) -> None:
        self._processor = processor
        self._answer_s = answer_s
        self._sized_by_caller = sized_by_caller

    def grow(self, request: actuator_pb2.ScaleUpRequest) -> Sequence[GrowthAnswer]:
        """Carry out a request, or return its earlier answer."""
        self.begin(request)
        return self._wait(request.request_id)

    def lower(self, request: actuator_pb2.LowerTargetsRequest) -> Sequence[GrowthAnswer]:
        """Carry out a request, or return its earlier answer."""
        return self._wait(self.begin_lowering(request))

    def begin(self, request: actuator_pb2.ScaleUpRequest) -> None:
        """Record a request, unless it was recorded before."""
        self._begin(request, request.request_id, growths(request), "ScaleUp")

    def begin_lowering(self, request: actuator_pb2.LowerTargetsRequest) -> str:
        """Record a request, unless it was recorded before; return the id of its record."""
        wanted = reductions(request)
        if self._sized_by_caller:
            raise ServiceError(
                grpc.StatusCode.UNIMPLEMENTED,
                Reason.DECISION_UNAVAILABLE,
                "this actuator serves a Cluster Autoscaler (--serve-externalgrpc), which sets the sizes of the node "
                "groups; lower them there",
            )
        record_id = f"{LOWERING}{request.request_id}"
        self._begin(request, record_id, wanted, "LowerTargets")
        return record_id

    def _begin(
        self,
        request: actuator_pb2.ScaleUpRequest | actuator_pb2.LowerTargetsRequest,
        record_id: str,
        wanted: tuple[GroupGrowth, ...],
        method: str,
    ) -> None:
        digest = digest_request(request)

        def proposal(tracker: Tracker, _now_ms: int) -> Event | None:
            record = tracker.data.growths.get(record_id)
            if record is None:
                check_epoch(request.epoch, tracker.data)
                return GrowthRequested(record_id, digest, wanted, request.epoch)
            check_same(request.request_id, record.digest, digest, method)
            return None

        self._processor.propose(proposal)

    def answers(self, request_id: str) -> Sequence[GrowthAnswer] | None:
        """Return the answers to a recorded request; None = the cloud has not answered yet. Raises `ServiceError` if its
        record is no longer kept.
        """
        return self._processor.read(lambda tracker, _: growth_record(tracker, request_id).answers)

    def _wait(self, request_id: str) -> Sequence[GrowthAnswer]:
        self._processor.wait_until(
            lambda tracker, _: growth_record(tracker, request_id).answers is not None, self._answer_s
        )
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


def lowering_response(answers: Sequence[GrowthAnswer]) -> actuator_pb2.LowerTargetsResponse:
    """Return the answers to reductions as a message."""
    return actuator_pb2.LowerTargetsResponse(reductions=growth_response(answers).splits)
