"""A request of the Cluster Autoscaler as an `OptionChoice` without answer: with the last plan of its cluster, and its
pods, which the autoscaler sends in Kubernetes' encoding.

New nodes are as the autoscaler describes them, since it has just built their templates; sizes, prices and health come
from the last snapshot, as the request has none. Unreadable parts are noted and never prevent an answer.

The autoscaler sends the same pod, in the same encoding, with every option that serves it, and often repeats all pods of
one option in the next: each distinct pod is parsed once. An unreadable pod counts as one without requests. A request is
about the named cluster, else the only one that has its node groups. Only this process has the last plans, and they are
lost when it ends. Thread-safe.
"""

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, NamedTuple

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from trimtab.clusterautoscaler import expander_pb2 as ca
from trimtab.common.kubernetes.kinds.pods import Container, PodSpec, Resources
from trimtab.common.kubernetes.object_errors import FieldError
from trimtab.common.kubernetes.pod_requests import amounts, pod_requests
from trimtab.common.kubernetes.quantities import amount_of
from trimtab.k8s.v1 import core_pb2, meta_pb2
from trimtab.planner.model.execution import UNLIMITED, RequestLimits
from trimtab.planner.model.values import NodeGroupInfo
from trimtab.planner.placement.limits import health_reason
from trimtab.planner.snapshot.checks import MAX_AMOUNT, MAX_TOTAL
from trimtab.planner.snapshot.columns import Int64, Snapshot
from trimtab.v1 import option_choice_pb2 as pb
from trimtab.v1 import plan_pb2
from trimtab.v1.plan_pb2 import Expander, PlanSettings
from trimtab.v1.reason_pb2 import NodeGroupReason
from trimtab.words import counted

MOST_CLUSTERS: Final = 64
MAX_AGE_S: Final = 600.0
"""Age up to which sizes and health are used; prices and settings are used for longer."""


@dataclass(frozen=True)
class LastPlan:
    """The input of a plan. made_s : when it was made, monotonic seconds."""

    cluster: str
    settings: plan_pb2.PlanSettings
    groups: tuple[NodeGroupInfo, ...]
    node_count: int
    snapshot_version: str
    made_s: float

    @property
    def is_recent(self) -> bool:
        """Whether sizes and health may be used."""
        return time.monotonic() - self.made_s <= MAX_AGE_S


class ClusterPlan(NamedTuple):
    """The plan of the cluster that a request is about, None = not known; note : why it is not known, "" = it is."""

    plan: LastPlan | None
    note: str = ""


