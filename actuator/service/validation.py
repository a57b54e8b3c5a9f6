"""Validation of requests.

Decides from the request alone; every refusal names the field and the remedy. Sizes are bytes of UTF-8; prices are
those of one node for one hour.
Source: the comments in `protos/trimtab/v1/actuator.proto`.
"""

import copy
import hashlib
import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final

import grpc

from trimtab.actuator.service.pod_costs import CostOrders, GroupOrder
from trimtab.actuator.tracker.admission import NodeRequest
from trimtab.actuator.tracker.groups import RESERVED
from trimtab.actuator.tracker.replacement_states import DepartingNode, WantedNode
from trimtab.actuator.tracker.states import GroupGrowth, TrackerData
from trimtab.common.kubernetes.names import RULE, is_label, is_subdomain
from trimtab.common.rpc.errors import Reason, ServiceError, invalid_request
from trimtab.places import moves_by_node
from trimtab.prices import is_price
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
# Of replacements.
MOST_NODES: Final = 1_000
MOST_GROUPS: Final = 20
MOST_REPLACEMENTS: Final = 100
LONGEST_READY_S: Final = 86_400.0
READY_S: Final = 900.0
"""Upstream: `--max-node-provision-time`."""
NodePrice = Callable[[str], float | None]

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
        raise _invalid("request_id", f" has {size} bytes; give one of 1 to {MAX_REQUEST_ID_BYTES}")
    for prefix in RESERVED:
        if request_id.startswith(prefix):
            problem = f" begins with {prefix}, which is reserved for the actuator's own requests; give another one"
            raise _invalid("request_id", problem)


def node_requests(request: actuator_pb2.StartDeletionRequest) -> list[NodeRequest]:
    """Return the nodes of a `StartDeletion`, checked."""
    check_request_id(request.request_id)
    check_nodes("nodes", [entry.node for entry in request.nodes])
    for field in ("max_parallelism", "max_drain_parallelism", "epoch"):
        if getattr(request, field) < 0:
            raise _invalid(field, f" is {getattr(request, field)}; give 0 or more")
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
            problem = f"from {split.current_size} to {split.new_size} is not a growth of 1 to {MAX_GROWTH} nodes"
            raise _invalid("splits", f" ({split.node_group}): {problem}", position)
        found.append(GroupGrowth(split.node_group, split.current_size, split.new_size))
    return tuple(found)


def reductions(request: actuator_pb2.LowerTargetsRequest) -> tuple[GroupGrowth, ...]:
    """Return the reductions of a `LowerTargets`, checked."""
    check_request_id(request.request_id)
    check_names("reductions", [one.node_group for one in request.reductions])
    for position, one in enumerate(request.reductions):
        if not 0 <= one.new_size < one.current_size:
            problem = f"from {one.current_size} to {one.new_size} is not a reduction to 0 nodes or more"
            raise _invalid("reductions", f" ({one.node_group}): {problem}", position)
    return tuple(GroupGrowth(one.node_group, one.current_size, one.new_size) for one in request.reductions)


def _costs(group: plan_pb2.PodCostGroup) -> dict[str, int]:
    """Return the costs by pod, sorted. Raises unless there is one for each pod."""
    if len(group.pods) != len(group.costs) or len(set(group.pods)) != len(group.pods):
        problem = f"{group.owner[:100]} has {len(group.costs)} costs for {len(set(group.pods))} pods"
        raise _invalid("groups.costs", f": {problem}")
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
            raise _invalid(field, f": {pod[:100]!r} is not a pod; write namespace/name, each of {RULE}")
        if pod in seen:
            raise _invalid(field, f": {pod} was given before")
        seen.add(pod)
    return orders


def buffer_states(request: actuator_pb2.ApplyBufferStatusRequest) -> dict[str, plan_pb2.SlackObject]:
    """Return the states in an `ApplyBufferStatus`, checked, by "namespace/name" of the buffer."""
    if len(request.buffers) > MAX_BUFFERS:
        raise invalid_request(f"{len(request.buffers)} buffers; give at most {MAX_BUFFERS:,}", field="buffers")
    statuses: dict[str, plan_pb2.SlackObject] = {}
    for buffer in request.buffers:
        kind, _, key = buffer.object.partition("/")
        namespace, _, name = key.partition("/")
        if kind != "CapacityBuffer" or not is_label(namespace) or not is_subdomain(name):
            problem = f"{buffer.object[:100]!r} is not a buffer; write CapacityBuffer/namespace/name"
            raise _invalid("buffers.object", f": {problem}")
        if key in statuses:
            raise _invalid("buffers.object", f": {key} was given before")
        if not 0 <= buffer.present_count <= buffer.asked_count:
            problem = f"{key} has {buffer.present_count} of {buffer.asked_count}; give 0 to asked_count"
            raise _invalid("buffers.present_count", f": {problem}")
        statuses[key] = buffer
    return statuses


