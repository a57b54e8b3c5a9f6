"""The service `clusterautoscaler.cloudprovider.v1.externalgrpc.CloudProvider`: 15 calls of the Cluster Autoscaler.

Decides how they become reads from memory and orders in the journal. Answers stay below the 4 MiB that the Cluster
Autoscaler accepts. `Cleanup` does nothing: work goes on without the caller.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import grpc
import structlog
from google.protobuf import any_pb2
from google.protobuf.message import DecodeError, Message

from trimtab.actuator.cloud.externalgrpc.messages import (
    GROUP_ANNOTATION,
    changes_defaults,
    filled_options,
    hours,
    instance_message,
    lacks_startup_time,
    node_bytes,
)
from trimtab.actuator.cloud.provider import CloudNodeTemplate, CloudRefusedError, GroupOptions, Instance, NodeGroupView
from trimtab.actuator.service.app import Actuator
from trimtab.actuator.service.external.cloud_cache import CloudCache, CloudState, DeletionRoom, pod_price
from trimtab.actuator.service.external.orders import ExternalOrders, NodeToDelete
from trimtab.actuator.service.servicer import backend_errors
from trimtab.clusterautoscaler.externalgrpc import cloud_provider_pb2 as pb
from trimtab.clusterautoscaler.externalgrpc import cloud_provider_pb2_grpc as pb_grpc
from trimtab.common.rpc.errors import Reason, ServiceError, invalid_request
from trimtab.common.rpc.server import Registration
from trimtab.k8s.v1 import core_pb2

log = structlog.get_logger("externalgrpc")

M = TypeVar("M", bound=Message)

SERVICE: Final = "clusterautoscaler.cloudprovider.v1.externalgrpc.CloudProvider"
# A loop of the Cluster Autoscaler makes hundreds of these.
ROUTINE: Final = frozenset(
    (
        "NodeGroups",
        "NodeGroupForNode",
        "NodeGroupTargetSize",
        "NodeGroupNodes",
        "NodeGroupTemplateNodeInfo",
        "NodeGroupGetOptions",
        "PricingNodePrice",
        "PricingPodPrice",
    )
)
# The Cluster Autoscaler accepts 4 MiB, framing included.
MAX_ANSWER_BYTES: Final = (4 << 20) - (64 << 10)


class ExternalServicer(pb_grpc.CloudProviderServicer):
    """See `protos/trimtab/clusterautoscaler/externalgrpc/cloud_provider.proto`."""

    def __init__(self, actuator: Actuator) -> None:
        self._cloud = actuator.cloud
        # What was warned of, by event and group; of the startup time once.
        self._warned: set[tuple[str, str]] = set()
        self._cache = CloudCache(actuator.cloud, actuator.offered)
        actuator.processor.listeners.append(self._cache.on_event)
        self._room = DeletionRoom(actuator.processor, actuator.settings.present_limits)
        self._orders = ExternalOrders(
            actuator.processor, actuator.cluster, actuator.cloud, limits=actuator.settings.present_limits
        )

    def NodeGroups(self, request: pb.NodeGroupsRequest, context: grpc.ServicerContext) -> pb.NodeGroupsResponse:
        """Return all node groups."""
        groups = [_group_message(group) for _, group in sorted(self._bounded_groups(self._state()).items())]
        return _bounded(pb.NodeGroupsResponse(node_groups=groups), "the list of node groups")

    def NodeGroupForNode(
        self, request: pb.NodeGroupForNodeRequest, context: grpc.ServicerContext
    ) -> pb.NodeGroupForNodeResponse:
        """Return the group of a node; one without id = in no group."""
        state = self._state()
        group = self._bounded_groups(state).get(_group_of(request.node, state))
        return pb.NodeGroupForNodeResponse(node_group=_group_message(group) if group else pb.NodeGroup())

    def NodeGroupTargetSize(
        self, request: pb.NodeGroupTargetSizeRequest, context: grpc.ServicerContext
    ) -> pb.NodeGroupTargetSizeResponse:
        """Return the target size."""
        return pb.NodeGroupTargetSizeResponse(target_size=self._group(request.id).target_size)

    def NodeGroupNodes(
        self, request: pb.NodeGroupNodesRequest, context: grpc.ServicerContext
    ) -> pb.NodeGroupNodesResponse:
        """Return the instances, registered or not."""
        group = self._group(request.id).id
        instances = self._state().instances[group]
        answer = pb.NodeGroupNodesResponse(instances=[instance_message(instance) for instance in instances])
        if answer.ByteSize() > MAX_ANSWER_BYTES:
            answer = pb.NodeGroupNodesResponse(instances=[_short(instance) for instance in instances])
        return _bounded(answer, f"the list of instances of node group {group}")

    def NodeGroupTemplateNodeInfo(
        self, request: pb.NodeGroupTemplateNodeInfoRequest, context: grpc.ServicerContext
    ) -> pb.NodeGroupTemplateNodeInfoResponse:
        """Return a new node, never an empty answer, which the Cluster Autoscaler could not read."""
        group = self._group(request.id).id
        with backend_errors():
            template = self._cache.template(group)
        if template is None:
            raise _unknown(f"the template of node group {group}")
        node = node_bytes(template, group)
        return pb.NodeGroupTemplateNodeInfoResponse(node_info=node, node_bytes=node)

    def NodeGroupGetOptions(self, request: pb.NodeGroupAutoscalingOptionsRequest, context: grpc.ServicerContext) -> Any:
        """Return the options; none if the group sets none that differ from the defaults, which the caller then takes.

        Returns the bytes of a `NodeGroupAutoscalingOptionsResponse`: the caller asks several times a loop for a node.
        """
        group = self._group(request.id).id

        def encode(options: GroupOptions) -> bytes:
            answer = pb.NodeGroupAutoscalingOptionsResponse()
            if changes_defaults(options, request.defaults):
                self._warn_of_options(group, options, request.defaults)
                answer.node_group_autoscaling_options.CopyFrom(filled_options(options, request.defaults))
            return answer.SerializeToString()

        with backend_errors():
            return self._cache.options_answer(group, request.defaults.SerializeToString(deterministic=True), encode)

    def PricingNodePrice(
        self, request: pb.PricingNodePriceRequest, context: grpc.ServicerContext
    ) -> pb.PricingNodePriceResponse:
        """Return the price of a node's group over a time."""
        group = _group_of(request.node, self._state())
        with backend_errors():
            price = self._cache.price_per_hour(group) if group else None
        if price is None:
            raise _unknown(f"the price of node {request.node.name}")
        return pb.PricingNodePriceResponse(price=price * _hours(request))

    def PricingPodPrice(
        self, request: pb.PricingPodPriceRequest, context: grpc.ServicerContext
    ) -> pb.PricingPodPriceResponse:
        """Return the least price of the share of a node that a pod takes."""
        try:
            pod = core_pb2.Pod.FromString(request.pod_bytes or request.pod)
            with backend_errors():
                price = pod_price(pod, self._priced())
        except (DecodeError, ValueError) as error:
            raise invalid_request(f"pod_bytes is not a Pod: {error}", field="pod_bytes") from error
        if price is None:
            raise _unknown(f"the price of pod {pod.metadata.namespace}/{pod.metadata.name}")
        return pb.PricingPodPriceResponse(price=price * _hours(request))

    def GPULabel(self, request: pb.GPULabelRequest, context: grpc.ServicerContext) -> pb.GPULabelResponse:
        """Return the cloud's label for GPU types."""
        with backend_errors():
            return pb.GPULabelResponse(label=self._cloud.gpu_label)

    def GetAvailableGPUTypes(
        self, request: pb.GetAvailableGPUTypesRequest, context: grpc.ServicerContext
    ) -> pb.GetAvailableGPUTypesResponse:
        """Return the GPU types in the templates."""
        with backend_errors():
            label = self._cloud.gpu_label
            templates = [self._cache.template(group) for group in self._cache.state().groups]
        types = {template.labels[label] for template in templates if template is not None and label in template.labels}
        return pb.GetAvailableGPUTypesResponse(gpu_types={name: any_pb2.Any() for name in sorted(types)})

    def Cleanup(self, request: pb.CleanupRequest, context: grpc.ServicerContext) -> pb.CleanupResponse:
        """Do nothing."""
        return pb.CleanupResponse()

    def Refresh(self, request: pb.RefreshRequest, context: grpc.ServicerContext) -> pb.RefreshResponse:
        """Read the cloud again."""
        with backend_errors():
            self._cache.refresh()
        return pb.RefreshResponse()

    def NodeGroupIncreaseSize(
        self, request: pb.NodeGroupIncreaseSizeRequest, context: grpc.ServicerContext
    ) -> pb.NodeGroupIncreaseSizeResponse:
        """Raise the target size."""
        structlog.contextvars.bind_contextvars(node_group=request.id, delta=request.delta)
        with backend_errors():
            self._orders.increase(request.id, request.delta)
        return pb.NodeGroupIncreaseSizeResponse()

    def NodeGroupDeleteNodes(
        self, request: pb.NodeGroupDeleteNodesRequest, context: grpc.ServicerContext
    ) -> pb.NodeGroupDeleteNodesResponse:
        """Delete nodes."""
        structlog.contextvars.bind_contextvars(node_group=request.id, nodes=len(request.nodes))
        orders: dict[str, NodeToDelete] = {}
        for position, node in enumerate(request.nodes):
            if not node.provider_id or not node.name:
                raise invalid_request(f"nodes[{position}]: name and providerID are required", field="nodes")
            orders.setdefault(node.provider_id, NodeToDelete(node.name, node.provider_id))
        with backend_errors():
            self._orders.delete(request.id, list(orders.values()))
        return pb.NodeGroupDeleteNodesResponse()

    def NodeGroupDecreaseTargetSize(
        self, request: pb.NodeGroupDecreaseTargetSizeRequest, context: grpc.ServicerContext
    ) -> pb.NodeGroupDecreaseTargetSizeResponse:
        """Lower the target size by instances that have not started."""
        structlog.contextvars.bind_contextvars(node_group=request.id, delta=request.delta)
        with backend_errors():
            try:
                self._orders.decrease(request.id, request.delta)
            except CloudRefusedError as error:
                raise invalid_request(str(error), field="delta") from error
            finally:
                self._cache.changed()
        return pb.NodeGroupDecreaseTargetSizeResponse()

    def _warn_of_options(self, group: str, options: GroupOptions, defaults: pb.NodeGroupAutoscalingOptions) -> None:
        """Log what options do in the Cluster Autoscaler that nobody expects."""
        if lacks_startup_time(defaults):
            self._warn_once(
                "options_without_startup_time",
                "",
                node_group=group,
                detail="with any option of its own, a group has a --max-node-startup-time of 0 in the Cluster"
                " Autoscaler since 1.35: its nodes count as unready until they are ready; set options by the caller's"
                " flags instead",
            )
        if options.zero_or_max:
            self._warn_once(
                "all_or_nothing_group_never_shrinks",
                group,
                node_group=group,
                detail="behind its external provider the Cluster Autoscaler grows such a group as a whole and never"
                " shrinks it, since it takes each of its nodes for one of another group; lower its size by hand",
            )

    def _warn_once(self, event: str, about: str, **fields: str) -> None:
        if (event, about) not in self._warned:
            self._warned.add((event, about))
            log.warning(event, **fields)

    def _bounded_groups(self, state: CloudState) -> Mapping[str, NodeGroupView]:
        """Return groups with minimums that keep the caller from draining what may not be deleted now."""
        with backend_errors():
            return self._room.bounded(state.groups)

    def _state(self) -> CloudState:
        with backend_errors():
            return self._cache.state()

    def _group(self, group: str) -> NodeGroupView:
        view = self._state().groups.get(group)
        if view is None:
            raise ServiceError(grpc.StatusCode.NOT_FOUND, Reason.NOT_FOUND, f"node group {group} does not exist")
        return view

    def _priced(self) -> list[tuple[CloudNodeTemplate, float]]:
        """Return templates and prices of the groups that have both."""
        found = []
        for group in self._cache.state().groups:
            template, price = self._cache.template(group), self._cache.price_per_hour(group)
            if template is not None and price is not None:
                found.append((template, price))
        return found