class LastPlans:
    """The last plan of each cluster, of the clusters planned for most recently."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._plans: OrderedDict[str, LastPlan] = OrderedDict()

    def remember(self, request: plan_pb2.PlanRequest, snapshot: Snapshot) -> None:
        """Keep the input of a plan."""
        settings = plan_pb2.PlanSettings()
        settings.CopyFrom(request.settings)
        plan = LastPlan(
            request.cluster,
            settings,
            tuple(snapshot.groups),
            len(snapshot.nodes.name),
            snapshot.version,
            time.monotonic(),
        )
        with self._lock:
            self._plans[request.cluster] = plan
            self._plans.move_to_end(request.cluster)
            while len(self._plans) > MOST_CLUSTERS:
                self._plans.popitem(last=False)

    def find(self, cluster: str, node_groups: Iterable[str]) -> ClusterPlan:
        """Return the last plan of a cluster; cluster "" = the only cluster that has any of the node groups."""
        with self._lock:
            plans = dict(self._plans)
        if cluster:
            last = plans.get(cluster)
            return ClusterPlan(last, "" if last else f"no plan was made for cluster {cluster!r}")
        wanted = set(node_groups)
        having = [plan for plan in plans.values() if any(group.id in wanted for group in plan.groups)]
        if len(having) == 1:
            return ClusterPlan(having[0])
        if having:
            names = ", ".join(sorted(repr(plan.cluster) for plan in having))
            return ClusterPlan(None, f"{names} all have these node groups, name one (--expander-cluster)")
        return ClusterPlan(None, "no plan was made for a cluster with these node groups")


_NOTHING = b""
_MOST_ALIKE: Final = 4
"""Most earlier options that an option is compared with: bounds the work for options that only look alike."""

_Ends = tuple[int, bytes, bytes]


class PodReader:
    """Reads the pods of one request, within its limits.

    shapes : requests of pods, amounts by resource name, milli-cores of cpu, base units of the rest; shape_of : the
    shape of each distinct pod, in order of appearance.
    """

    def __init__(self, limits: RequestLimits) -> None:
        self._limits = limits
        self.shapes: list[dict[str, int]] = []
        self.shape_of: list[int] = []
        self.unreadable = 0
        """Distinct pods that could not be read."""
        self._number: dict[bytes, int] = {}
        self._shape_of_content: dict[bytes, int] = {}
        self._read: dict[_Ends, list[tuple[Sequence[bytes], NDArray[np.int64]]]] = {}

    def read_all(self, pods: Sequence[bytes]) -> NDArray[np.int64]:
        """Return the number of each encoded pod, equal for equal encodings. int64[M], read-only. pods : field of a
        message, unchanged as long as the reader is used. Two such fields are compared without creating an object for
        each pod.
        """
        self._limits.check()
        if not pods:
            return np.zeros(0, np.int64)
        alike = self._read.setdefault((len(pods), pods[0], pods[-1]), [])
        for earlier, numbers in alike:
            if earlier == pods:
                return numbers
        numbers = self._numbers(list(pods))
        if len(alike) < _MOST_ALIKE:
            alike.append((pods, numbers))
        return numbers

    def _numbers(self, raws: list[bytes]) -> NDArray[np.int64]:
        self._limits.reserve(sum(map(len, raws)), "the pods of an option")
        numbers = list(map(self._number.get, raws))
        if None in numbers:
            for raw in raws:
                if raw not in self._number:
                    self._number[raw] = len(self.shape_of)
                    self.shape_of.append(self._shape(raw))
            numbers = list(map(self._number.get, raws))
        shapes = np.array(numbers, np.int64)
        shapes.flags.writeable = False
        return shapes

    def _shape(self, raw: bytes) -> int:
        try:
            spec = core_pb2.RawPod.FromString(raw).spec
            content = _content(spec)
            shape = self._shape_of_content.get(content)
            return self._add(content, bounded(pod_requests(_struct(spec)))) if shape is None else shape
        except (DecodeError, FieldError):
            self.unreadable += 1
            shape = self._shape_of_content.get(_NOTHING)
            return self._add(_NOTHING, {}) if shape is None else shape

    def _add(self, content: bytes, requests: dict[str, int]) -> int:
        self._shape_of_content[content] = len(self.shapes)
        self.shapes.append(requests)
        return len(self.shapes) - 1


def bounded(requests: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Return amounts within those that a snapshot may hold, so that sums and products stay within int64."""
    return {resource: min(max(amount, 0), MAX_AMOUNT) for resource, amount in requests}


def _content(spec: core_pb2.RawPodSpec) -> bytes:
    """Return the encoded fields that determine a pod's requests."""
    without_names = core_pb2.RawPodSpec(overhead=spec.overhead)
    without_names.containers.extend(map(_resources_of, spec.containers))
    without_names.init_containers.extend(map(_resources_of, spec.init_containers))
    if spec.HasField("resources"):
        without_names.resources.CopyFrom(spec.resources)
    return without_names.SerializeToString()


def _resources_of(container: core_pb2.Container) -> core_pb2.Container:
    restart = container.restart_policy if container.HasField("restart_policy") else None
    return core_pb2.Container(resources=container.resources, restart_policy=restart)


def _struct(spec: core_pb2.RawPodSpec) -> PodSpec:
    return PodSpec(
        containers=[_container(container) for container in spec.containers],
        init_containers=[_container(init_container) for init_container in spec.init_containers],
        resources=_resources(spec.resources) if spec.HasField("resources") else None,
        overhead=_quantities(spec.overhead),
    )


def _container(container: core_pb2.Container) -> Container:
    return Container(resources=_resources(container.resources), restart_policy=container.restart_policy or None)


def _resources(resources: core_pb2.ResourceRequirements) -> Resources:
    return Resources(requests=_quantities(resources.requests), limits=_quantities(resources.limits))


def _quantities(entries: Iterable[meta_pb2.QuantityEntry]) -> dict[str, str | int | float]:
    return {entry.key: entry.value.string for entry in entries}


_UNKNOWN: Final = "sizes, prices and health are unknown; only the autoscaler's data is used"


def question(
    request: ca.BestOptionsRequest,
    plan: ClusterPlan,
    settings: PlanSettings,
    now_ns: int,
    limits: RequestLimits = UNLIMITED,
) -> pb.OptionChoice:
    """Return the question. plan : the cluster; settings : those for the choice; now_ns : Unix nanoseconds. Raises what
    `limits` raises.
    """
    options = _distinct(request.options)
    choice = pb.OptionChoice(settings=settings, seed=_seed(options))
    choice.time.FromNanoseconds(now_ns)
    if plan.note:
        choice.notes.append(f"{plan.note}: {_UNKNOWN}")
    group_infos = _known(choice, plan)
    nodes = {**request.node_map, **request.node_bytes_map}
    for name in sorted(nodes.keys() | {option.node_group_id for option in options}):
        group = choice.groups.add(node_group=name)
        _describe(group, nodes.get(name), choice)
        if name in group_infos:
            _add_known(group, group_infos[name], plan, now_ns)
    _add_options(choice, options, PodReader(limits))
    return choice


