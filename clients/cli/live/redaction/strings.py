"""Passes the strings of a frame through a function, in place. Decides which fields hold strings of the recorded
cluster, and which texts are left out altogether: texts for people, digests of the planner, and texts that no decision
reads.
"""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from trimtab.v1 import snapshot_pb2 as pb

Replace = Callable[[str], str]

UNTOUCHED = frozenset(
    (
        "UnremovableNode.predicate_failure_counts",
        "NodeAssumption.pods_to_move_digest",
        "DecisionSummary.result",
        "DecisionSummary.counts",
    )
)
"""Fields whose strings are words of the contract, or are recomputed elsewhere."""
CLEARED = frozenset(
    (
        "detail", "problems", "notes", "comment", "opaque", "stages", "provider_id", "min_available",
        "max_unavailable", "schedules", "required_features",
    )
)  # fmt: skip
"""Names of fields that are left out in all messages; schedules too, as times are shifted, and required features, which
a replay derives from the settings.
"""
DIGESTS = frozenset(
    (
        "PlanRequest.base_version",
        "PlanRequest.state_version",
        "PlanResponse.snapshot_version",
        "PlanResponse.state_version",
        "SlackRequest.problem",
        "CapacityRequest.problem",
        "SlackObject.problem",
    )
)
"""Digests of recorded data, which could confirm a guess, and texts with names. Only their presence is kept.
"""
REDACTED = "redacted"
AMOUNT = re.compile(r"[0-9]+%?")
"""Readable values of `SlackRequest.amount`; unreadable ones may contain anything."""


def walk(message: Message, replace: Replace) -> None:
    """Pass every string through `replace`, in place, and clear the fields that are left out."""
    kind = message.DESCRIPTOR.name
    if isinstance(message, pb.PodTable):
        _walk_texts(message, replace)
    for field, value in message.ListFields():
        if field.name in CLEARED:
            message.ClearField(field.name)
        elif f"{kind}.{field.name}" == "SlackRequest.amount":
            message.amount = value if AMOUNT.fullmatch(value) else REDACTED  # type: ignore[attr-defined]
        elif f"{kind}.{field.name}" in DIGESTS:
            setattr(message, field.name, REDACTED)
        elif f"{kind}.{field.name}" not in UNTOUCHED:
            _walk_field(message, field, value, replace)


def _walk_field(message: Message, field: FieldDescriptor, value: Any, replace: Replace) -> None:
    """Pass the strings of one field through `replace`."""
    inner = field.message_type
    if inner is not None and inner.GetOptions().map_entry:
        _walk_map(field, value, replace, inner.fields_by_name["value"].message_type is not None)
    elif inner is not None:
        for one in value if field.is_repeated else (value,):
            walk(one, replace)
    elif field.type != FieldDescriptor.TYPE_STRING:
        return
    elif field.is_repeated:
        value[:] = [replace(text) for text in value]
    else:
        setattr(message, field.name, replace(value))


def _walk_map(field: FieldDescriptor, value: Any, replace: Replace, is_message: bool) -> None:
    """Replace the keys of a map, and its values if they are names."""
    entries = dict(value.items())
    value.clear()
    for key, item in entries.items():
        if is_message:
            value[replace(key)].CopyFrom(item)
        elif field.name in ("destinations", "match_labels", "on_existing", "on_upcoming"):
            value[replace(key)] = replace(item)
        else:
            value[replace(key)] = item


def _walk_texts(table: pb.PodTable, replace: Replace) -> None:
    """Replace names and uids of pods."""
    for data, lengths in (("names", "name_lengths"), ("uids", "uid_lengths")):
        texts = [replace(text).encode() for text in texts_of(getattr(table, data), getattr(table, lengths))]
        setattr(table, data, b"".join(texts))
        setattr(table, lengths, np.array([len(text) for text in texts], dtype="<i4").tobytes())


def texts_of(data: bytes, lengths: bytes) -> list[str]:
    """Return the texts of a column of texts."""
    ends = np.cumsum(np.frombuffer(lengths, dtype="<i4"), dtype=np.int64).tolist()
    return [data[start:end].decode() for start, end in zip([0, *ends], ends, strict=False)]
