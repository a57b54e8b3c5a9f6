"""The rows of a snapshot: their keys, and the indices into its dictionaries, which can be renumbered, in messages that
the caller owns, in place.

Decides which fields of the contract are such indices.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from numpy.typing import NDArray

from trimtab.v1 import snapshot_pb2 as pb

Int64 = NDArray[np.int64]
WITH_OWN_DICTIONARY: Final = ("slack_requests", "devices", "capacity_requests")
"""Messages with dictionaries of their own; a delta replaces them whole."""
KEYS: Final[dict[str, Callable[[Any], str]]] = {
    "nodes": lambda row: row.name,
    "node_groups": lambda row: row.id,
    "owners": lambda row: row.uid,
    "pod_disruption_budgets": lambda row: f"{row.namespace}/{row.name}",
    "namespaces": lambda row: row.name,
    "pod_groups": lambda row: f"{row.namespace}/{row.name}",
}
"""The tables of rows, and the key of each."""
STRING_FIELDS: Final[dict[Any, tuple[str, ...]]] = {
    pb.LabelPair.DESCRIPTOR: ("key", "value"),
    pb.LabelRequirement.DESCRIPTOR: ("key", "values"),
    pb.Taint.DESCRIPTOR: ("key", "value"),
    pb.Toleration.DESCRIPTOR: ("key", "value"),
    pb.HostPort.DESCRIPTOR: ("protocol", "host_ip"),
    pb.PodAffinityTerm.DESCRIPTOR: ("namespaces", "topology_key"),
    pb.TopologySpreadConstraint.DESCRIPTOR: ("topology_key", "match_label_keys"),
    pb.PodSpec.DESCRIPTOR: (
        "scheduler_name",
        "exclusive_disks",
        "read_only_disks",
        "node_features",
        "capacity_request",
    ),
    pb.Volume.DESCRIPTOR: ("driver", "handle", "required_driver"),
    pb.Node.DESCRIPTOR: ("declared_features",),
    pb.NodeTemplate.DESCRIPTOR: ("declared_features",),
    pb.VolumeDrivers.DESCRIPTOR: ("names",),
    pb.AttachLimit.DESCRIPTOR: ("driver",),
    pb.PodGroup.DESCRIPTOR: ("topology_key",),
}
SPEC_MESSAGES: Final[set[Any]] = {pb.RecentEviction.DESCRIPTOR, pb.TemplatePod.DESCRIPTOR}
_OPTIONAL_SPECS: Final[set[Any]] = {pb.RecentEviction.DESCRIPTOR}
LABEL_SET_MESSAGES: Final[set[Any]] = {
    *SPEC_MESSAGES,
    pb.Node.DESCRIPTOR,
    pb.NodeTemplate.DESCRIPTOR,
    pb.Namespace.DESCRIPTOR,
}

Number = Callable[[int], int]


class NewIndices(NamedTuple):
    """The new number of each old one, by dictionary. `string`, `label_set`, `spec` : functions from old to new."""

    string: Number
    label_set: Number
    spec: Number


class _IndexFields(NamedTuple):
    """The fields of a message type that hold indices. `single`, `repeated` : names of fields of string indices;
    `has_label_set`, `has_spec` : whether it has such a field, 0 included; `message`, `messages` : single and repeated
    fields of messages that hold indices, with theirs.
    """

    single: tuple[str, ...]
    repeated: tuple[str, ...]
    has_label_set: bool
    has_spec: bool
    message: tuple[tuple[str, "_IndexFields"], ...]
    messages: tuple[tuple[str, "_IndexFields"], ...]


def renumber(message: Message, numbers: NewIndices) -> None:
    """Replace all indices of a row, and of the messages in it."""
    _apply(_plan(message.DESCRIPTOR), message, numbers)


def texts_of(pods: pb.PodTable, field: str, rows: Int64) -> list[bytes]:
    """Return the names or uids of some rows of a pod table. field : "name" or "uid"."""
    data: bytes = getattr(pods, f"{field}s")
    ends = np.cumsum(np.frombuffer(getattr(pods, f"{field}_lengths"), "<i4"), dtype=np.int64)
    bounds = np.concatenate(([0], ends))
    return [data[a:b] for a, b in zip(bounds[rows].tolist(), bounds[rows + 1].tolist(), strict=True)]


_known: dict[Any, _IndexFields] = {}


def _plan(descriptor: Any) -> _IndexFields:
    found = _known.get(descriptor)
    if found is None:
        found = _known[descriptor] = _make(descriptor)
    return found


def _make(descriptor: Any) -> _IndexFields:
    names = STRING_FIELDS.get(descriptor, ())
    many = {field.name for field in descriptor.fields if field.is_repeated}
    inner = [
        (field.name, _plan(field.message_type))
        for field in descriptor.fields
        if field.type == FieldDescriptor.TYPE_MESSAGE and field.message_type is not None
    ]
    useful = [(name, plan) for name, plan in inner if any(plan)]
    return _IndexFields(
        tuple(name for name in names if name not in many),
        tuple(name for name in names if name in many),
        descriptor in LABEL_SET_MESSAGES,
        descriptor in SPEC_MESSAGES,
        tuple(one for one in useful if one[0] not in many),
        tuple(one for one in useful if one[0] in many),
    )


def _apply(plan: _IndexFields, message: Any, numbers: NewIndices) -> None:
    for name in plan.single:
        if index := getattr(message, name):
            setattr(message, name, numbers.string(index))
    for name in plan.repeated:
        if values := getattr(message, name):
            values[:] = [numbers.string(index) for index in values]
    _apply_dictionaries(plan, message, numbers)
    for name, inner in plan.message:
        if message.HasField(name):
            _apply(inner, getattr(message, name), numbers)
    for name, inner in plan.messages:
        for one in getattr(message, name):
            _apply(inner, one, numbers)


def _apply_dictionaries(plan: _IndexFields, message: Any, numbers: NewIndices) -> None:
    if plan.has_label_set and message.label_set:
        message.label_set = numbers.label_set(message.label_set)
    if plan.has_spec and (message.DESCRIPTOR not in _OPTIONAL_SPECS or message.HasField("spec")):
        message.spec = numbers.spec(message.spec)