def capacity_answers(request: actuator_pb2.ApplyCapacityStatusRequest) -> Sequence[plan_pb2.CapacityRequestAnswer]:
    """Return the answers in an `ApplyCapacityStatus`, checked."""
    if len(request.requests) > MAX_CAPACITY_REQUESTS:
        message = f"{len(request.requests)} requests; give at most {MAX_CAPACITY_REQUESTS:,}"
        raise invalid_request(message, field="requests")
    seen: set[tuple[str, str]] = set()
    for one in request.requests:
        if not is_label(one.namespace) or not is_subdomain(one.name):
            problem = f"{f'{one.namespace}/{one.name}'[:100]!r} is not the name of an object; use {RULE}"
            raise _invalid("requests.name", f": {problem}")
        if (one.namespace, one.name) in seen:
            raise _invalid("requests.name", f": {one.namespace}/{one.name} was given before")
        seen.add((one.namespace, one.name))
    return request.requests


def _check_owner(group: GroupOrder) -> None:
    kind, _, rest = group.owner.partition("/")
    namespace, _, name = rest.partition("/")
    if not kind.isalnum() or not is_label(namespace) or not is_subdomain(name):
        raise _invalid("groups.owner", f": {group.owner[:100]!r} is not an owner; write Kind/namespace/name")


def _moment(request: actuator_pb2.ApplyPodCostsRequest, now: datetime) -> str:
    """Return the time when costs were decided, RFC 3339 in whole seconds."""
    if request.HasField("plan_time"):
        check_time(request)
        now = request.plan_time.ToDatetime(UTC)
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")


def check_names(field: str, names: Sequence[str], may_be_empty: bool = False) -> None:
    """Raise unless there are 1 (or 0) to 10,000 names, all usable and distinct."""
    if not names and not may_be_empty:
        raise _invalid(field, " is empty; give at least one")
    _check_count(field, names, MAX_NODES)
    seen: dict[str, int] = {}
    for position, name in enumerate(names):
        if not 1 <= len(name.encode()) <= MAX_NAME_BYTES:
            raise _invalid(field, f": a name has 1 to {MAX_NAME_BYTES} bytes", position)
        if name in seen:
            raise _invalid(field, f": {name} was given before, at {seen[name]}", position)
        seen[name] = position


def check_nodes(field: str, names: Sequence[str], may_be_empty: bool = False) -> None:
    """Raise unless there are 1 (or 0) to 10,000 distinct node names, valid in Kubernetes."""
    check_names(field, names, may_be_empty)
    for position, name in enumerate(names):
        if not is_subdomain(name):
            raise _invalid(field, f": {name[:100]!r} is not the name of a node; names have {RULE}", position)


def _node_request(position: int, entry: actuator_pb2.NodeToDelete) -> NodeRequest:
    if len(entry.gang.encode()) > MAX_GANG_BYTES or (entry.gang and not entry.drain):
        problem = f"has more than {MAX_GANG_BYTES} bytes" if entry.drain else "needs drain: a gang moves by drains"
        raise _invalid("nodes", f" ({entry.node}): gang {problem}", position, about="nodes.gang")
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
        problem = f"assumption needs a count of 0 or more and a digest of {DIGEST_LENGTH} hex digits"
        raise _invalid(field, f" ({entry.node}): {problem}", position, about=f"{field}.assumption")


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


def check_replacement(request: actuator_pb2.StartReplacementRequest) -> None:
    """Raise unless a request is valid."""
    check_request_id(request.request_id)
    if request.HasField("plan_time"):
        check_time(request)
    if request.epoch < 0:
        raise _invalid("epoch", f" is {request.epoch}; give 0 or more")
    if not 0 <= request.max_alternatives <= MOST_GROUPS:
        raise _invalid("max_alternatives", f" is {request.max_alternatives}; give 0 to {MOST_GROUPS}")
    if not math.isfinite(request.min_saving_per_hour):
        raise _invalid("min_saving_per_hour", " is not a number")
    if not 0 < ready_timeout_s(request) <= LONGEST_READY_S:
        raise _invalid("ready_timeout", f" is {ready_timeout_s(request):g} s; give more than 0 and at most 24 h")
    for group, price in sorted(request.prices_per_hour.items()):
        _check_price("prices_per_hour", group, price)
    _check_new_nodes(request.wave.new_nodes)
    _check_leaving(request.wave)


def ready_timeout_s(request: actuator_pb2.StartReplacementRequest) -> float:
    """Return how long new nodes may take to become ready, in seconds."""
    given = request.ready_timeout
    return given.seconds + given.nanos / 1e9 if request.HasField("ready_timeout") else READY_S


