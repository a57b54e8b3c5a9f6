"""The service `trimtab.v1.Actuator`.

Decides how requests become calls of the actuator and results become messages; errors of cluster, cloud and store become
BACKEND_UNAVAILABLE. Never acts by itself.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from typing import Any

import grpc
import structlog

from trimtab.actuator.cloud.provider import CloudError
from trimtab.actuator.kube.cluster import ClusterError, ForbiddenError, NotLeaderError
from trimtab.actuator.runner.event_processor import StoppingError
from trimtab.actuator.service.app import Actuator
from trimtab.actuator.service.deletions import deletion_response
from trimtab.actuator.service.growth import growth_response, lowering_response
from trimtab.actuator.service.object_status import apply_buffer_status, apply_capacity_status
from trimtab.actuator.service.pod_costs import apply_pod_costs
from trimtab.actuator.service.soft_taints import apply_soft_taints
from trimtab.actuator.service.status import StatusParts
from trimtab.actuator.service.validation import buffer_states, capacity_answers, check_epoch, check_nodes, cost_orders
from trimtab.actuator.service.watching import Place, SendBudget, SharedStatus, WatcherPlaces
from trimtab.actuator.store.records import StoreError
from trimtab.actuator.tracker.replacements import participants
from trimtab.common.rpc.callers import current_caller
from trimtab.common.rpc.errors import Reason, ServiceError, invalid_request, not_ready
from trimtab.v1 import actuator_pb2, actuator_pb2_grpc

log = structlog.get_logger("actuator")

RPCS = (
    "GetInfo",
    "StartDeletion",
    "ScaleUp",
    "LowerTargets",
    "StartReplacement",
    "CancelReplacement",
    "ApplyTaints",
    "ApplyPodCosts",
    "ApplyBufferStatus",
    "ApplyCapacityStatus",
    "CancelDeletion",
    "GetStatus",
    "WatchStatus",
)

# Not offered where another autoscaler sets the sizes of the node groups.
SIZE_CHANGING_RPCS = ("LowerTargets", "StartReplacement")

SERVICE = "trimtab.v1.Actuator"
# Changes within this time reach a watcher as one. For a large status it is `GATHER_FACTOR` times the time to send it.
GATHER_S = 0.05
GATHER_FACTOR = 20
# Longer times are caused by the watcher itself.
LONGEST_SEND_S = 0.1
# How often a watcher checks, without changes, that its caller is still connected.
IDLE_S = 1.0


class ActuatorServicer(actuator_pb2_grpc.ActuatorServicer):
    """See `protos/trimtab/v1/actuator.proto`. A status is answered as its bytes, most of which were encoded before: the
    server's interceptor sends them as they are.
    """

    def __init__(self, actuator: Actuator) -> None:
        self._actuator = actuator
        self._watchers = WatcherPlaces(actuator.settings.max_watchers, actuator.processor.wake_all)
        self._shared = SharedStatus(lambda with_finished, base: actuator.status(with_finished, base=base))
        self._budget = SendBudget()
        self._stopping = threading.Event()

    def end_streams(self) -> None:
        """End every watching stream."""
        self._stopping.set()
        self._actuator.processor.end_waiting()

    def GetInfo(
        self, request: actuator_pb2.GetActuatorInfoRequest, context: grpc.ServicerContext
    ) -> actuator_pb2.GetActuatorInfoResponse:
        """Return the capabilities of this build."""
        is_sized_by_caller = self._actuator.settings.groups.sized_by_caller
        return actuator_pb2.GetActuatorInfoResponse(
            version=_version(),
            rpcs=[rpc for rpc in RPCS if rpc not in SIZE_CHANGING_RPCS or not is_sized_by_caller],
            cloud=self._actuator.cloud.name,
            leader=self._actuator.processor.leading,
        )

    def StartDeletion(
        self, request: actuator_pb2.StartDeletionRequest, context: grpc.ServicerContext
    ) -> actuator_pb2.StartDeletionResponse:
        """Start deletions: taint at once, drain and delete in the background."""
        with self._call("start_deletion", request_id=request.request_id, nodes=len(request.nodes)):
            self._actuator.spans.ordered(request.request_id)
            answers = self._actuator.deletions.start(request)
        return deletion_response(answers)

    def CancelDeletion(
        self, request: actuator_pb2.CancelDeletionRequest, context: grpc.ServicerContext
    ) -> actuator_pb2.CancelDeletionResponse:
        """Stop deletions."""
        structlog.contextvars.bind_contextvars(nodes=len(request.nodes))
        with backend_errors():
            cancelled, not_cancelled = self._actuator.deletions.cancel(list(request.nodes), request.reason)
        return actuator_pb2.CancelDeletionResponse(cancelled=cancelled, not_cancelled=not_cancelled)

    def ScaleUp(
        self, request: actuator_pb2.ScaleUpRequest, context: grpc.ServicerContext
    ) -> actuator_pb2.ScaleUpResponse:
        """Grow node groups."""
        with self._call("scale_up", request_id=request.request_id, splits=len(request.splits)):
            answers = self._actuator.growths.grow(request)
        return growth_response(answers)

    def LowerTargets(
        self, request: actuator_pb2.LowerTargetsRequest, context: grpc.ServicerContext
    ) -> actuator_pb2.LowerTargetsResponse:
        """Lower target sizes by nodes that have not started."""
        with self._call("lower_targets", request_id=request.request_id, groups=len(request.reductions)):
            answers = self._actuator.growths.lower(request)
        return lowering_response(answers)

    def StartReplacement(
        self, request: actuator_pb2.StartReplacementRequest, context: grpc.ServicerContext
    ) -> actuator_pb2.StartReplacementResponse:
        """Start to replace nodes by new ones, in the background."""
        with self._call("start_replacement", request_id=request.request_id, nodes=len(request.wave.leaving)):
            self._actuator.processor.check_leading()
            return self._actuator.replacements.start(request)

    def CancelReplacement(
        self, request: actuator_pb2.CancelReplacementRequest, context: grpc.ServicerContext
    ) -> actuator_pb2.CancelReplacementResponse:
        """End replacements."""
        structlog.contextvars.bind_contextvars(replacements=len(request.request_ids))
        with backend_errors():
            self._actuator.processor.check_leading()
            cancelled, not_cancelled = self._actuator.replacements.cancel(request)
        return actuator_pb2.CancelReplacementResponse(cancelled=cancelled, not_cancelled=not_cancelled)

    def ApplyTaints(
        self, request: actuator_pb2.ApplyTaintsRequest, context: grpc.ServicerContext
    ) -> actuator_pb2.ApplyTaintsResponse:
        """Make the soft taints match the unneeded set."""
        check_nodes("unneeded_nodes", request.unneeded_nodes, may_be_empty=True)
        processor = self._actuator.processor
        with self._call("apply_taints", nodes=len(request.unneeded_nodes)):
            processor.check_leading()
            in_deletion = processor.read(lambda tracker, _: {*tracker.data.deletions, *participants(tracker.data)})
            result = apply_soft_taints(
                self._actuator.cluster,
                set(request.unneeded_nodes),
                in_deletion,
                self._actuator.settings.soft_taints,
                processor.now_ms() // 1000,
            )
            # Excludes nodes whose deletion began while the nodes were listed.
            unknown = processor.read(lambda tracker, _: result.hard_tainted - tracker.data.deletions.keys())
            self._actuator.metrics.on_unknown_taints(len(unknown))
        return actuator_pb2.ApplyTaintsResponse(
            tainted_count=result.tainted_count,
            untainted_count=result.untainted_count,
            left_count=result.left_count,
        )

    def ApplyPodCosts(
        self, request: actuator_pb2.ApplyPodCostsRequest, context: grpc.ServicerContext
    ) -> actuator_pb2.ApplyPodCostsResponse:
        """Write pod deletion costs."""
        orders = cost_orders(request, self._now())
        with self._call("apply_pod_costs", groups=len(orders.groups)):
            self._actuator.processor.check_leading()
            return apply_pod_costs(self._actuator.cluster, orders, self._actuator.settings.pod_costs)

    def ApplyBufferStatus(
        self, request: actuator_pb2.ApplyBufferStatusRequest, context: grpc.ServicerContext
    ) -> actuator_pb2.ApplyBufferStatusResponse:
        """Write the status of CapacityBuffers."""
        wanted = buffer_states(request)
        with self._call("apply_buffer_status", buffers=len(wanted)):
            self._actuator.processor.check_leading()
            return apply_buffer_status(self._actuator.cluster, wanted, self._actuator.settings.buffers, self._now())

    def ApplyCapacityStatus(
        self, request: actuator_pb2.ApplyCapacityStatusRequest, context: grpc.ServicerContext
    ) -> actuator_pb2.ApplyCapacityStatusResponse:
        """Write the conditions of ProvisioningRequests."""
        answers = capacity_answers(request)
        with self._call("apply_capacity_status", requests=len(answers)):
            self._actuator.processor.check_leading()
            self._actuator.processor.read(lambda tracker, _: check_epoch(request.epoch, tracker.data))
            return apply_capacity_status(self._actuator.cluster, answers, self._actuator.settings.capacity, self._now())

    def GetStatus(self, request: actuator_pb2.GetStatusRequest, context: grpc.ServicerContext) -> Any:
        """Return the status: a `GetStatusResponse`."""
        with backend_errors():
            status = self._actuator.status(not request.without_finished, request.with_instances)
        return status.response

    def WatchStatus(self, request: actuator_pb2.WatchStatusRequest, context: grpc.ServicerContext) -> Iterator[Any]:
        """Yield the status now and after each change: `WatchStatusResponse`s."""
        if request.known_revision < 0:
            raise invalid_request(f"known_revision {request.known_revision}: give the revision of a status, or 0")
        try:
            with self._watchers.place(current_caller().share) as place:
                yield from self._watch(request, context, place)
        finally:
            if self._watchers.is_empty:
                self._shared.forget()

    @contextmanager
    def _call(self, function: str, request_id: str = "", **sizes: int) -> Iterator[None]:
        """Log with a call's sizes, measure it, and convert its errors; a call with nothing in it is measured apart."""
        structlog.contextvars.bind_contextvars(**({"request_id": request_id} if request_id else {}), **sizes)
        with backend_errors(), self._actuator.metrics.timed(function, any(sizes.values())):
            yield

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._actuator.processor.now_ms() / 1000, UTC)

    def _watch(
        self, request: actuator_pb2.WatchStatusRequest, context: grpc.ServicerContext, place: Place
    ) -> Iterator[Any]:
        processor = self._actuator.processor
        context.add_callback(processor.wake_all)
        sent, took_s = request.known_revision or -1, 0.0
        base: StatusParts | None = None
        while context.is_active():
            if self._stopping.is_set():
                raise not_ready("the actuator is stopping; watch again shortly")
            place.check()
            revision = processor.wait_for_change(sent, IDLE_S)
            if revision == sent:
                continue
            if sent >= 0:
                self._stopping.wait(max(GATHER_S, GATHER_FACTOR * took_s))
            started_s = time.perf_counter()
            with backend_errors():
                status = self._shared.get(not request.without_finished, revision, base)
            with self._budget.reserve(len(status.response), IDLE_S) as is_reserved:
                if is_reserved:
                    sent = status.revision
                    base = status.parts if request.changes_only else None
                    yield status.response
            # Do not keep the sent status while nothing happens.
            del status
            took_s = min(time.perf_counter() - started_s, LONGEST_SEND_S)