def _distinct(options: Iterable[ca.Option]) -> list[ca.Option]:
    """Return the first option of each node group."""
    first: dict[str, ca.Option] = {}
    for option in options:
        first.setdefault(option.node_group_id, option)
    return list(first.values())


def _seed(options: Iterable[ca.Option]) -> int:
    """Return a digest of the options that does not depend on their order."""
    content = repr(sorted((option.node_group_id, option.node_count) for option in options)).encode()
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "big")


def _known(choice: pb.OptionChoice, cluster_plan: ClusterPlan) -> Mapping[str, NodeGroupInfo]:
    """Note the cluster; return its node groups."""
    plan = cluster_plan.plan
    if plan is None:
        return {}
    choice.cluster, choice.snapshot_version = plan.cluster, plan.snapshot_version
    choice.cluster_node_count = plan.node_count
    if not plan.is_recent:
        choice.notes.append("the last plan is too old: its sizes and health of node groups are no longer used")
    return {group.id: group for group in plan.groups}


def _describe(group: pb.OptionGroup, raw: bytes | None, choice: pb.OptionChoice) -> None:
    """Write the template of a group's new node, in place."""
    if raw is None:
        choice.notes.append(f"{group.node_group}: no node was sent, so its size is unknown")
        return
    try:
        node = core_pb2.Node.FromString(raw)
        capacity = _amounts(node.status.capacity)
        # As the API server does: with capacity only, all of it is allocatable.
        allocatable = _amounts(node.status.allocatable) if node.status.allocatable else capacity
    except (DecodeError, FieldError) as error:
        choice.notes.append(f"{group.node_group}: its node cannot be read, {error}")
        return
    group.capacity.update(capacity)
    group.allocatable.update(allocatable)
    group.labels.update({label.key: label.value for label in node.metadata.labels})


def _amounts(entries: Iterable[meta_pb2.QuantityEntry]) -> dict[str, int]:
    nano = amounts({entry.key: entry.value.string for entry in entries})
    return bounded((name, amount_of(name, value)) for name, value in nano.items() if value)


def _add_known(group: pb.OptionGroup, info: NodeGroupInfo, plan: ClusterPlan, now_ns: int) -> None:
    """Write the snapshot's data of a group, in place."""
    if not math.isnan(info.price_per_hour):
        group.price_per_hour = info.price_per_hour
    if plan.plan is not None and plan.plan.is_recent:
        group.target_size = info.target_size
        group.unable = NodeGroupReason.Code.ValueType(health_reason(info, now_ns))


def _add_options(choice: pb.OptionChoice, options: list[ca.Option], reader: PodReader) -> None:
    """Write the options and, if CHEAPEST_PLAN needs them, their pods, in place."""
    pods_of = [reader.read_all(option.pod_bytes or option.pod) for option in options]
    shape_of = np.array(reader.shape_of, np.int64)
    for option, pods in zip(options, pods_of, strict=True):
        counts = np.bincount(shape_of[pods], minlength=len(reader.shapes)).tolist()
        choice.options.add(
            node_group=option.node_group_id,
            node_count=max(option.node_count, 0),
            pod_count=len(pods),
            cpu_milli=_total("cpu", reader, counts),
            memory_bytes=_total("memory", reader, counts),
        )
    if reader.unreadable:
        choice.notes.append(f"{counted(reader.unreadable, 'pod')} cannot be read: without requests here")
    if Expander.CHEAPEST_PLAN in choice.settings.scale_up.expanders:
        _add_pods(choice, reader, shape_of, pods_of)


def _total(resource: str, reader: PodReader, counts: list[int]) -> int:
    total = sum(shape.get(resource, 0) * count for shape, count in zip(reader.shapes, counts, strict=True) if count)
    return min(total, MAX_TOTAL)


def _add_pods(choice: pb.OptionChoice, reader: PodReader, shape_of: Int64, pods_of: list[Int64]) -> None:
    """Write pods, one row for all with the same requests and options, in place."""
    member = np.zeros((len(shape_of), len(pods_of)), bool)
    for at, pods in enumerate(pods_of):
        member[pods, at] = True
    rows = np.concatenate([shape_of.astype(">i8").view(np.uint8).reshape(-1, 8), np.packbits(member, axis=1)], axis=1)
    _, first, count = np.unique(rows, axis=0, return_index=True, return_counts=True)
    for pod, pods in zip(first.tolist(), count.tolist(), strict=True):
        row = choice.pods.add(count=pods, options=np.flatnonzero(member[pod]).tolist())
        row.requests.update(reader.shapes[shape_of[pod]])