def wanted_nodes(
    request: actuator_pb2.StartReplacementRequest, price_of: NodePrice
) -> tuple[tuple[WantedNode, ...], dict[str, float]]:
    """Return the new nodes of a checked request, with the alternatives that have a price, and the prices of all groups.
    `price_of` : the cloud's price of a group.
    """
    prices = {node.node_group: node.price_per_hour for node in request.wave.new_nodes}
    prices.update(request.prices_per_hour)
    for group in sorted({one for node in request.wave.new_nodes for one in node.alternatives} - prices.keys()):
        price = price_of(group) if request.max_alternatives else None
        if price is not None:
            prices[group] = price
    wanted = []
    for node in request.wave.new_nodes:
        others = [group for group in node.alternatives if group in prices and group != node.node_group]
        chosen = tuple(dict.fromkeys(others))[: request.max_alternatives]
        wanted.append(WantedNode(node.name, node.node_group, prices[node.node_group], chosen))
    return tuple(wanted), prices


def departing_nodes(wave: plan_pb2.ReplacementWave) -> tuple[DepartingNode, ...]:
    """Return the nodes that leave by a checked wave."""
    new, moves = {node.name for node in wave.new_nodes}, moves_by_node(wave.places)
    return tuple(
        DepartingNode(
            node=one.node,
            node_group=one.node_group,
            price=one.price_per_hour,
            drain=bool(one.node in moves or one.assumption.pods_to_move_count),
            pods_count=one.assumption.pods_to_move_count,
            pods_digest=one.assumption.pods_to_move_digest if one.HasField("assumption") else None,
            needs=tuple(sorted(new.intersection(moves.get(one.node, {}).values()))),
        )
        for one in wave.leaving
    )


def check_request_ids(request: actuator_pb2.CancelReplacementRequest) -> None:
    """Raise unless a `CancelReplacement` names replacements."""
    check_names("request_ids", request.request_ids)
    _check_count("request_ids", request.request_ids, MOST_REPLACEMENTS)


def _check_new_nodes(nodes: Sequence[plan_pb2.ReplacementNode]) -> None:
    field = "wave.new_nodes"
    _check_count(field, nodes, MOST_NODES)
    check_names(field, [node.name for node in nodes], may_be_empty=True)
    for position, node in enumerate(nodes):
        for group in (node.node_group, *node.alternatives):
            if not 1 <= len(group.encode()) <= MAX_NAME_BYTES:
                problem = f" ({node.name}): the id of a node group has 1 to {MAX_NAME_BYTES} bytes"
                raise _invalid(field, problem, position, about=f"{field}.node_group")
        _check_price(f"{field}.price_per_hour", node.name, node.price_per_hour)


def _check_leaving(wave: plan_pb2.ReplacementWave) -> None:
    field = "wave.leaving"
    _check_count(field, wave.leaving, MOST_NODES)
    check_nodes(field, [one.node for one in wave.leaving])
    new, moves = {node.name for node in wave.new_nodes}, _moves(wave.places)
    for position, one in enumerate(wave.leaving):
        if one.node in new:
            raise _invalid(field, f": {one.node} is the name of a new node too", position)
        _check_price(f"{field}.price_per_hour", one.node, one.price_per_hour)
        if one.HasField("assumption"):
            check_assumption(field, position, one)
            count = len(moves.get(one.node, ()))
            if one.assumption.pods_to_move_count != count:
                problem = f"{count} destinations for {one.assumption.pods_to_move_count} pods to move"
                raise _invalid(field, f" ({one.node}): {problem}", position, about="wave.places")


def _moves(places: plan_pb2.Places) -> dict[str, dict[str, str]]:
    """Return where the pods of each node go. Raises unless the columns agree and refer to names."""
    columns = (places.sources, places.destinations)
    if any(len(column) != len(places.pods) for column in columns):
        raise _invalid("wave.places", ": its columns differ in length")
    if any(not 0 < at < len(places.nodes) for column in columns for at in column):
        raise _invalid("wave.places", ": a node is not one of its nodes")
    return moves_by_node(places)


def _check_price(field: str, name: str, price: float) -> None:
    if not is_price(price):
        raise _invalid(field, f": {price} of {name} is not a price; give 0 to 10^12")


def _check_count(field: str, entries: Sequence[object], most: int) -> None:
    if len(entries) > most:
        raise _invalid(field, f" has {len(entries)} entries; give at most {most:,}")


def _invalid(field: str, problem: str, position: int | None = None, about: str = "") -> ServiceError:
    """Return the error about a field, or one row of it. about : the field that the error names, "" = `field`."""
    if position is None:
        return invalid_request(f"{field}{problem}", field=about or field)
    return invalid_request(f"{field}[{position}]{problem}", field=about or field, row=str(position))
