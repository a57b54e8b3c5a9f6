"""How much of a node is asked for: the larger share of cpu and memory; on a GPU node, the share of its GPUs.

Requests over allocatable. Pods whose deletion is overdue and expendable pods do not count; DaemonSet and mirror pods
may be left out, then their requests are taken off both sides. A node that can give nothing of cpu or memory has no
utilization (NaN). A GPU node whose GPUs are not there yet counts as unused.
Source: Cluster Autoscaler, simulator/utilization, Calculate.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from trimtab.v1 import snapshot_pb2 as pb

from planner.model.settings import ScaleDownSettings
from planner.model.values import LabelRequirement
from planner.scale_down.label_index import LabelIndex
from planner.snapshot.columns import FLAG_DAEMON, FLAG_MIRROR, Bool, Int32, Snapshot

Float64 = NDArray[np.float64]

GPU_SUFFIX: Final = "/gpu"
CPU, MEMORY = 0, 1
"""Positions in `Snapshot.resources`."""


class Utilization(NamedTuple):
    """share : float64[N], NaN = cannot be computed; gpu : bool[N], the share is that of GPUs."""

    share: Float64
    gpu: Bool


def measure(snapshot: Snapshot, settings: ScaleDownSettings, ignored: Bool) -> Utilization:
    """Return the utilization of every node. `ignored` : bool[P], pods that do not count. O(P + N·R)."""
    daemons_out = _daemons_left_out(snapshot, settings)
    gpu_resource = _gpu_resource(snapshot, settings.gpu_label)
    shares = [
        _share(snapshot, settings, ignored, daemons_out, np.full(len(gpu_resource), resource, np.int32))
        for resource in (CPU, MEMORY)
    ]
    share = np.maximum(*shares)
    is_gpu = gpu_resource != NOT_A_GPU_NODE
    if is_gpu.any():
        of_gpu = _share(snapshot, settings, ignored, daemons_out, np.maximum(gpu_resource, 0))
        of_gpu[gpu_resource == NO_GPU_YET] = 0.0
        share = np.where(is_gpu, of_gpu, share)
    return Utilization(share, is_gpu)


NOT_A_GPU_NODE: Final = -1
NO_GPU_YET: Final = -2


def _gpu_resource(snapshot: Snapshot, gpu_label: str) -> Int32:
    """Return by node its first resource that is a GPU, NO_GPU_YET when only the label says so. int32[N]."""
    nodes = snapshot.nodes
    resource = np.full(len(nodes.name), NOT_A_GPU_NODE, np.int32)
    if gpu_label:
        exists = (LabelRequirement(gpu_label, pb.LabelOperator.EXISTS, ()),)
        labelled = LabelIndex(snapshot.strings, snapshot.label_sets).matching(exists)
        resource[labelled[nodes.label_set]] = NO_GPU_YET
    for r in range(len(snapshot.resources) - 1, -1, -1):
        if snapshot.resources[r].endswith(GPU_SUFFIX):
            resource[nodes.allocatable[:, r] > 0] = r
    return resource


def _daemons_left_out(snapshot: Snapshot, settings: ScaleDownSettings) -> Bool:
    by_group = [settings.of_group(group.id).ignore_daemonsets_utilization for group in snapshot.groups]
    out: Bool = np.array([*by_group, settings.general.ignore_daemonsets_utilization], bool)[snapshot.nodes.group]
    return out


def _share(
    snapshot: Snapshot, settings: ScaleDownSettings, ignored: Bool, daemons_out: Bool, resource: Int32
) -> Float64:
    """Return by node the share of the one resource that is named for it. float64[N]."""
    pods, nodes = snapshot.pods, snapshot.nodes
    count = len(nodes.name)
    on_node = np.flatnonzero(pods.node >= 0)
    node = pods.node[on_node]
    amount = _requests(snapshot, np.unique(resource))[pods.spec[on_node], resource[node]]
    flags = pods.flags[on_node]
    left_out = ((flags & FLAG_DAEMON) != 0) & daemons_out[node]
    if settings.ignore_mirror_pods_utilization:
        left_out |= (flags & FLAG_MIRROR) != 0
    counted = ~left_out & ~ignored[on_node]
    used = np.bincount(node[counted], weights=amount[counted], minlength=count)
    reserved = np.bincount(node[left_out], weights=amount[left_out], minlength=count)
    room = nodes.allocatable[np.arange(count), resource]
    share = np.full(count, np.nan)
    # A node filled by what is left out has no room that could be used: any use at all is above every threshold.
    left = room - reserved
    np.divide(used, left, out=share, where=(room > 0) & (left > 0))
    share[(room > 0) & (left <= 0)] = np.where(used[(room > 0) & (left <= 0)] > 0, np.inf, 0.0)
    return share


def _requests(snapshot: Snapshot, resources: Int32) -> Float64:
    """Return requests by spec and resource; columns not asked for stay 0. float64[S, R], exact below 2^53."""
    table = np.zeros((len(snapshot.specs), len(snapshot.resources)))
    columns = {snapshot.resources[r]: int(r) for r in resources}
    for row, spec in enumerate(snapshot.specs):
        for name, amount in spec.requests:
            if name in columns:
                table[row, columns[name]] = amount
    return table
