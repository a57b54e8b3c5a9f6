"""Combines a request of the Cluster Autoscaler with the known data of its cluster to an `OptionChoice` without answer.
Decides which source counts: new nodes are as the autoscaler describes them, since it has just built their templates;
sizes, prices and health come from the last snapshot, as the request has none. Unreadable parts are noted and never
prevent an answer.
"""

import math
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Final

import numpy as np
from google.protobuf.message import DecodeError

from trimtab.clusterautoscaler import expander_pb2 as ca
from trimtab.common.kubernetes.object_errors import FieldError
from trimtab.common.kubernetes.pod_requests import amounts
from trimtab.common.kubernetes.quantities import amount_of
from trimtab.k8s.v1 import core_pb2, meta_pb2
from trimtab.planner.expander.clusters import ClusterPlan
from trimtab.planner.expander.pods import PodReader, bounded
from trimtab.planner.model.execution import UNLIMITED, RequestLimits
from trimtab.planner.model.values import NodeGroupInfo
from trimtab.planner.placement.limits import health_reason
from trimtab.planner.snapshot.checks import MAX_TOTAL
from trimtab.planner.snapshot.columns import Int64
from trimtab.v1 import option_choice_pb2 as pb
from trimtab.v1.plan_pb2 import Expander, PlanSettings
from trimtab.v1.reason_pb2 import NodeGroupReason
from trimtab.words import counted

_UNKNOWN: Final = "sizes, prices and health are unknown; only the autoscaler's data is used"


def question(
    request: ca.BestOptionsRequest,
    found: ClusterPlan,
    settings: PlanSettings,
    now_ns: int,
    limits: RequestLimits = UNLIMITED,
) -> pb.OptionChoice:
    """Return the question. found : the cluster; settings : those for the choice; now_ns : Unix nanoseconds. Raises what
    `limits` raises.
    """
    options = _distinct(request.options)
    asked = pb.OptionChoice(settings=settings, seed=_seed(options))
    asked.time.FromNanoseconds(now_ns)
    if found.note:
        asked.notes.append(f"{found.note}: {_UNKNOWN}")
    known = _known(asked, found)
    nodes = {**request.node_map, **request.node_bytes_map}
    for name in sorted(nodes.keys() | {one.node_group_id for one in options}):
        group = asked.groups.add(node_group=name)
        _describe(group, nodes.get(name), asked)
        if name in known:
            _add_known(group, known[name], found, now_ns)
    _add_options(asked, options, PodReader(limits))
    return asked


def _distinct(options: Iterable[ca.Option]) -> list[ca.Option]:
    """Return the first option of each node group."""
    first: dict[str, ca.Option] = {}
    for option in options:
        first.setdefault(option.node_group_id, option)
    return list(first.values())


def _seed(options: Iterable[ca.Option]) -> int:
    """Return a digest of the options that does not depend on their order."""
    content = repr(sorted((one.node_group_id, one.node_count) for one in options)).encode()
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "big")


def _known(asked: pb.OptionChoice, found: ClusterPlan) -> Mapping[str, NodeGroupInfo]:
    """Note the cluster; return its node groups."""
    plan = found.plan
    if plan is None:
        return {}
    asked.cluster, asked.snapshot_version = plan.cluster, plan.snapshot_version
    asked.cluster_node_count = plan.node_count
    if not plan.is_recent:
        asked.notes.append("the last plan is too old: its sizes and health of node groups are no longer used")
    return {group.id: group for group in plan.groups}


def _describe(group: pb.OptionGroup, raw: bytes | None, asked: pb.OptionChoice) -> None:
    """Write the template of a group's new node, in place."""
    if raw is None:
        asked.notes.append(f"{group.node_group}: no node was sent, so its size is unknown")
        return
    try:
        node = core_pb2.Node.FromString(raw)
        capacity = _amounts(node.status.capacity)
        # As the API server does: with capacity only, all of it is allocatable.
        allocatable = _amounts(node.status.allocatable) if node.status.allocatable else capacity
    except (DecodeError, FieldError) as error:
        asked.notes.append(f"{group.node_group}: its node cannot be read, {error}")
        return
    group.capacity.update(capacity)
    group.allocatable.update(allocatable)
    group.labels.update({label.key: label.value for label in node.metadata.labels})


def _amounts(entries: Iterable[meta_pb2.QuantityEntry]) -> dict[str, int]:
    nano = amounts({entry.key: entry.value.string for entry in entries})
    return bounded((name, amount_of(name, value)) for name, value in nano.items() if value)


def _add_known(group: pb.OptionGroup, known: NodeGroupInfo, found: ClusterPlan, now_ns: int) -> None:
    """Write the snapshot's data of a group, in place."""
    if not math.isnan(known.price_per_hour):
        group.price_per_hour = known.price_per_hour
    if found.plan is not None and found.plan.is_recent:
        group.target_size = known.target_size
        group.unable = NodeGroupReason.Code.ValueType(health_reason(known, now_ns))


def _add_options(asked: pb.OptionChoice, options: list[ca.Option], reader: PodReader) -> None:
    """Write the options and, if CHEAPEST_PLAN needs them, their pods, in place."""
    pods_of = [reader.read_all(option.pod_bytes or option.pod) for option in options]
    shape_of = np.array(reader.shape_of, np.int64)
    for option, pods in zip(options, pods_of, strict=True):
        counts = np.bincount(shape_of[pods], minlength=len(reader.shapes)).tolist()
        asked.options.add(
            node_group=option.node_group_id,
            node_count=max(option.node_count, 0),
            pod_count=len(pods),
            cpu_milli=_total("cpu", reader, counts),
            memory_bytes=_total("memory", reader, counts),
        )
    if reader.unreadable:
        asked.notes.append(f"{counted(reader.unreadable, 'pod')} cannot be read: without requests here")
    if Expander.CHEAPEST_PLAN in asked.settings.scale_up.expanders:
        _add_pods(asked, reader, shape_of, pods_of)


def _total(resource: str, reader: PodReader, counts: list[int]) -> int:
    total = sum(shape.get(resource, 0) * count for shape, count in zip(reader.shapes, counts, strict=True) if count)
    return min(total, MAX_TOTAL)


def _add_pods(asked: pb.OptionChoice, reader: PodReader, shape_of: Int64, pods_of: list[Int64]) -> None:
    """Write pods, one row for all with the same requests and options, in place."""
    member = np.zeros((len(shape_of), len(pods_of)), bool)
    for at, pods in enumerate(pods_of):
        member[pods, at] = True
    rows = np.concatenate([shape_of.astype(">i8").view(np.uint8).reshape(-1, 8), np.packbits(member, axis=1)], axis=1)
    _, first, count = np.unique(rows, axis=0, return_index=True, return_counts=True)
    for pod, pods in zip(first.tolist(), count.tolist(), strict=True):
        row = asked.pods.add(count=pods, options=np.flatnonzero(member[pod]).tolist())
        row.requests.update(reader.shapes[shape_of[pod]])
