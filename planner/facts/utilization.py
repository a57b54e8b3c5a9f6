"""Utilization of nodes: the larger of the cpu and memory shares; on a GPU node, the share of its GPUs; on a node with
devices of dynamic resource allocation, their share, alone or if it is larger.

Requests over allocatable. Pods whose deletion is overdue and expendable pods do not count. DaemonSet and mirror pods
may be ignored; their requests are then subtracted from both sides. A node without allocatable cpu or memory has no
utilization (NaN). A GPU node whose GPUs are not registered yet counts as unused. Source: Cluster Autoscaler,
simulator/utilization, Calculate.
"""

from typing import NamedTuple

import numpy as np

from trimtab.planner.device_amounts.shares import device_shares
from trimtab.planner.facts.nodes import of_nodes
from trimtab.planner.facts.readiness import GPU_SUFFIX, NO_GPU_YET, NOT_A_GPU_NODE, gpu_resource
from trimtab.planner.model.settings import ScaleDownSettings
from trimtab.planner.snapshot.columns import FLAG_DAEMON, FLAG_MIRROR, Bool, Float64, Int32, Snapshot
from trimtab.planner.snapshot.dictionaries import CPU, MEMORY
from trimtab.planner.snapshot.references import take_or


class Utilization(NamedTuple):
    """share : float64[N], NaN = cannot be computed; gpu : bool[N], the share is that of GPUs; awaits_gpu : bool[N],
    a GPU node whose GPUs are not registered yet; the Cluster Autoscaler counts it as unready."""

    share: Float64
    gpu: Bool
    awaits_gpu: Bool


class NodeUse(NamedTuple):
    """Requests on nodes. requests : float64[R, S] of each spec; used : float64[R, N] sum over the pods of a node, 0 for
    resources that do not count for utilization."""

    requests: Float64
    used: Float64


class _NotCounted(NamedTuple):
    """node, spec : int32 of pods on nodes that do not count; out_node, out_spec : int32 of pods subtracted from both
    sides.
    """

    node: Int32
    spec: Int32
    out_node: Int32
    out_spec: Int32


def node_use(snapshot: Snapshot, requests: Float64) -> NodeUse:
    """Sum the requests on each node. requests : float64[R, S]. O(P · resources used by utilization)."""
    pods = snapshot.pods
    count = len(snapshot.nodes.name)
    placed = pods.node >= 0
    node, spec = pods.node[placed], pods.spec[placed]
    used = np.zeros((len(snapshot.resources), count))
    for resource, name in enumerate(snapshot.resources):
        if resource in (CPU, MEMORY) or name.endswith(GPU_SUFFIX):
            used[resource] = np.bincount(node, weights=requests[resource][spec], minlength=count)
    return NodeUse(requests, used)


def measure(
    snapshot: Snapshot, settings: ScaleDownSettings, gpu_label: str, use: NodeUse, ignored: Bool
) -> Utilization:
    """Return the utilization of every node. `ignored` : bool[P], pods that do not count. O(ignored pods + N·R)."""
    not_counted = _not_counted(snapshot, settings, ignored)
    gpu = gpu_resource(snapshot, gpu_label)
    cpu, memory = (_share(snapshot, not_counted, use, resource) for resource in (CPU, MEMORY))
    share = np.maximum(cpu, memory)
    is_gpu = gpu != NOT_A_GPU_NODE
    share[gpu == NO_GPU_YET] = 0.0
    for resource in np.unique(gpu[gpu >= 0]).tolist():
        mine = gpu == resource
        share[mine] = _share(snapshot, not_counted, use, resource)[mine]
    of_devices = device_shares(snapshot)
    if settings.device_utilization_only:
        share = np.where(np.isnan(of_devices), share, of_devices)
    else:
        share = np.fmax(share, of_devices)
    return Utilization(share, is_gpu, gpu == NO_GPU_YET)


def is_used(snapshot: Snapshot, settings: ScaleDownSettings, utilization: Utilization) -> Bool:
    """Return for each node whether its utilization is above the threshold of its group. bool[N]."""
    usual = of_nodes(snapshot, settings, lambda group: group.utilization_threshold)
    of_gpus = of_nodes(snapshot, settings, lambda group: group.gpu_utilization_threshold)
    used: Bool = utilization.share > np.where(utilization.gpu, of_gpus, usual)
    return used


def _not_counted(snapshot: Snapshot, settings: ScaleDownSettings, ignored: Bool) -> _NotCounted:
    pods = snapshot.pods
    placed = pods.node >= 0
    daemons_out = of_nodes(snapshot, settings, lambda group: group.ignore_daemonsets_utilization)
    out = np.zeros(len(placed), bool)
    if daemons_out.any():
        out |= ((pods.flags & FLAG_DAEMON) != 0) & take_or(daemons_out, pods.node, False)
    if settings.ignore_mirror_pods_utilization:
        out |= (pods.flags & FLAG_MIRROR) != 0
    unused, left_out = np.flatnonzero(placed & ignored), np.flatnonzero(placed & ~ignored & out)
    return _NotCounted(pods.node[unused], pods.spec[unused], pods.node[left_out], pods.spec[left_out])


def _share(snapshot: Snapshot, not_counted: _NotCounted, use: NodeUse, resource: int) -> Float64:
    """Return the share of one resource by node. float64[N], NaN where the node has none."""
    request = use.requests[resource]
    count = len(snapshot.nodes.name)
    ignored = np.bincount(not_counted.node, weights=request[not_counted.spec], minlength=count)
    reserved = np.bincount(not_counted.out_node, weights=request[not_counted.out_spec], minlength=count)
    used = use.used[resource] - ignored - reserved
    room = snapshot.nodes.allocatable[:, resource]
    available = room - reserved
    share = np.full(count, np.nan)
    np.divide(used, available, out=share, where=(room > 0) & (available > 0))
    # A node filled by ignored pods has no usable room: any further use is above every threshold.
    full = (room > 0) & (available <= 0)
    share[full] = np.where(used[full] > 0, np.inf, 0.0)
    return share
