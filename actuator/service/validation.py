"""What a request must look like.

Decides from the request alone; every refusal names the field and what to do. Sizes are bytes of UTF-8.
Source: the comments in `protos/trimtab/v1/actuator.proto`.
"""

import hashlib
from collections.abc import Sequence

from google.protobuf.message import Message
from trimtab.v1 import actuator_pb2

from actuator.service.pod_costs import CostWish
from actuator.tracker.admission import NodeWish
from actuator.tracker.states import Growth
from clients.transport.errors import invalid_request

MAX_REQUEST_ID_BYTES = 128
MAX_NODES = 10_000
MAX_NAME_BYTES = 253
MAX_GROWTH = 10_000
MAX_COSTS = 200_000
DIGEST_LENGTH = 16


def digest_request(request: Message) -> str:
    """Digest of a request's content, to tell a repetition from another request with the same id."""
    return hashlib.sha256(request.SerializeToString(deterministic=True)).hexdigest()


def check_request_id(request_id: str) -> None:
    """Raise unless the id may be used."""
    size = len(request_id.encode())
    if not 1 <= size <= MAX_REQUEST_ID_BYTES:
        raise invalid_request(
            f"request_id has {size} bytes; give one of 1 to {MAX_REQUEST_ID_BYTES}", field="request_id"
        )


def node_wishes(request: actuator_pb2.StartDeletionRequest) -> list[NodeWish]:
    """The nodes of a `StartDeletion`, checked."""
    check_request_id(request.request_id)
    check_names("nodes", [entry.node for entry in request.nodes])
    for field in ("max_parallelism", "max_drain_parallelism"):
        if getattr(request, field) < 0:
            raise invalid_request(f"{field} is {getattr(request, field)}; give 0 or more", field=field)
    if request.HasField("plan_time"):
        _check_time(request)
    return [_wish(position, entry) for position, entry in enumerate(request.nodes)]


def growths(request: actuator_pb2.ScaleUpRequest) -> tuple[Growth, ...]:
    """The splits of a `ScaleUp`, checked."""
    check_request_id(request.request_id)
    check_names("splits", [split.node_group for split in request.splits])
    found = []
    for position, split in enumerate(request.splits):
        delta = split.new_size - split.current_size
        if split.current_size < 0 or not 1 <= delta <= MAX_GROWTH:
            raise invalid_request(
                f"splits[{position}] ({split.node_group}): from {split.current_size} to {split.new_size} is no growth"
                f" of 1 to {MAX_GROWTH} nodes",
                field="splits",
                row=str(position),
            )
        found.append(Growth(split.node_group, delta))
    return tuple(found)


def cost_wishes(request: actuator_pb2.ApplyPodCostsRequest) -> list[CostWish]:
    """The costs of an `ApplyPodCosts`, checked: groups in order, the pods of each by name, then those to take away."""
    wishes = [CostWish(pod, cost) for group in request.groups for pod, cost in sorted(group.costs.items())]
    wishes += [CostWish(pod, None) for pod in request.remove]
    if not 1 <= len(wishes) <= MAX_COSTS:
        raise invalid_request(f"the request names {len(wishes)} pods; give 1 to {MAX_COSTS:,}", field="groups")
    seen: set[str] = set()
    for wish in wishes:
        field = "remove" if wish.cost is None else "groups.costs"
        namespace, slash, name = wish.pod.partition("/")
        if not (namespace and slash and name) or "/" in name or len(wish.pod.encode()) > 2 * MAX_NAME_BYTES:
            raise invalid_request(f"{field}: {wish.pod[:100]!r} is no pod; write namespace/name", field=field)
        if wish.pod in seen:
            raise invalid_request(f"{field}: {wish.pod} was given before", field=field)
        seen.add(wish.pod)
    return wishes


def check_names(field: str, names: Sequence[str], may_be_empty: bool = False) -> None:
    """Raise unless there are 1 (or 0) to 10,000 names, each usable and none twice."""
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


def _wish(position: int, entry: actuator_pb2.NodeToDelete) -> NodeWish:
    if not entry.HasField("assumption"):
        return NodeWish(entry.node, entry.drain)
    assumption = entry.assumption
    digest = assumption.pods_to_move_digest
    if assumption.pods_to_move_count < 0 or len(digest) != DIGEST_LENGTH or not set(digest) <= set("0123456789abcdef"):
        raise invalid_request(
            f"nodes[{position}] ({entry.node}): assumption needs a count of 0 or more and a digest of"
            f" {DIGEST_LENGTH} hex digits",
            field="nodes.assumption",
            row=str(position),
        )
    return NodeWish(entry.node, entry.drain, assumption.pods_to_move_count, digest)


def _check_time(request: actuator_pb2.StartDeletionRequest) -> None:
    try:
        request.plan_time.ToDatetime()
    except (ValueError, OverflowError) as error:
        raise invalid_request(f"plan_time is no time: {error}", field="plan_time") from error
