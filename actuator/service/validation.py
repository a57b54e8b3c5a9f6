"""Validation of requests.

Decides from the request alone; every refusal names the field and the remedy. Sizes are bytes of UTF-8.
Source: the comments in `protos/trimtab/v1/actuator.proto`.
"""

import copy
import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime

import grpc

from trimtab.actuator.kube.cluster import BufferStatus
from trimtab.actuator.service.pod_cost_progress import CostOrders, GroupOrder
from trimtab.actuator.tracker.admission import NodeRequest
from trimtab.actuator.tracker.groups import RESERVED
from trimtab.actuator.tracker.states import GroupGrowth, TrackerData
from trimtab.common.kubernetes.names import RULE, is_label, is_subdomain
from trimtab.common.rpc.errors import Reason, ServiceError, invalid_request
from trimtab.v1 import actuator_pb2, plan_pb2

MAX_REQUEST_ID_BYTES = 128
MAX_NODES = 10_000
MAX_NAME_BYTES = 253
MAX_GANG_BYTES = 2 * MAX_NAME_BYTES + 1
MAX_GROWTH = 10_000
MAX_COSTS = 200_000
MAX_BUFFERS = 10_000
MAX_CAPACITY_REQUESTS = 10_000
DIGEST_LENGTH = 16


DurableRequest = (
    actuator_pb2.StartDeletionRequest
    | actuator_pb2.ScaleUpRequest
    | actuator_pb2.LowerTargetsRequest
    | actuator_pb2.StartReplacementRequest
)


def digest_request(request: DurableRequest) -> str:
    """Return a digest of a request's content, which distinguishes a repetition from another request with the same id.
    The caller is not included: a new leader may ask for the result of its predecessor's order.
    """
    content = copy.deepcopy(request)
    content.ClearField("epoch")
    return hashlib.sha256(content.SerializeToString(deterministic=True)).hexdigest()


def check_epoch(epoch: int, data: TrackerData) -> None:
    """Raise if an order comes from an earlier leadership term of its caller than the latest known one."""
    if epoch and epoch < data.epoch:
        raise ServiceError(
            grpc.StatusCode.FAILED_PRECONDITION,
            Reason.EPOCH_SUPERSEDED,
            f"the order has epoch {epoch}, and one of epoch {data.epoch} was accepted: the caller is no longer the "
            "leader",
            {"epoch": str(data.epoch)},
        )


def check_same(request_id: str, recorded: str, digest: str, method: str) -> None:
    """Raise if an id belongs to another request of the method: its digest is `recorded`."""
    if recorded != digest:
        raise ServiceError(
            grpc.StatusCode.ALREADY_EXISTS,
            Reason.REQUEST_ID_REUSED,
            f"request_id {request_id} was used for another {method}; use a new one",
            {"request_id": request_id},
        )


def check_request_id(request_id: str) -> None:
    """Raise unless the id may be used."""
    size = len(request_id.encode())
    if not 1 <= size <= MAX_REQUEST_ID_BYTES:
        raise invalid_request(
            f"request_id has {size} bytes; give one of 1 to {MAX_REQUEST_ID_BYTES}", field="request_id"
        )
    for prefix in RESERVED:
        if request_id.startswith(prefix):
            raise invalid_request(
                f"request_id begins with {prefix}, which is reserved for the actuator's own requests; give another one",
                field="request_id",
            )


def node_requests(request: actuator_pb2.StartDeletionRequest) -> list[NodeRequest]:
    """Return the nodes of a `StartDeletion`, checked."""
    check_request_id(request.request_id)
    check_nodes("nodes", [entry.node for entry in request.nodes])
    for field in ("max_parallelism", "max_drain_parallelism", "epoch"):
        if getattr(request, field) < 0:
            raise invalid_request(f"{field} is {getattr(request, field)}; give 0 or more", field=field)
    if request.HasField("plan_time"):
        check_time(request)
    return [_node_request(position, entry) for position, entry in enumerate(request.nodes)]


def growths(request: actuator_pb2.ScaleUpRequest) -> tuple[GroupGrowth, ...]:
    """Return the splits of a `ScaleUp`, checked."""
    check_request_id(request.request_id)
    check_names("splits", [split.node_group for split in request.splits])
    found = []
    for position, split in enumerate(request.splits):
        delta = split.new_size - split.current_size
        if split.current_size < 0 or not 1 <= delta <= MAX_GROWTH:
            raise invalid_request(
                f"splits[{position}] ({split.node_group}): from {split.current_size} to {split.new_size} is not a"
                f" growth of 1 to {MAX_GROWTH} nodes",
                field="splits",
                row=str(position),
            )
        found.append(GroupGrowth(split.node_group, split.current_size, split.new_size))
    return tuple(found)


