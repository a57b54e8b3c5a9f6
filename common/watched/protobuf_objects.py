"""Objects of built-in kinds in Kubernetes' protobuf encoding, to what the API server sends as JSON.

Decides nothing about their meaning: the reader of files reads them. Fields that no struct of `kinds` declares are left
out. Pods, of which there are most, have messages and a reader of their own (`trimtab.k8s.v1`, `watched.pod_reader`).

Cost: 30 microseconds a namespace, 60 a node. Source: k8s.io/api, generated.proto of each group, for the numbers;
types.go for what is optional.
"""

import re
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final, TypeVar

import msgspec
from google.protobuf import descriptor_pb2, message_factory
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message

from trimtab.common.kubernetes.envelope import parsed
from trimtab.k8s.v1 import core_pb2, meta_pb2

S = TypeVar("S", bound=msgspec.Struct)
_PACKAGE: Final = core_pb2.DESCRIPTOR.package
INLINED: Final = ("volume_source", "persistent_volume_source")
"""Messages whose fields JSON places beside those of the enclosing message."""

_TIMES_S: Final = (-62_135_596_800, 253_402_300_799)
"""The first and the last second of the years 1 to 9999: Python has no other ones."""

MESSAGES: Final = """
message Namespace { ObjectMeta metadata = 1; }
message PersistentVolume { ObjectMeta metadata = 1; PersistentVolumeSpec spec = 2;
  PersistentVolumeStatus status = 3; }
message PersistentVolumeSpec { repeated QuantityEntry capacity = 1;
  PersistentVolumeSource persistent_volume_source = 2; repeated string accessModes = 3; ObjectReference claimRef = 4;
  string storageClassName = 6; optional string volumeMode = 8; VolumeNodeAffinity nodeAffinity = 9;
  optional string volumeAttributesClassName = 10; }
message PersistentVolumeSource { GCEPersistentDiskVolumeSource gcePersistentDisk = 1;
  AWSElasticBlockStoreVolumeSource awsElasticBlockStore = 2; CinderVolumeSource cinder = 8;
  AzureDiskVolumeSource azureDisk = 16; CSIPersistentVolumeSource csi = 22; }
message CSIPersistentVolumeSource { string driver = 1; string volumeHandle = 2; }
message ObjectReference { string namespace = 2; string name = 3; string uid = 4; }
message VolumeNodeAffinity { NodeSelector required = 1; }
message PersistentVolumeStatus { string phase = 1; }
message PersistentVolumeClaim { ObjectMeta metadata = 1; PersistentVolumeClaimSpec spec = 2;
  PersistentVolumeClaimStatus status = 3; }
message PersistentVolumeClaimStatus { string phase = 1; }
message ReplicationController { ObjectMeta metadata = 1; ReplicationControllerSpec spec = 2;
  ReplicationControllerStatus status = 3; }
message ReplicationControllerSpec { optional int64 replicas = 1; repeated StringEntry selector = 2;
  PodTemplateSpec template = 3; }
message PodTemplateSpec { ObjectMeta metadata = 1; PodSpec spec = 2; }
message ReplicationControllerStatus { optional int64 replicas = 1; }
message PodTemplate { ObjectMeta metadata = 1; PodTemplateSpec template = 2; }
message ReplicaSet { ObjectMeta metadata = 1; ReplicaSetSpec spec = 2; ReplicaSetStatus status = 3; }
message ReplicaSetSpec { optional int64 replicas = 1; LabelSelector selector = 2; PodTemplateSpec template = 3; }
message ReplicaSetStatus { optional int64 replicas = 1; }
message StatefulSet { ObjectMeta metadata = 1; StatefulSetSpec spec = 2; StatefulSetStatus status = 3; }
message StatefulSetSpec { optional int64 replicas = 1; LabelSelector selector = 2; PodTemplateSpec template = 3; }
message StatefulSetStatus { optional int64 replicas = 2; }
message Deployment { ObjectMeta metadata = 1; DeploymentSpec spec = 2; DeploymentStatus status = 3; }
message DeploymentSpec { optional int64 replicas = 1; LabelSelector selector = 2; PodTemplateSpec template = 3; }
message DeploymentStatus { int64 replicas = 2; }
message DaemonSet { ObjectMeta metadata = 1; DaemonSetSpec spec = 2; DaemonSetStatus status = 3; }
message DaemonSetSpec { LabelSelector selector = 1; PodTemplateSpec template = 2; }
message DaemonSetStatus { optional int64 currentNumberScheduled = 1; optional int64 desiredNumberScheduled = 3; }
message Job { ObjectMeta metadata = 1; JobSpec spec = 2; JobStatus status = 3; }
message JobSpec { optional int64 parallelism = 1; LabelSelector selector = 4; PodTemplateSpec template = 6; }
message JobStatus { int64 active = 4; }
message PodDisruptionBudget { ObjectMeta metadata = 1; PodDisruptionBudgetSpec spec = 2;
  PodDisruptionBudgetStatus status = 3; }
message PodDisruptionBudgetSpec { IntOrString minAvailable = 1; LabelSelector selector = 2;
  IntOrString maxUnavailable = 3; optional string unhealthyPodEvictionPolicy = 4; }
message PodDisruptionBudgetStatus { int64 observedGeneration = 1; repeated TimeEntry disruptedPods = 2;
  optional int64 disruptionsAllowed = 3; optional int64 currentHealthy = 4; optional int64 desiredHealthy = 5;
  optional int64 expectedPods = 6; repeated Condition conditions = 7; }
message TimeEntry { string key = 1; Time value = 2; }
message Condition { string type = 1; string status = 2; Time lastTransitionTime = 4; string reason = 5;
  string message = 6; }
message StorageClass { ObjectMeta metadata = 1; string provisioner = 2; optional string volumeBindingMode = 7;
  repeated TopologySelectorTerm allowedTopologies = 8; }
message TopologySelectorTerm { repeated TopologySelectorLabelRequirement matchLabelExpressions = 1; }
message TopologySelectorLabelRequirement { string key = 1; repeated string values = 2; }
message CSIDriver { ObjectMeta metadata = 1; CSIDriverSpec spec = 2; }
message CSIDriverSpec { optional bool preventPodSchedulingIfMissing = 11; }
message CSINode { ObjectMeta metadata = 1; CSINodeSpec spec = 2; }
message CSINodeSpec { repeated CSINodeDriver drivers = 1; }
message CSINodeDriver { string name = 1; VolumeNodeResources allocatable = 4; }
message VolumeNodeResources { optional int64 count = 1; }
message VolumeAttachment { ObjectMeta metadata = 1; VolumeAttachmentSpec spec = 2; }
message VolumeAttachmentSpec { string attacher = 1; VolumeAttachmentSource source = 2; string nodeName = 3; }
message VolumeAttachmentSource { optional string persistentVolumeName = 1; }
message PriorityClass { ObjectMeta metadata = 1; optional int64 value = 2; bool globalDefault = 3; }
message DeviceClass { ObjectMeta metadata = 1; DeviceClassSpec spec = 2; }
message DeviceClassSpec { repeated DeviceSelector selectors = 1; optional string extendedResourceName = 4; }
message DeviceSelector { CELDeviceSelector cel = 1; }
message CELDeviceSelector { string expression = 1; }
message ResourceSlice { ObjectMeta metadata = 1; ResourceSliceSpec spec = 2; }
message ResourceSliceSpec { string driver = 1; ResourcePool pool = 2; optional string nodeName = 3;
  NodeSelector nodeSelector = 4; optional bool allNodes = 5; repeated Device devices = 6;
  optional bool perDeviceNodeSelection = 7; repeated CounterSet sharedCounters = 8; }
message ResourcePool { string name = 1; optional int64 generation = 2; optional int64 resourceSliceCount = 3; }
message Device { string name = 1; repeated DeviceAttributeEntry attributes = 2;
  repeated DeviceCapacityEntry capacity = 3; repeated DeviceCounterConsumption consumesCounters = 4;
  optional string nodeName = 5; NodeSelector nodeSelector = 6; optional bool allNodes = 7;
  repeated DeviceTaint taints = 8; optional bool bindsToNode = 9; repeated string bindingConditions = 10;
  repeated string bindingFailureConditions = 11; optional bool allowMultipleAllocations = 12; }
message DeviceAttributeEntry { string key = 1; DeviceAttribute value = 2; }
message DeviceAttribute { optional int64 int = 2; optional bool bool = 3; optional string string = 4;
  optional string version = 5; repeated int64 ints = 6; repeated bool bools = 7; repeated string strings = 8;
  repeated string versions = 9; }
message DeviceCapacityEntry { string key = 1; DeviceCapacity value = 2; }
message DeviceCapacity { Quantity value = 1; CapacityRequestPolicy requestPolicy = 2; }
message CapacityRequestPolicy { Quantity default = 1; repeated Quantity validValues = 3;
  CapacityRequestPolicyRange validRange = 4; }
message CapacityRequestPolicyRange { Quantity min = 1; Quantity max = 2; Quantity step = 3; }
message DeviceCounterConsumption { string counterSet = 1; repeated CounterEntry counters = 2; }
message CounterEntry { string key = 1; Counter value = 2; }
message Counter { Quantity value = 1; }
message DeviceTaint { string key = 1; string value = 2; string effect = 3; Time timeAdded = 4; }
message CounterSet { string name = 1; repeated CounterEntry counters = 2; }
message ResourceClaim { ObjectMeta metadata = 1; ResourceClaimSpec spec = 2; ResourceClaimStatus status = 3; }
message ResourceClaimSpec { DeviceClaim devices = 1; }
message DeviceClaim { repeated DeviceRequest requests = 1; repeated DeviceConstraint constraints = 2; }
message DeviceRequest { string name = 1; ExactDeviceRequest exactly = 2;
  repeated DeviceSubRequest firstAvailable = 3; }
message ExactDeviceRequest { string deviceClassName = 1; repeated DeviceSelector selectors = 2;
  string allocationMode = 3; int64 count = 4; optional bool adminAccess = 5;
  repeated DeviceToleration tolerations = 6; CapacityRequirements capacity = 7; }
message DeviceToleration { string key = 1; string operator = 2; string value = 3; string effect = 4; }
message CapacityRequirements { repeated QuantityEntry requests = 1; }
message DeviceSubRequest { string name = 1; string deviceClassName = 2; repeated DeviceSelector selectors = 3;
  string allocationMode = 4; int64 count = 5; repeated DeviceToleration tolerations = 6;
  CapacityRequirements capacity = 7; }
message DeviceConstraint { repeated string requests = 1; optional string matchAttribute = 2;
  optional string distinctAttribute = 3; }
message ResourceClaimStatus { AllocationResult allocation = 1;
  repeated ResourceClaimConsumerReference reservedFor = 2; repeated AllocatedDeviceStatus devices = 4; }
message AllocationResult { DeviceAllocationResult devices = 1; NodeSelector nodeSelector = 3; }
message DeviceAllocationResult { repeated DeviceRequestAllocationResult results = 1; }
message DeviceRequestAllocationResult { string request = 1; string driver = 2; string pool = 3; string device = 4;
  optional bool adminAccess = 5; repeated string bindingConditions = 7; repeated string bindingFailureConditions = 8;
  optional string shareID = 9; repeated QuantityEntry consumedCapacity = 10; }
message ResourceClaimConsumerReference { string apiGroup = 1; string resource = 3; string name = 4; string uid = 5; }
message AllocatedDeviceStatus { string driver = 1; string pool = 2; string device = 3;
  repeated Condition conditions = 4; optional string shareID = 7; }
message ResourceClaimTemplate { ObjectMeta metadata = 1; ResourceClaimTemplateSpec spec = 2; }
message ResourceClaimTemplateSpec { ObjectMeta metadata = 1; ResourceClaimSpec spec = 2; }
message DeviceTaintRule { ObjectMeta metadata = 1; DeviceTaintRuleSpec spec = 2; }
message DeviceTaintRuleSpec { DeviceTaintSelector deviceSelector = 1; DeviceTaint taint = 2; }
message DeviceTaintSelector { optional string driver = 2; optional string pool = 3; optional string device = 4; }
message IntOrString { int64 type = 1; int64 intVal = 2; string strVal = 3; }
"""
"""Messages beside those of `trimtab.k8s.v1`, as a .proto file declares them; `optional`: JSON has a zero or "" too."""

