"""The features that a planner needs so that it ignores nothing that restricts plans: `PlanRequest.required_features`.

proto3 drops fields that the receiver does not know, so an older planner would remove what a newer setting protects. A
setting restricts if some value of it keeps a plan from an action that the plan would otherwise contain: removing a
node, adding nodes, using room, ordering pods for removal. Settings that only choose among plans that are all permitted,
that bound work without changing what is permitted, or that permit more, require nothing.

The option `setting` of each field says it (`trimtab.setting_options`); `protos/README.md` has the same table by
feature. Snapshots need features too, where a planner that does not know what they contain would place pods on nodes
that cannot have them.
"""

from collections.abc import Iterator
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from trimtab.setting_options import OF_SNAPSHOTS, option_of
from trimtab.v1 import plan_pb2, snapshot_pb2

_DEVICES: Final = OF_SNAPSHOTS[snapshot_pb2.ClusterSnapshot.DESCRIPTOR.fields_by_name["devices"].full_name]
_CLAIMS: Final = OF_SNAPSHOTS[snapshot_pb2.PodSpec.DESCRIPTOR.fields_by_name["claims"].full_name]


def required_features(settings: plan_pb2.PlanSettings) -> list[str]:
    """Return the features that a planner needs for these settings, sorted. A setting that is given counts, whatever its
    value. O(settings)."""
    return sorted({feature for field in _given(settings) if (feature := option_of(field).feature)})


def snapshot_features(rows: snapshot_pb2.ClusterSnapshot) -> list[str]:
    """Return the features that a planner needs for a snapshot or the changed rows of a delta, sorted. O(specs)."""
    dictionaries = (rows, rows.slack_requests.dictionary, rows.capacity_requests.dictionary)
    found = {_CLAIMS} if any(spec.claims for dictionary in dictionaries for spec in dictionary.pod_specs) else set()
    return sorted(found | ({_DEVICES} if rows.devices.ListFields() else set()))


def require_features(request: plan_pb2.PlanRequest, rows: snapshot_pb2.ClusterSnapshot | None = None) -> None:
    """Add to a request, in place, the features that its settings and its snapshot need, to those that its caller
    requires. rows : the snapshot or the changed rows of the delta, None = nothing has changed."""
    of_snapshot = snapshot_features(rows) if rows is not None else []
    needed = sorted({*request.required_features, *required_features(request.settings), *of_snapshot})
    if needed != list(request.required_features):
        request.required_features[:] = needed


def _given(message: Message) -> Iterator[FieldDescriptor]:
    """Yield every field that is given, in the message and below it."""
    for field, value in message.ListFields():
        yield field
        for inner in _messages(field, value):
            yield from _given(inner)


def _messages(field: FieldDescriptor, value: Any) -> Iterator[Message]:
    """Yield the messages that are the value of a field."""
    if field.message_type is None:
        return
    if field.message_type.GetOptions().map_entry:
        if field.message_type.fields_by_name["value"].message_type is not None:
            yield from value.values()
    elif field.is_repeated:
        yield from value
    else:
        yield value
