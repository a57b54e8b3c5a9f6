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


class _Counted(NamedTuple):
    """Node and spec of the pods on nodes that count, and of those left out on both sides. int32 each."""

    node: Int32
    spec: Int32
    out_node: Int32
    out_spec: Int32


def measure(snapshot: Snapshot, settings: ScaleDownSettings, ignored: Bool) -> Utilization:
    """Return the utilization of every node. `ignored` : bool[P], pods that do not count. O(P + N·R)."""
    counted = _counted(snapshot, settings, ignored)
    gpu_resource = _gpu_resource(snapshot, settings.gpu_label)
    cpu, memory = (_share(snapshot, counted, resource) for resource in (CPU, MEMORY))
    share = np.maximum(cpu, memory)
    is_gpu = gpu_resource != NOT_A_GPU_NODE
    share[gpu_resource == NO_GPU_YET] = 0.0
    for resource in np.unique(gpu_resource[gpu_resource >= 0]).tolist():
        mine = gpu_resource == resource
        share[mine] = _share(snapshot, counted, resource)[mine]
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


def _counted(snapshot: Snapshot, settings: ScaleDownSettings, ignored: Bool) -> _Counted:
    pods = snapshot.pods
    counts = (pods.node >= 0) & ~ignored
    daemons_out = _daemons_left_out(snapshot, settings)
    out = np.zeros(len(counts), bool)
    if daemons_out.any():
        out |= counts & ((pods.flags & FLAG_DAEMON) != 0) & daemons_out[pods.node]
    if settings.ignore_mirror_pods_utilization:
        out |= counts & ((pods.flags & FLAG_MIRROR) != 0)
    counts &= ~out
    return _Counted(pods.node[counts], pods.spec[counts], pods.node[out], pods.spec[out])


def _share(snapshot: Snapshot, counted: _Counted, resource: int) -> Float64:
    """Return the share of one resource by node. float64[N], NaN where the node has none."""
    request = _requests(snapshot, snapshot.resources[resource])
    count = len(snapshot.nodes.name)
    used = np.bincount(counted.node, weights=request[counted.spec], minlength=count)
    reserved = np.bincount(counted.out_node, weights=request[counted.out_spec], minlength=count)
    room = snapshot.nodes.allocatable[:, resource]
    left = room - reserved
    share = np.full(count, np.nan)
    np.divide(used, left, out=share, where=(room > 0) & (left > 0))
    # A node filled by what is left out has no room that could be used: any use at all is above every threshold.
    full = (room > 0) & (left <= 0)
    share[full] = np.where(used[full] > 0, np.inf, 0.0)
    return share


def _requests(snapshot: Snapshot, name: str) -> Float64:
    """Return what each spec asks of a resource. float64[S], exact below 2^53."""
    return np.array(
        [next((amount for key, amount in spec.requests if key == name), 0) for spec in snapshot.specs], float
    )