def reductions(request: actuator_pb2.LowerTargetsRequest) -> tuple[GroupGrowth, ...]:
    """Return the reductions of a `LowerTargets`, checked."""
    check_request_id(request.request_id)
    check_names("reductions", [one.node_group for one in request.reductions])
    for position, one in enumerate(request.reductions):
        if not 0 <= one.new_size < one.current_size:
            raise invalid_request(
                f"reductions[{position}] ({one.node_group}): from {one.current_size} to {one.new_size} is not a"
                " reduction to 0 nodes or more",
                field="reductions",
                row=str(position),
            )
    return tuple(GroupGrowth(one.node_group, one.current_size, one.new_size) for one in request.reductions)


def _costs(group: plan_pb2.PodCostGroup) -> dict[str, int]:
    """Return the costs by pod, sorted. Raises unless there is one for each pod."""
    if len(group.pods) != len(group.costs) or len(set(group.pods)) != len(group.pods):
        message = f"groups.costs: {group.owner[:100]} has {len(group.costs)} costs for {len(set(group.pods))} pods"
        raise invalid_request(message, field="groups.costs")
    return dict(sorted(zip(group.pods, group.costs, strict=True)))


def cost_orders(request: actuator_pb2.ApplyPodCostsRequest, now: datetime) -> CostOrders:
    """Return the costs of an `ApplyPodCosts`, checked: groups in order, the pods of each by name, and removals."""
    groups = [
        GroupOrder(group.owner, _costs(group), group.ranked_after_each_removal, group.waits_for)
        for group in request.groups
    ]
    orders = CostOrders(groups, list(request.remove), request.remove_others, _moment(request, now))
    count = len(orders.pods())
    if count > MAX_COSTS or not (count or request.remove_others or request.groups):
        raise invalid_request(f"the request names {count} pods; give 1 to {MAX_COSTS:,}", field="groups")
    for group in groups:
        _check_owner(group)
    seen: set[str] = set()
    removed_from = count - len(orders.remove)
    for place, pod in enumerate(orders.pods()):
        field = "groups.costs" if place < removed_from else "remove"
        namespace, slash, name = pod.partition("/")
        if not slash or not is_label(namespace) or not is_subdomain(name):
            raise invalid_request(
                f"{field}: {pod[:100]!r} is not a pod; write namespace/name, each of {RULE}", field=field
            )
        if pod in seen:
            raise invalid_request(f"{field}: {pod} was given before", field=field)
        seen.add(pod)
    return orders


def buffer_states(request: actuator_pb2.ApplyBufferStatusRequest) -> dict[str, BufferStatus]:
    """Return the states in an `ApplyBufferStatus`, checked, by "namespace/name" of the buffer."""
    if len(request.buffers) > MAX_BUFFERS:
        raise invalid_request(f"{len(request.buffers)} buffers; give at most {MAX_BUFFERS:,}", field="buffers")
    statuses: dict[str, BufferStatus] = {}
    for buffer in request.buffers:
        kind, _, key = buffer.object.partition("/")
        namespace, _, name = key.partition("/")
        if kind != "CapacityBuffer" or not is_label(namespace) or not is_subdomain(name):
            message = f"buffers.object: {buffer.object[:100]!r} is not a buffer; write CapacityBuffer/namespace/name"
            raise invalid_request(message, field="buffers.object")
        if key in statuses:
            raise invalid_request(f"buffers.object: {key} was given before", field="buffers.object")
        if not 0 <= buffer.present_count <= buffer.asked_count:
            raise invalid_request(
                f"buffers.present_count: {key} has {buffer.present_count} of {buffer.asked_count}; "
                "give 0 to asked_count",
                field="buffers.present_count",
            )
        statuses[key] = BufferStatus(buffer.asked_count, buffer.present_count, buffer.problem)
    return statuses


