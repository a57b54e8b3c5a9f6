"""A client of the actuator: its RPCs as methods, with retries and readable errors.

Every call may be repeated (requests carry an id), so calls are retried while the service is unavailable. All methods
raise `TrimtabError`. Timeouts in seconds.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from trimtab.clients.followed_status import FollowedStatus
from trimtab.common.rpc.channel_security import ChannelSecurity
from trimtab.common.rpc.client import ServiceConnection, stream
from trimtab.common.rpc.retries import RetryPolicy
from trimtab.v1 import actuator_pb2, actuator_pb2_grpc, plan_pb2

T = TypeVar("T")


class ActuatorCalls:
    """The calls of one actuator as methods; whoever has the actuator says how one is made."""

    def __init__(self) -> None:
        # The term of our leadership, sent with orders; 0 = none. Set by the leader election.
        self.epoch: Callable[[], int] = int

    def _call(self, rpc: str, request: Message, answer: type[T]) -> T:
        """Make one call; answer : the type of what it returns."""
        raise NotImplementedError

    def get_info(self) -> actuator_pb2.GetActuatorInfoResponse:
        """Return the actuator's capabilities."""
        return self._call("GetInfo", actuator_pb2.GetActuatorInfoRequest(), actuator_pb2.GetActuatorInfoResponse)

    def start_deletion(self, request: actuator_pb2.StartDeletionRequest) -> actuator_pb2.StartDeletionResponse:
        """Start deletions; repeat with the same `request_id` if the answer is lost."""
        request.epoch = request.epoch or self.epoch()
        return self._call("StartDeletion", request, actuator_pb2.StartDeletionResponse)

    def cancel_deletion(self, nodes: Iterable[str], reason: str = "") -> actuator_pb2.CancelDeletionResponse:
        """Stop deletions."""
        request = actuator_pb2.CancelDeletionRequest(nodes=nodes, reason=reason)
        return self._call("CancelDeletion", request, actuator_pb2.CancelDeletionResponse)

    def scale_up(self, request_id: str, splits: Sequence[plan_pb2.ScaleUpSplit]) -> actuator_pb2.ScaleUpResponse:
        """Grow node groups."""
        request = actuator_pb2.ScaleUpRequest(request_id=request_id, splits=splits, epoch=self.epoch())
        return self._call("ScaleUp", request, actuator_pb2.ScaleUpResponse)

    def lower_targets(
        self, request_id: str, reductions: Sequence[actuator_pb2.TargetReduction]
    ) -> actuator_pb2.LowerTargetsResponse:
        """Lower target sizes by nodes that have not started."""
        request = actuator_pb2.LowerTargetsRequest(request_id=request_id, reductions=reductions, epoch=self.epoch())
        return self._call("LowerTargets", request, actuator_pb2.LowerTargetsResponse)

    def start_replacement(self, request: actuator_pb2.StartReplacementRequest) -> actuator_pb2.StartReplacementResponse:
        """Start to replace nodes by new ones; repeat with the same `request_id` if the answer is lost."""
        request.epoch = request.epoch or self.epoch()
        return self._call("StartReplacement", request, actuator_pb2.StartReplacementResponse)

    def cancel_replacement(
        self, request_ids: Iterable[str], reason: str = ""
    ) -> actuator_pb2.CancelReplacementResponse:
        """End replacements."""
        request = actuator_pb2.CancelReplacementRequest(request_ids=request_ids, reason=reason)
        return self._call("CancelReplacement", request, actuator_pb2.CancelReplacementResponse)

    def apply_taints(self, unneeded_nodes: Iterable[str]) -> actuator_pb2.ApplyTaintsResponse:
        """Make soft taints match the set of unneeded nodes."""
        request = actuator_pb2.ApplyTaintsRequest(unneeded_nodes=unneeded_nodes)
        return self._call("ApplyTaints", request, actuator_pb2.ApplyTaintsResponse)

    def apply_pod_costs(
        self,
        groups: Sequence[plan_pb2.PodCostGroup],
        plan_time: Timestamp | None = None,
        remove_others: bool = False,
    ) -> actuator_pb2.ApplyPodCostsResponse:
        """Write pod deletion costs; with `remove_others`, remove ours from all pods whose owner is not in `groups`."""
        request = actuator_pb2.ApplyPodCostsRequest(groups=groups, plan_time=plan_time, remove_others=remove_others)
        return self._call("ApplyPodCosts", request, actuator_pb2.ApplyPodCostsResponse)

    def apply_buffer_status(self, buffers: Sequence[plan_pb2.SlackObject]) -> actuator_pb2.ApplyBufferStatusResponse:
        """Write the status of CapacityBuffers."""
        request = actuator_pb2.ApplyBufferStatusRequest(buffers=buffers)
        return self._call("ApplyBufferStatus", request, actuator_pb2.ApplyBufferStatusResponse)

    def apply_capacity_status(
        self, answers: Sequence[plan_pb2.CapacityRequestAnswer]
    ) -> actuator_pb2.ApplyCapacityStatusResponse:
        """Write the conditions of ProvisioningRequests."""
        request = actuator_pb2.ApplyCapacityStatusRequest(requests=answers, epoch=self.epoch())
        return self._call("ApplyCapacityStatus", request, actuator_pb2.ApplyCapacityStatusResponse)

    def get_status(self, without_finished: bool = False, with_instances: bool = False) -> actuator_pb2.ActuatorStatus:
        """Return the whole status; with `with_instances`, also the instances of each node group."""
        request = actuator_pb2.GetStatusRequest(without_finished=without_finished, with_instances=with_instances)
        return self._call("GetStatus", request, actuator_pb2.GetStatusResponse).status


