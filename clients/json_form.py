"""The JSON form of a message of the contract: the proto3 JSON mapping, with the keys of each map in order. Protobuf
itself gives them in an order that differs between processes, so equal messages would not be equal as text.
"""

import re
from collections.abc import Callable
from itertools import chain
from operator import itemgetter
from typing import Any, Final, cast

from google.protobuf.descriptor import Descriptor
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from trimtab.clients.verdicts import staying
from trimtab.places import costs_of, moves_by_node, new_nodes, on_existing, on_upcoming, ranks_of
from trimtab.v1 import plan_pb2


def json_form(message: Message, *, with_defaults: bool = False) -> dict[str, Any]:
    """Return the JSON form of a message. with_defaults : also of fields that have their default value."""
    document: dict[str, Any] = MessageToDict(message, always_print_fields_with_no_presence=with_defaults)
    _sort_maps(document, cast(Descriptor, message.DESCRIPTOR))
    return document


def readable_form(message: Message) -> dict[str, Any]:
    """Return the JSON form of a message with fields that have their default value, and with columns as maps by name."""
    document = json_form(message, with_defaults=True)
    _name_columns(message, document)
    return document


def with_value(document: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return a document of settings in which one field has another value, in place. path : "scaleDown.enabled", with a
    backslash before each dot of a node group's name. Raises ValueError.
    """
    place, before = document, ""
    parts = [one.replace("\\.", ".") for one in re.split(r"(?<!\\)\.", path)]
    for index, part in enumerate(parts):
        key = part if before == "nodeGroups" else re.sub("_([a-z])", lambda found: found[1].upper(), part)
        if index == len(parts) - 1:
            place[key] = value
            break
        place, before = place.setdefault(key, {}), key
        if not isinstance(place, dict):
            raise ValueError(f"{key} has no fields")
    return document


def setting_problem(message: str, field: str) -> str:
    """Return a planner's message about a setting with the field's path as the JSON form has it. field : the path as the
    contract has it, at the beginning of the message; "node_groups['a_b'].unneeded_time" is nodeGroups.a_b.unneededTime.
    """
    parts = re.split(r"\['(.*?)'\]", field)
    names = [re.sub("_([a-z])", lambda found: found[1].upper(), part) for part in parts[::2]]
    path = names[0] + "".join(f".{name}{rest}" for name, rest in zip(parts[1::2], names[1:], strict=True))
    return f"{path}{message.removeprefix(field)}"


def _sort_maps(document: dict[str, Any], kind: Descriptor) -> None:
    """Sort the keys of all maps in the JSON form of a message, in place. O(fields)."""
    for field in kind.fields:
        within, value = field.message_type, document.get(field.json_name)
        if within is None or not value:
            continue
        rows = value if isinstance(value, list) else [value]
        if within.GetOptions().map_entry:
            document[field.json_name] = dict(sorted(value.items()))
            within, rows = within.fields_by_name["value"].message_type, list(value.values())
        # Times and durations are texts.
        for row in rows:
            if within is not None and isinstance(row, dict):
                _sort_maps(row, within)


def _name_columns(message: Message, document: dict[str, Any]) -> None:
    """Replace columns by maps and lists by name, in place, in the JSON form of a message and of the messages in it."""
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        inner = document[field.json_name]
        for one, shown in zip(value, inner, strict=True) if isinstance(inner, list) else [(value, inner)]:
            # Times and durations are texts.
            if isinstance(shown, dict):
                _name_columns(one, shown)
    view = _VIEWS.get(message.DESCRIPTOR.name)
    if view is not None:
        view(message, document)


def _scale_up(decision: plan_pb2.ScaleUpDecision, document: dict[str, Any]) -> None:
    """Show where pods go by node and node group, and why each pod stays pending."""
    document.pop("places", None)
    document["onExisting"] = dict(sorted(on_existing(decision).items()))
    document["onUpcoming"] = dict(sorted(on_upcoming(decision).items()))
    nodes = new_nodes(decision)
    for split in document["splits"]:
        pods = nodes[split["nodeGroup"]]
        split["pods"], split["newNodes"] = sorted(chain(*pods)), [{"pods": of_node} for of_node in pods]
    alike = [(pod, one) for one in document["unschedulable"] for pod in one["pods"]]
    document["unschedulable"] = [
        {"pod": pod} | {name: value for name, value in one.items() if name != "pods"}
        for pod, one in sorted(alike, key=itemgetter(0))
    ]


def _answer(answer: plan_pb2.PlanResponse, document: dict[str, Any]) -> None:
    """Show beside the nodes of scale-down since when each is unneeded, and why the others stay."""
    if answer.HasField("scale_down"):
        of_node = {one["node"]: one for one in document["nodes"]}
        for one in document["scaleDown"]["unneeded"]:
            one["since"] = of_node.get(one["node"], {}).get("since")
        document["scaleDown"]["unremovable"] = [
            {name: of_node[one.node][name] for name in ("node", "reason", "blockingPod")} for one in staying(answer)
        ]


def _scale_down(decision: plan_pb2.ScaleDownDecision, document: dict[str, Any]) -> None:
    """Show where pods go beside the node that they leave."""
    document.pop("places", None)
    _add_destinations(decision.places, document["unneeded"])


def _wave(wave: plan_pb2.ReplacementWave, document: dict[str, Any]) -> None:
    """Show where pods go beside the node that they leave."""
    document.pop("places", None)
    _add_destinations(wave.places, document["leaving"])


def _add_destinations(places: plan_pb2.Places, nodes: list[dict[str, Any]]) -> None:
    moves = moves_by_node(places)
    for node in nodes:
        node["destinations"] = dict(sorted(moves.get(node["node"], {}).items()))


def _pod_costs(group: plan_pb2.PodCostGroup, document: dict[str, Any]) -> None:
    """Show costs by pod, and ranks as numbers."""
    document["order"], document["costs"] = document.pop("pods"), dict(sorted(costs_of(group).items()))
    for share, shown in zip(group.shares, document["shares"], strict=True):
        shown["ranks"], shown["ownRanks"] = list(ranks_of(share.ranks)), list(ranks_of(share.own_ranks))


_VIEWS: Final[dict[str, Callable[[Any, dict[str, Any]], None]]] = {
    "PlanResponse": _answer,
    "ScaleUpDecision": _scale_up,
    "ScaleDownDecision": _scale_down,
    "ReplacementWave": _wave,
    "PodCostGroup": _pod_costs,
}
"""What changes in the JSON form of a message, by its name."""