def capacity_answers(request: actuator_pb2.ApplyCapacityStatusRequest) -> Sequence[plan_pb2.CapacityRequestAnswer]:
    """Return the answers in an `ApplyCapacityStatus`, checked."""
    if len(request.requests) > MAX_CAPACITY_REQUESTS:
        message = f"{len(request.requests)} requests; give at most {MAX_CAPACITY_REQUESTS:,}"
        raise invalid_request(message, field="requests")
    seen: set[tuple[str, str]] = set()
    for one in request.requests:
        if not is_label(one.namespace) or not is_subdomain(one.name):
            message = f"requests.name: {f'{one.namespace}/{one.name}'[:100]!r} is no name of an object; use {RULE}"
            raise invalid_request(message, field="requests.name")
        if (one.namespace, one.name) in seen:
            message = f"requests.name: {one.namespace}/{one.name} was given before"
            raise invalid_request(message, field="requests.name")
        seen.add((one.namespace, one.name))
    return request.requests


def _check_owner(group: GroupOrder) -> None:
    kind, _, rest = group.owner.partition("/")
    namespace, _, name = rest.partition("/")
    if not kind.isalnum() or not is_label(namespace) or not is_subdomain(name):
        raise invalid_request(
            f"groups.owner: {group.owner[:100]!r} is not an owner; write Kind/namespace/name", field="groups.owner"
        )


def _moment(request: actuator_pb2.ApplyPodCostsRequest, now: datetime) -> str:
    """Return the time when costs were decided, RFC 3339 in whole seconds."""
    if request.HasField("plan_time"):
        check_time(request)
        now = request.plan_time.ToDatetime(UTC)
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")


def check_names(field: str, names: Sequence[str], may_be_empty: bool = False) -> None:
    """Raise unless there are 1 (or 0) to 10,000 names, all usable and distinct."""
    if not names and not may_be_empty:
        raise invalid_request(f"{field} is empty; give at least one", field=field)
    if len(names) > MAX_NODES:
        raise invalid_request(f"{field} has {len(names)} entries; give at most {MAX_NODES:,}", field=field)
    seen: dict[str, int] = {}
    for position, name in enumerate(names):
        if not 1 <= len(name.encode()) <= MAX_NAME_BYTES:
            raise invalid_request(
                f"{field}[{position}]: a name has 1 to {MAX_NAME_BYTES} bytes", field=field, row=str(position)
            )
        if name in seen:
            raise invalid_request(
                f"{field}[{position}]: {name} was given before, at {seen[name]}", field=field, row=str(position)
            )
        seen[name] = position


def check_nodes(field: str, names: Sequence[str], may_be_empty: bool = False) -> None:
    """Raise unless there are 1 (or 0) to 10,000 distinct node names, valid in Kubernetes."""
    check_names(field, names, may_be_empty)
    for position, name in enumerate(names):
        if not is_subdomain(name):
            raise invalid_request(
                f"{field}[{position}]: {name[:100]!r} is not the name of a node; names have {RULE}",
                field=field,
                row=str(position),
            )


def _node_request(position: int, entry: actuator_pb2.NodeToDelete) -> NodeRequest:
    if len(entry.gang.encode()) > MAX_GANG_BYTES or (entry.gang and not entry.drain):
        problem = f"has more than {MAX_GANG_BYTES} bytes" if entry.drain else "needs drain: a gang moves by drains"
        raise invalid_request(
            f"nodes[{position}] ({entry.node}): gang {problem}", field="nodes.gang", row=str(position)
        )
    if not entry.HasField("assumption"):
        return NodeRequest(entry.node, entry.drain, gang=entry.gang)
    check_assumption("nodes", position, entry)
    assumption = entry.assumption
    return NodeRequest(
        entry.node, entry.drain, assumption.pods_to_move_count, assumption.pods_to_move_digest, entry.gang
    )


def check_assumption(field: str, position: int, entry: actuator_pb2.NodeToDelete | plan_pb2.ReplacedNode) -> None:
    """Raise unless what a plan assumes of a node has a count and a digest."""
    count, digest = entry.assumption.pods_to_move_count, entry.assumption.pods_to_move_digest
    if count < 0 or len(digest) != DIGEST_LENGTH or not set(digest) <= set("0123456789abcdef"):
        raise invalid_request(
            f"{field}[{position}] ({entry.node}): assumption needs a count of 0 or more and a digest of"
            f" {DIGEST_LENGTH} hex digits",
            field=f"{field}.assumption",
            row=str(position),
        )


def check_time(
    request: actuator_pb2.StartDeletionRequest
    | actuator_pb2.ApplyPodCostsRequest
    | actuator_pb2.StartReplacementRequest,
) -> None:
    """Raise unless the time of the plan is a time."""
    try:
        request.plan_time.ToDatetime()
    except (ValueError, OverflowError) as error:
        raise invalid_request(f"plan_time is not a time: {error}", field="plan_time") from error