def external_registration(actuator: Actuator) -> Registration:
    """Return the service of an actuator, to be added to a server."""
    return Registration(pb_grpc.add_CloudProviderServicer_to_server, ExternalServicer(actuator), SERVICE, ROUTINE)


def _group_message(group: NodeGroupView) -> pb.NodeGroup:
    debug = f"{group.id}: {group.target_size} nodes wanted, {group.instance_count} there"
    return pb.NodeGroup(id=group.id, min_size=group.min_size, max_size=group.max_size, debug=debug)


def _group_of(node: pb.ExternalGrpcNode, state: CloudState) -> str:
    """Return the group of a node, or of one of our templates; "" = none."""
    if node.provider_id:
        return state.group_of.get(node.provider_id, "")
    annotations: Mapping[str, str] = node.annotations
    return annotations.get(GROUP_ANNOTATION, "")


def _short(instance: Instance) -> pb.Instance:
    """Return an instance without the text of its error."""
    error = instance.error
    return instance_message(instance._replace(error=error and error._replace(message="")))


def _bounded(answer: M, what: str) -> M:
    """Return an answer small enough for the caller. Raises `ServiceError`."""
    if answer.ByteSize() > MAX_ANSWER_BYTES:
        message = f"{what} has {answer.ByteSize()} bytes, more than the Cluster Autoscaler accepts"
        raise ServiceError(grpc.StatusCode.RESOURCE_EXHAUSTED, Reason.LIMIT_EXCEEDED, message)
    return answer


def _hours(request: pb.PricingNodePriceRequest | pb.PricingPodPriceRequest) -> float:
    """Return the number of hours for which a price is requested. Raises `ServiceError`."""
    try:
        return hours(request)
    except ValueError as error:
        raise invalid_request(f"a timestamp is invalid: {error}", field="end_timestamp") from error


def _unknown(what: str) -> ServiceError:
    """Return the error that the Cluster Autoscaler takes for "not known": unimplemented."""
    return ServiceError(grpc.StatusCode.UNIMPLEMENTED, Reason.DECISION_UNAVAILABLE, f"{what} is not known")
