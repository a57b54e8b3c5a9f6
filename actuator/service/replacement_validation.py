"""Validation of `StartReplacement` and `CancelReplacement`.

Decides from the request alone; every refusal names the field and the remedy. Prices are those of one node for one hour.
Source: the comments in `protos/trimtab/v1/actuator.proto`.
"""

import math
from collections.abc import Callable, Sequence
from typing import Final

from trimtab.actuator.service.validation import (
    MAX_NAME_BYTES,
    check_assumption,
    check_names,
    check_nodes,
    check_request_id,
    check_time,
)
from trimtab.actuator.tracker.replacement_states import DepartingNode, WantedNode
from trimtab.common.rpc.errors import invalid_request
from trimtab.places import moves_by_node
from trimtab.prices import is_price
from trimtab.v1 import actuator_pb2, plan_pb2

MOST_NODES: Final = 1_000
MOST_GROUPS: Final = 20
MOST_REPLACEMENTS: Final = 100
LONGEST_READY_S: Final = 86_400.0
READY_S: Final = 900.0
"""Upstream: `--max-node-provision-time`."""
NodePrice = Callable[[str], float | None]


def check_replacement(request: actuator_pb2.StartReplacementRequest) -> None:
    """Raise unless a request is valid."""
    check_request_id(request.request_id)
    if request.HasField("plan_time"):
        check_time(request)
    if request.epoch < 0:
        raise invalid_request(f"epoch is {request.epoch}; give 0 or more", field="epoch")
    if not 0 <= request.max_alternatives <= MOST_GROUPS:
        message = f"max_alternatives is {request.max_alternatives}; give 0 to {MOST_GROUPS}"
        raise invalid_request(message, field="max_alternatives")
    if not math.isfinite(request.min_saving_per_hour):
        raise invalid_request("min_saving_per_hour is no number", field="min_saving_per_hour")
    if not 0 < ready_timeout_s(request) <= LONGEST_READY_S:
        message = f"ready_timeout is {ready_timeout_s(request):g} s; give more than 0 and at most 24 h"
        raise invalid_request(message, field="ready_timeout")
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
    if len(request.request_ids) > MOST_REPLACEMENTS:
        message = f"request_ids has {len(request.request_ids)} entries; give at most {MOST_REPLACEMENTS}"
        raise invalid_request(message, field="request_ids")


def _check_new_nodes(nodes: Sequence[plan_pb2.ReplacementNode]) -> None:
    field = "wave.new_nodes"
    if len(nodes) > MOST_NODES:
        raise invalid_request(f"{field} has {len(nodes)} entries; give at most {MOST_NODES:,}", field=field)
    check_names(field, [node.name for node in nodes], may_be_empty=True)
    for position, node in enumerate(nodes):
        for group in (node.node_group, *node.alternatives):
            if not 1 <= len(group.encode()) <= MAX_NAME_BYTES:
                message = f"{field}[{position}] ({node.name}): the id of a node group has 1 to {MAX_NAME_BYTES} bytes"
                raise invalid_request(message, field=f"{field}.node_group", row=str(position))
        _check_price(f"{field}.price_per_hour", node.name, node.price_per_hour)


def _check_leaving(wave: plan_pb2.ReplacementWave) -> None:
    field = "wave.leaving"
    if len(wave.leaving) > MOST_NODES:
        raise invalid_request(f"{field} has {len(wave.leaving)} entries; give at most {MOST_NODES:,}", field=field)
    check_nodes(field, [one.node for one in wave.leaving])
    new, moves = {node.name for node in wave.new_nodes}, _moves(wave.places)
    for position, one in enumerate(wave.leaving):
        if one.node in new:
            message = f"{field}[{position}]: {one.node} is the name of a new node too"
            raise invalid_request(message, field=field, row=str(position))
        _check_price(f"{field}.price_per_hour", one.node, one.price_per_hour)
        if one.HasField("assumption"):
            check_assumption(field, position, one)
            count = len(moves.get(one.node, ()))
            if one.assumption.pods_to_move_count != count:
                message = (
                    f"{field}[{position}] ({one.node}): {count} destinations for "
                    f"{one.assumption.pods_to_move_count} pods to move"
                )
                raise invalid_request(message, field="wave.places", row=str(position))


def _moves(places: plan_pb2.Places) -> dict[str, dict[str, str]]:
    """Return where the pods of each node go. Raises unless the columns agree and refer to names."""
    columns = (places.sources, places.destinations)
    if any(len(column) != len(places.pods) for column in columns):
        raise invalid_request("wave.places: its columns differ in length", field="wave.places")
    if any(not 0 < at < len(places.nodes) for column in columns for at in column):
        raise invalid_request("wave.places: a node is not one of its nodes", field="wave.places")
    return moves_by_node(places)


def _check_price(field: str, name: str, price: float) -> None:
    if not is_price(price):
        raise invalid_request(f"{field}: {price} of {name} is not a price; give 0 to 10^12", field=field)
