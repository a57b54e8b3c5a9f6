"""Values of a cloud as messages of the Cluster Autoscaler's external provider, and back.

Every version can read what is written: nodes, times and durations are in the fields of 1.34 and in those since. Source:
`protos/trimtab/clusterautoscaler/externalgrpc/cloud_provider.proto`.
"""

from collections.abc import Mapping
from typing import Any, Final

from trimtab.actuator.cloud.options import machines_of
from trimtab.actuator.cloud.provider import (
    CloudNodeTemplate,
    GroupOptions,
    Instance,
    InstanceError,
    InstanceState,
    Reservation,
)
from trimtab.actuator.kube.cluster import TaintView
from trimtab.clusterautoscaler.externalgrpc import cloud_provider_pb2 as pb
from trimtab.common.kubernetes.signals import ours, well_known
from trimtab.k8s.v1 import core_pb2, meta_pb2

# Names the group in templates: of a node that does not exist, only labels and annotations come back.
GROUP_ANNOTATION: Final = ours.NODE_GROUP.key
# Source: CA, `cloudprovider.InstanceErrorClass`.
OUT_OF_RESOURCES: Final = 1
OTHER_ERROR: Final = 99
MAX_ERROR_CHARS: Final = 256
_NS: Final = 1_000_000_000

_STATES: Final[Mapping[InstanceState, int]] = {
    InstanceState.CREATING: pb.InstanceStatus.INSTANCE_CREATING,
    InstanceState.RUNNING: pb.InstanceStatus.INSTANCE_RUNNING,
    InstanceState.DELETING: pb.InstanceStatus.INSTANCE_DELETING,
}
_STATE_OF: Final = {value: state for state, value in _STATES.items()}
# Field of the options, of `GroupOptions`, and, of durations, the field of Kubernetes' own form.
_PLAIN: Final = (
    ("scale_down_utilization_threshold", "scale_down_utilization_threshold"),
    ("scale_down_gpu_utilization_threshold", "scale_down_gpu_utilization_threshold"),
    ("zero_or_max_node_scaling", "zero_or_max"),
    ("ignore_daemon_sets_utilization", "ignore_daemon_sets_utilization"),
)
_DURATIONS: Final = (
    ("scale_down_unneeded_duration", "scale_down_unneeded_s", "scale_down_unneeded_time"),
    ("scale_down_unready_duration", "scale_down_unready_s", "scale_down_unready_time"),
    ("max_node_provision_duration", "max_node_provision_s", "max_node_provision_time"),
)


def node_bytes(template: CloudNodeTemplate, group: str) -> bytes:
    """Return a template as an encoded `v1.Node`."""
    node = core_pb2.Node(
        metadata=meta_pb2.ObjectMeta(
            name=f"template-{group}"[:253],
            labels=_entries({**template.labels, well_known.HOSTNAME.key: f"template-{group}"[:63]}),
            annotations=_entries({**template.annotations, GROUP_ANNOTATION: group}),
        ),
        status=core_pb2.NodeStatus(
            capacity=_amounts(template.capacity),
            allocatable=_amounts(template.allocatable),
            conditions=[core_pb2.NodeCondition(type="Ready", status="True")],
        ),
    )
    for taint in template.taints:
        node.spec.taints.add(key=taint.key, value=taint.value, effect=taint.effect)
    return node.SerializeToString(deterministic=True)


def template_of(data: bytes) -> CloudNodeTemplate:
    """Return the template in an encoded `v1.Node`. Raises `google.protobuf.message.DecodeError`.

    A template that reserves neither cpu nor memory is taken as the machine: many providers know nothing else.
    """
    node = core_pb2.Node.FromString(data)
    capacity = {entry.key: entry.value.string for entry in node.status.capacity}
    allocatable = {entry.key: entry.value.string for entry in node.status.allocatable} or capacity
    labels = {entry.key: entry.value for entry in node.metadata.labels}
    reserves = any(allocatable.get(name) != capacity.get(name) for name in ("cpu", "memory"))
    return CloudNodeTemplate(
        labels=labels,
        taints=tuple(TaintView(taint.key, taint.value, taint.effect) for taint in node.spec.taints),
        capacity=capacity,
        allocatable=allocatable,
        annotations={entry.key: entry.value for entry in node.metadata.annotations},
        machines=() if reserves else machines_of(labels, capacity, Reservation.NONE),
    )


