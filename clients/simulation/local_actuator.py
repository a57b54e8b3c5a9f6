"""The actuator in this process, as called by the loop: no connection, no thread, and virtual time while it works.

The calls are those of the service; while the service would wait for an answer, virtual time advances.
Raises TrimtabError, like a client.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from google.protobuf.message import Message
from opentelemetry.metrics import NoOpMeter

from trimtab.actuator.cloud.provider import CloudProvider
from trimtab.actuator.service.app import Actuator, Runtime
from trimtab.actuator.service.deletions import deletion_response
from trimtab.actuator.service.growth import growth_response, lowering_response
from trimtab.actuator.service.servicer import ActuatorServicer
from trimtab.actuator.service.settings import ActuatorSettings
from trimtab.actuator.store.records import MemoryStore
from trimtab.actuator.tracker.events import Event, NodesCounted, TimeNoted
from trimtab.actuator.tracker.tracker import Tracker
from trimtab.clients.actuator_client import ActuatorCalls
from trimtab.clients.loop.replacing import in_progress
from trimtab.clients.simulation.cloud.provider import MemoryCloud
from trimtab.clients.simulation.cluster.cluster import SimulatedCluster
from trimtab.clients.simulation.virtual_time import VirtualTime
from trimtab.common.rpc.errors import errors_of_clients
from trimtab.v1 import actuator_pb2, plan_pb2

T = TypeVar("T")


class LocalActuator(ActuatorCalls):
    """An actuator over a simulated cluster."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        time: VirtualTime,
        settings: ActuatorSettings,
        cloud: CloudProvider | None = None,
    ) -> None:
        """Start the actuator. `cloud` None = the cluster's own."""
        super().__init__()
        runtime = Runtime(time.clock, time.clock, time.make_pool)
        self._time = time
        self._actuator = Actuator(
            MemoryStore(), cluster, cloud or MemoryCloud(cluster), NoOpMeter("simulator"), settings, runtime
        )
        self._servicer = ActuatorServicer(self._actuator)
        self._status = actuator_pb2.ActuatorStatus()
        self._has_changed = True
        self._actuator.processor.listeners.append(self._note)
        self._actuator.start()
        time.add(self._actuator.node_group_loop())

    @property
    def has_changed(self) -> bool:
        """Return whether the status has changed since it was last read."""
        return self._has_changed

    def _note(self, event: Event, tracker: Tracker, now_ms: int) -> None:
        """Note an event, unless only the limit per hour rests on it: the status does not show such events."""
        del tracker, now_ms
        self._has_changed |= not isinstance(event, TimeNoted | NodesCounted)

    @property
    def is_idle(self) -> bool:
        """Return whether, by the last status, no node is being deleted or replaced and no pod was recently evicted."""
        status = self._status
        return not status.deletions and not status.recent_evictions and not in_progress(status)

    def get_status(self, without_finished: bool = False, with_instances: bool = False) -> actuator_pb2.ActuatorStatus:
        """Return the whole status."""
        self._has_changed = False
        self._status = self._actuator.status(not without_finished, with_instances).message()
        return self._status

    def start_deletion(self, request: actuator_pb2.StartDeletionRequest) -> actuator_pb2.StartDeletionResponse:
        """Start deletions."""
        with errors_of_clients():
            self._actuator.deletions.begin(request)
            return deletion_response(self._wait(lambda: self._actuator.deletions.answers(request)))

    def scale_up(self, request_id: str, splits: Sequence[plan_pb2.ScaleUpSplit]) -> actuator_pb2.ScaleUpResponse:
        """Grow node groups."""
        with errors_of_clients():
            self._actuator.growths.begin(actuator_pb2.ScaleUpRequest(request_id=request_id, splits=splits))
            return growth_response(self._wait(lambda: self._actuator.growths.answers(request_id)))

    def lower_targets(
        self, request_id: str, reductions: Sequence[actuator_pb2.TargetReduction]
    ) -> actuator_pb2.LowerTargetsResponse:
        """Lower target sizes by nodes that have not started."""
        with errors_of_clients():
            request = actuator_pb2.LowerTargetsRequest(request_id=request_id, reductions=reductions)
            record_id = self._actuator.growths.begin_lowering(request)
            return lowering_response(self._wait(lambda: self._actuator.growths.answers(record_id)))

    def _call(self, rpc: str, request: Message, answer: type[T]) -> T:
        del answer
        method: Callable[..., T] = getattr(self._servicer, rpc)
        with errors_of_clients():
            return method(request, None)

    def _wait(self, answers: Callable[[], T | None]) -> T:
        """Run the actuator until it answers."""
        while (found := answers()) is None:
            if not self._time.step():
                raise AssertionError("the actuator has nothing to do and has not answered")
        return found
