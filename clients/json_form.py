"""The JSON form of a message of the contract: the proto3 JSON mapping, with the keys of each map in order. Protobuf
itself gives them in an order that differs between processes, so equal messages would not be equal as text.
"""

import re
from typing import Any, cast

from google.protobuf.descriptor import Descriptor
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message


def json_form(message: Message, *, with_defaults: bool = False) -> dict[str, Any]:
    """Return the JSON form of a message. with_defaults : also of fields that have their default value."""
    document: dict[str, Any] = MessageToDict(message, always_print_fields_with_no_presence=with_defaults)
    _sort_maps(document, cast(Descriptor, message.DESCRIPTOR))
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