def instance_message(instance: Instance) -> pb.Instance:
    """Return an instance; an error counts only while it is being created."""
    message = pb.Instance(id=instance.id)
    message.status.instance_state = _STATES.get(instance.state, 0)  # type: ignore[assignment]
    if instance.error is not None and instance.state is InstanceState.CREATING:
        error = message.status.error_info
        error.error_code = instance.error.code or "Unknown"
        error.error_message = instance.error.message[:MAX_ERROR_CHARS]
        error.instance_error_class = OUT_OF_RESOURCES if instance.error.out_of_resources else OTHER_ERROR
    return message


def instance_of(message: pb.Instance) -> Instance:
    """Return an instance; one without state counts as running, as in the Cluster Autoscaler."""
    state = _STATE_OF.get(message.status.instance_state, InstanceState.RUNNING)
    info, error = message.status.error_info, None
    if state is InstanceState.CREATING and info.error_code:
        error = InstanceError(info.error_code, info.error_message, info.instance_error_class == OUT_OF_RESOURCES)
    return Instance(message.id, state, error)


def changes_defaults(options: GroupOptions, defaults: pb.NodeGroupAutoscalingOptions) -> bool:
    """Return whether a caller with these defaults needs the options of a group."""
    plain = {name: getattr(defaults, field) for field, name in _PLAIN}
    given = plain | {name: _seconds(defaults, field, old_field) for field, name, old_field in _DURATIONS}
    return any(getattr(options, name) not in (None, value) for name, value in given.items())


def lacks_startup_time(defaults: pb.NodeGroupAutoscalingOptions) -> bool:
    """Return whether a caller takes 0 for the time in which nodes start, which no field of the options can set, as soon
    as it gets any options: since 1.35, which sends durations in the new form alone.
    """
    has_old = any(defaults.HasField(old_field) for _, _, old_field in _DURATIONS)  # type: ignore[arg-type]
    return not has_old and any(defaults.HasField(field) for field, _, _ in _DURATIONS)  # type: ignore[arg-type]


def filled_options(options: GroupOptions, defaults: pb.NodeGroupAutoscalingOptions) -> Any:
    """Return the options of a group, with the defaults where it sets none: a field left out would be read as 0."""
    message = pb.NodeGroupAutoscalingOptions()
    message.CopyFrom(defaults)
    for field, name in _PLAIN:
        if getattr(options, name) is not None:
            setattr(message, field, getattr(options, name))
    for field, name, old_field in _DURATIONS:
        seconds = getattr(options, name)
        if seconds is None:
            seconds = _seconds(defaults, field, old_field)
        if seconds is None:
            continue
        getattr(message, field).FromNanoseconds(round(seconds * _NS))
        getattr(message, old_field).duration = round(seconds * _NS)
    return message


def group_options(message: pb.NodeGroupAutoscalingOptions) -> GroupOptions:
    """Return the options of a message; its durations may be in either form."""
    values: dict[str, Any] = {name: getattr(message, field) for field, name in _PLAIN}
    values |= {name: _seconds(message, field, old_field) for field, name, old_field in _DURATIONS}
    return GroupOptions(**values)


def hours(request: pb.PricingNodePriceRequest | pb.PricingPodPriceRequest) -> float:
    """Return the number of hours for which a price is requested."""
    if request.HasField("end_timestamp"):
        span_ns = request.end_timestamp.ToNanoseconds() - request.start_timestamp.ToNanoseconds()
    else:
        start, end = request.start_time, request.end_time
        span_ns = (end.seconds - start.seconds) * _NS + end.nanos - start.nanos
    return span_ns / (3600 * _NS)


def _seconds(message: pb.NodeGroupAutoscalingOptions, field: str, old_field: str) -> float | None:
    if message.HasField(field):  # type: ignore[arg-type]
        return int(getattr(message, field).ToNanoseconds()) / _NS
    return getattr(message, old_field).duration / _NS if message.HasField(old_field) else None  # type: ignore[arg-type]


def _entries(texts: Mapping[str, str]) -> list[meta_pb2.StringEntry]:
    return [meta_pb2.StringEntry(key=key, value=value) for key, value in sorted(texts.items())]


def _amounts(amounts: Mapping[str, str]) -> list[meta_pb2.QuantityEntry]:
    return [
        meta_pb2.QuantityEntry(key=name, value=meta_pb2.Quantity(string=amount))
        for name, amount in sorted(amounts.items())
    ]
