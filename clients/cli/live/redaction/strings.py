"""Passes the strings of a frame through a function, in place. Decides which fields hold strings of the recorded
cluster, which describe its devices and stay, and which texts are left out altogether: texts for people, digests of the
planner, and texts that no decision reads.
"""

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from trimtab.v1 import snapshot_pb2 as pb

Replace = Callable[[str], str]

UNTOUCHED = frozenset(
    (
        "NodeVerdict.predicate_failure_counts",
        "NodeVerdict.why",
        "PlanSummary.assumption",
        "NodeAssumption.pods_to_move_digest",
        "DecisionSummary.result",
        "DecisionSummary.counts",
    )
)
"""Fields whose strings are words of the contract, or are recomputed elsewhere."""
HARDWARE = frozenset(
    (
        "DeviceAttribute.name", "DeviceAttribute.string_value", "DeviceAttribute.version_value",
        "DeviceAttributeList.strings", "DeviceAttributeList.versions", "DeviceCapacity.name", "DeviceCapacity.value",
        "DeviceCapacity.default_request", "DeviceCapacity.valid_values", "CapacityRange.min", "CapacityRange.max",
        "CapacityRange.step", "NamedQuantity.name", "NamedQuantity.value", "DeviceTaint.effect",
        "DeviceToleration.operator", "DeviceToleration.effect", "DeviceClass.selectors", "DeviceSubRequest.selectors",
        "DeviceConstraint.match_attribute", "DeviceConstraint.distinct_attribute", "Devices.feature_gates",
    )
)  # fmt: skip
"""Fields that describe devices: expressions read them, so they stay as they are, and so do the expressions."""
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
        "PodClaim.problem",
        "PodGroup.problem",
    )
)
"""Digests of recorded data, which could confirm a guess, and texts with names. Only their presence is kept.
"""
CLASSES = frozenset(("CapacityRequest.class_name", "CapacityClass.name"))
PUBLIC_CLASSES = frozenset(("check-capacity.autoscaling.x-k8s.io", "best-effort-atomic-scale-up.autoscaling.x-k8s.io"))
"""Classes of ProvisioningRequests that are words of the API: they stay, as planners answer them by default."""
REDACTED = "redacted"
AMOUNTS = frozenset(("SlackRequest.amount", "PodGroup.slack"))
AMOUNT = re.compile(r"[0-9]+%?")
"""Readable values of these; unreadable ones may contain anything."""


_TEXT_COLUMNS: Final = {
    "PodTable": (("names", "name_lengths"), ("uids", "uid_lengths")),
    "ResourceSliceTable": (("names", "name_lengths"),),
    "ResourceClaimTable": (("names", "name_lengths"), ("pods", "pod_lengths"), ("consumers", "consumer_lengths")),
}
"""Columns of texts, and those of their lengths."""


def walk(message: Message, replace: Replace) -> None:
    """Pass every string through `replace`, in place, and clear the fields that are left out."""
    kind = message.DESCRIPTOR.name
    for data, lengths in _TEXT_COLUMNS.get(kind, ()):
        _walk_texts(message, data, lengths, replace)
    for field, value in message.ListFields():
        if field.name in CLEARED:
            message.ClearField(field.name)
        elif f"{kind}.{field.name}" in AMOUNTS:
            setattr(message, field.name, value if AMOUNT.fullmatch(value) else REDACTED)
        elif f"{kind}.{field.name}" in DIGESTS:
            setattr(message, field.name, REDACTED)
        elif not _stays(f"{kind}.{field.name}", value):
            _walk_field(message, field, value, replace)


def _stays(name: str, value: Any) -> bool:
    """Return whether a field, "Message.field", has no name of the cluster."""
    return name in UNTOUCHED or name in HARDWARE or (name in CLASSES and value in PUBLIC_CLASSES)


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
        elif field.name in ("match_labels",):
            value[replace(key)] = replace(item)
        else:
            value[replace(key)] = item


def _walk_texts(table: Message, data: str, lengths: str, replace: Replace) -> None:
    """Replace the texts of a column. data, lengths : the fields of both."""
    texts = [replace(text).encode() for text in texts_of(getattr(table, data), getattr(table, lengths))]
    setattr(table, data, b"".join(texts))
    setattr(table, lengths, np.array([len(text) for text in texts], dtype="<i4").tobytes())


class DeviceNames(NamedTuple):
    """Names in the devices of a recording. kept : of drivers and capacities, and quantities, which stay as they are;
    pools : of pools.
    """

    kept: set[str]
    pools: set[str]

    def see(self, devices: pb.Devices) -> None:
        """Take the names of a message."""
        slices, claims = devices.slices, devices.claims
        columns = (slices.driver, claims.result_driver, claims.capacity_name, claims.capacity_amount)
        for column, names in (*((one, self.kept) for one in columns), (slices.pool, self.pools)):
            names.update(devices.strings[index] for index in np.unique(np.frombuffer(column, "<i4")).tolist())
        self.kept.update(one.driver for one in devices.taint_rules)
        self.kept.update(one.driver for template in devices.templates for one in template.slices)


def texts_of(data: bytes, lengths: bytes) -> list[str]:
    """Return the texts of a column of texts."""
    ends = np.cumsum(np.frombuffer(lengths, dtype="<i4"), dtype=np.int64).tolist()
    return [data[start:end].decode() for start, end in zip([0, *ends], ends, strict=False)]
