"""Objects of built-in kinds in Kubernetes' protobuf encoding."""

from collections.abc import Iterator
from typing import Any, get_args, get_origin

import msgspec
import pytest
from google.protobuf.descriptor import Descriptor

from tests.builders.kubernetes_protobuf import as_message
from trimtab.common.kubernetes.errors import MalformedAnswerError
from trimtab.common.kubernetes.registry import STRUCTS
from trimtab.common.watched.protobuf_objects import INLINED, message_type, to_json
from trimtab.k8s.v1 import core_pb2, meta_pb2

KINDS = sorted(kind for kind in STRUCTS if message_type(kind) is not None)
NOT_IN_MESSAGES = {
    "PodDisruptionBudget.apiVersion",  # of every object, in the envelope
    "ObjectMeta.generateName",  # read of pods without a name, which only files have
    "DeviceSubRequest.adminAccess",  # declared by the struct of requests that are no alternatives
    "Taint.timeAdded",  # written back by the actuator, which reads JSON
}


def structs_in(hint: Any) -> Iterator[type[msgspec.Struct]]:
    """Yield the structs in a type hint."""
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        yield hint
    for inner in get_args(hint) if get_origin(hint) is not None or get_args(hint) else ():
        yield from structs_in(inner)


def missing(struct: type[msgspec.Struct], descriptor: Descriptor, seen: set[tuple[str, str]]) -> Iterator[str]:
    """Yield the fields of a struct that its message lacks."""
    if (struct.__name__, descriptor.name) in seen:
        return
    seen.add((struct.__name__, descriptor.name))
    fields = {field.json_name: field for field in descriptor.fields}
    for name in INLINED:
        if name in descriptor.fields_by_name:
            fields |= {field.json_name: field for field in descriptor.fields_by_name[name].message_type.fields}
    for info in msgspec.structs.fields(struct):
        if info.encode_name not in fields:
            yield f"{descriptor.name}.{info.encode_name}"
            continue
        message = fields[info.encode_name].message_type
        if message is not None and message.name.endswith("Entry"):
            message = message.fields_by_name["value"].message_type
        for inner in structs_in(info.type) if message is not None else ():
            yield from missing(inner, message, seen)


@pytest.mark.parametrize("kind", KINDS)
def test_a_field_that_is_read_from_json_is_in_the_message(kind: str) -> None:
    message = message_type(kind)
    assert message is not None
    assert set(missing(STRUCTS[kind], message.DESCRIPTOR, set())) <= NOT_IN_MESSAGES


def test_all_built_in_kinds_but_those_of_alpha_versions_have_a_message() -> None:
    custom = {"CapacityBuffer", "MachineOffer", "NodeClaim", "NodeGroup", "NodePool", "PodGroup.scheduling.volcano.sh"}
    assert set(STRUCTS) - set(KINDS) == custom | {"PodGroup", "ProvisioningRequest", "Workload"}


def test_a_zero_that_means_something_stays_and_a_zero_that_is_the_default_goes() -> None:
    message = message_type("ReplicaSet")
    assert message is not None
    body = {"metadata": {"name": "", "generation": 0}, "spec": {"replicas": 0}}
    encoded = as_message(body, message).SerializeToString()
    found = msgspec.json.decode(to_json(message, "apps/v1", "ReplicaSet", encoded))
    assert found == {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {}, "spec": {"replicas": 0}}


def test_bytes_that_are_not_a_message_are_refused() -> None:
    message = message_type("Node")
    assert message is not None
    with pytest.raises(MalformedAnswerError, match="5 bytes are no Node"):
        to_json(message, "v1", "Node", b"\xff\xff\xff\xff\xff")


@pytest.mark.parametrize(
    ("seconds", "time"),
    [(-(2**62), "0001-01-01T00:00:00Z"), (-14_182_980, "1969-07-20T20:17:00Z"), (2**62, "9999-12-31T23:59:59Z")],
)
def test_any_time_that_the_encoding_can_hold_is_read(seconds: int, time: str) -> None:
    node = core_pb2.Node(metadata=meta_pb2.ObjectMeta(name="n", creation_timestamp=meta_pb2.Time(seconds=seconds)))
    found = msgspec.json.decode(to_json(core_pb2.Node, "v1", "Node", node.SerializeToString()))
    assert found["metadata"] == {"name": "n", "creationTimestamp": time}