_MESSAGE: Final = re.compile(r"message (\w+) \{(.*?)\}", re.DOTALL)
_FIELD: Final = re.compile(r"(optional |repeated )?(\w+) (\w+) = (\d+);")
_SCALARS: Final = {
    "string": descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
    "int64": descriptor_pb2.FieldDescriptorProto.TYPE_INT64,
    "bool": descriptor_pb2.FieldDescriptorProto.TYPE_BOOL,
}


@cache
def message_type(kind: str) -> type[Message] | None:
    """Return the message of a built-in kind; None if objects of it are read as JSON only."""
    pool = _pool()
    try:
        return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{kind}"))
    except KeyError:
        return None


@cache
def _pool() -> DescriptorPool:
    pool = DescriptorPool()
    for module in (meta_pb2, core_pb2):
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    file = descriptor_pb2.FileDescriptorProto(
        name="objects.proto",
        package=_PACKAGE,
        syntax="proto3",
        dependency=[module.DESCRIPTOR.name for module in (meta_pb2, core_pb2)],
    )
    for name, body in _MESSAGE.findall(MESSAGES):
        message = file.message_type.add(name=name)
        for label, kind, field_name, number in _FIELD.findall(body):
            _add_field(message, label.strip(), kind, field_name, int(number))
    pool.Add(file)
    return pool