class ActuatorClient(ActuatorCalls, ServiceConnection):
    """A connection to one actuator. Use as a context manager."""

    SERVICE = "trimtab.v1.Actuator"

    def __init__(
        self,
        address: str,
        policy: RetryPolicy | None = None,
        timeout_s: float = 120.0,
        security: ChannelSecurity | None = None,
    ) -> None:
        """Connect lazily to "host:port".

        security : None = from the environment (TRIMTAB_TLS_CA, …). Errors: ValueError, OSError.
        """
        ActuatorCalls.__init__(self)
        ServiceConnection.__init__(self, address, policy, timeout_s, security)
        self._stub = actuator_pb2_grpc.ActuatorStub(self._channel)
        self._embedded = actuator_pb2_grpc.EmbeddedClusterStub(self._channel)

    def _call(self, rpc: str, request: Message, answer: type[T]) -> T:
        del answer
        method: Callable[..., T] = getattr(self._stub, rpc)
        return self._invoke(lambda: method(request, timeout=self._timeout_s))

    def watch_status(self, without_finished: bool = False) -> Iterator[actuator_pb2.ActuatorStatus]:
        """Yield the status now and after each change, until the caller stops or the connection fails.

        Only changes are sent; each status yielded is complete nevertheless.
        """
        request = actuator_pb2.WatchStatusRequest(without_finished=without_finished, changes_only=True)
        followed = FollowedStatus()
        for response in stream(lambda: self._stub.WatchStatus(request)):
            followed.apply(response)
            yield followed.status()

    def list_objects(self) -> bytes:
        """Return all objects of an embedded cluster, as the JSON of one Kubernetes `List`."""
        request = actuator_pb2.ListObjectsRequest()
        return self._invoke(
            lambda: b"".join(piece.json for piece in self._embedded.ListObjects(request, timeout=self._timeout_s))
        )

    def scale_replica_set(self, namespace: str, name: str, replicas: int) -> None:
        """Set the number of pods of a ReplicaSet in an embedded cluster."""
        request = actuator_pb2.ScaleReplicaSetRequest(namespace=namespace, name=name, replicas=replicas)
        self._invoke(lambda: self._embedded.ScaleReplicaSet(request, timeout=self._timeout_s))
