"""Requests of the Cluster Autoscaler's expander client, as each of its versions encodes them."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from tests.builders.kubernetes import node, pod
from tests.builders.kubernetes_protobuf import as_message
from trimtab.clusterautoscaler import expander_pb2 as ca
from trimtab.k8s.v1 import core_pb2, meta_pb2

VERSIONS: Final = ("1.33", "1.34", "1.35", "1.36")
_BYTES, _MESSAGE = descriptor_pb2.FieldDescriptorProto.TYPE_BYTES, descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE
_EMBEDS: Final = ("1.33", "1.34")
_SENDS_BYTES: Final = ("1.34", "1.35", "1.36")

Options = Mapping[str, tuple[int, Sequence[core_pb2.Pod]]]
"""By node group: new nodes, and the pods for them."""


def a_pod(name: str, cpu: str = "1", memory: str = "1Gi") -> core_pb2.Pod:
    """A pending pod."""
    made: Any = as_message(pod(name, requests={"cpu": cpu, "memory": memory}), core_pb2.Pod)
    return core_pb2.Pod.FromString(made.SerializeToString())


def a_node(name: str, cpu: str = "4", memory: str = "16Gi", **labels: str) -> core_pb2.Node:
    """The template of a group's new nodes."""
    made: Any = as_message(node(name, cpu=cpu, memory=memory, labels=labels), core_pb2.Node)
    return core_pb2.Node.FromString(made.SerializeToString())


def sent(options: Options, nodes: Mapping[str, core_pb2.Node], version: str = VERSIONS[-1]) -> ca.BestOptionsRequest:
    """A request, encoded by the messages of a version of the Cluster Autoscaler and parsed by ours."""
    request = _messages(version)()
    for group, (count, pods) in options.items():
        option = request.options.add(nodeGroupId=group, nodeCount=count, debug=f"for {group}")
        if version in _EMBEDS:
            for one in pods:
                option.pod.add().MergeFromString(one.SerializeToString())
        if version in _SENDS_BYTES:
            option.podBytes.extend(one.SerializeToString() for one in pods)
    for group, made in nodes.items():
        if version in _EMBEDS:
            request.nodeMap[group].MergeFromString(made.SerializeToString())
        if version in _SENDS_BYTES:
            request.nodeBytesMap[group] = made.SerializeToString()
    return ca.BestOptionsRequest.FromString(request.SerializeToString())


@cache
def _messages(version: str) -> Any:
    """Return the request's class. Source: expander/grpcplugin/protos/expander.proto of the release branches."""
    file = descriptor_pb2.FileDescriptorProto(name=f"ca-{version}.proto", package="grpcplugin", syntax="proto3")
    file.dependency.append("trimtab/k8s/v1/core.proto")
    option, request = file.message_type.add(name="Option"), file.message_type.add(name="BestOptionsRequest")
    _field(option, "nodeGroupId", 1, descriptor_pb2.FieldDescriptorProto.TYPE_STRING)
    _field(option, "nodeCount", 2, descriptor_pb2.FieldDescriptorProto.TYPE_INT32)
    _field(option, "debug", 3, descriptor_pb2.FieldDescriptorProto.TYPE_STRING)
    _field(request, "options", 1, _MESSAGE, ".grpcplugin.Option", repeated=True)
    if version in _EMBEDS:
        _field(option, "pod", 4, _MESSAGE, ".trimtab.k8s.v1.Pod", repeated=True)
        _map(request, "nodeMap", 2, _MESSAGE, ".trimtab.k8s.v1.Node")
    if version in _SENDS_BYTES:
        _field(option, "podBytes", 5, _BYTES, repeated=True)
        _map(request, "nodeBytesMap", 3, _BYTES)
    pool = descriptor_pool.DescriptorPool()
    for module in (meta_pb2, core_pb2):
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("grpcplugin.BestOptionsRequest"))


def _field(
    message: descriptor_pb2.DescriptorProto,
    name: str,
    number: int,
    kind: Any,
    type_name: str = "",
    repeated: bool = False,
) -> None:
    field = message.field.add(name=name, number=number, type=kind, json_name=name)
    field.label = field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL
    if type_name:
        field.type_name = type_name


def _map(message: descriptor_pb2.DescriptorProto, name: str, number: int, kind: Any, type_name: str = "") -> None:
    entry = message.nested_type.add(name=f"{name[0].upper()}{name[1:]}Entry")
    entry.options.map_entry = True
    _field(entry, "key", 1, descriptor_pb2.FieldDescriptorProto.TYPE_STRING)
    _field(entry, "value", 2, kind, type_name)
    _field(message, name, number, _MESSAGE, f".grpcplugin.BestOptionsRequest.{entry.name}", repeated=True)