def _add_field(message: descriptor_pb2.DescriptorProto, label: str, kind: str, name: str, number: int) -> None:
    field = message.field.add(name=name, number=number, label=descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL)
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        field.type, field.type_name = descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
    if label == "repeated":
        field.label = descriptor_pb2.FieldDescriptorProto.LABEL_REPEATED
    elif label == "optional":
        field.proto3_optional, field.oneof_index = True, len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{name}")


def to_struct(message: Message, struct: type[S]) -> S:
    """Return a message as a declared struct. Fields that it does not declare are ignored."""
    return msgspec.convert(_plain_fields(message), struct)


def to_json(message: type[Message], api_version: str, kind: str, raw: bytes) -> bytes:
    """Return an encoded object as JSON. Raises MalformedAnswerError for bytes that are not a message."""
    return msgspec.json.encode({"apiVersion": api_version, "kind": kind, **_plain_fields(parsed(message, raw))})


def _plain_fields(message: Message) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for field, value in message.ListFields():
        if field.name in INLINED:
            out |= _plain_fields(value)
        else:
            out[field.json_name] = _plain_value(field, value)
    return out


def _plain_value(field: FieldDescriptor, value: Any) -> Any:
    if field.message_type is None:
        return list(value) if field.is_repeated else value
    if field.message_type.name.endswith("Entry"):
        inner = field.message_type.fields_by_name["value"]
        return {entry.key: entry.value if inner.message_type is None else _plain(entry.value) for entry in value}
    return [_plain(item) for item in value] if field.is_repeated else _plain(value)


def _plain(message: Any) -> Any:
    """Return a message as JSON has it: a quantity and a time as text, a number or text as what it is."""
    match message.DESCRIPTOR.name:
        case "Quantity":
            return message.string
        case "Time":
            seconds = min(max(message.seconds, _TIMES_S[0]), _TIMES_S[1])
            return datetime.fromtimestamp(seconds, UTC) if message.seconds or message.nanos else None
        case "IntOrString":
            return message.strVal if message.type == 1 else message.intVal
    return _plain_fields(message)