@contextmanager
def backend_errors() -> Iterator[None]:
    """Convert errors of cluster, cloud and store into gRPC errors: the caller may retry, or call the leader."""
    try:
        yield
    except NotLeaderError as error:
        raise ServiceError(
            grpc.StatusCode.FAILED_PRECONDITION, Reason.NOT_LEADER, str(error), {"leader": error.leader}
        ) from error
    except StoppingError as error:
        raise ServiceError(grpc.StatusCode.UNAVAILABLE, Reason.BACKEND_UNAVAILABLE, str(error)) from error
    except ForbiddenError as error:
        raise ServiceError(grpc.StatusCode.PERMISSION_DENIED, Reason.PERMISSION_DENIED, str(error)) from error
    except StoreError as error:
        # Address and errors of the store are for the operator only.
        log.error("the store failed a call", detail=str(error))
        message = "the actuator's store has failed; its log says why"
        raise ServiceError(grpc.StatusCode.UNAVAILABLE, Reason.BACKEND_UNAVAILABLE, message) from error
    except (ClusterError, CloudError) as error:
        raise ServiceError(grpc.StatusCode.UNAVAILABLE, Reason.BACKEND_UNAVAILABLE, str(error)) from error


@cache
def _version() -> str:
    """Return the installed version, read from disk once."""
    return version("trimtab")
