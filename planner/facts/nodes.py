"""Properties of nodes: being deleted, prices, costs of eviction, NodePool of Karpenter, attach limits.

A node is being deleted if the actuator reports it, if its object says so, if it has a taint of somebody who takes it
away, or if it has the Cluster Autoscaler's taint of a deletion: as long as it is younger than the longest time that a
cloud provider has for a deletion, or if its value is not a time. One that has not registered with Karpenter
in time is taken away, too. Source: Cluster Autoscaler, actuation.IsNodeBeingDeleted, taints.GetToBeDeletedTime;
Karpenter, nodeclaim/lifecycle/liveness; the registry of signals.

The price of a node is its own, else that of its node group. Where the snapshot has none, people see assumed ones by cpu
and memory: no decision rests on these, and known and assumed ones are never added.

Attach limits of new nodes, and of nodes on which a CSI driver is not registered yet, are those that the node group's
template states, or else the most that one of the group's nodes has: volumes that are attached without a pod lower that
of their own node alone. Without any, the driver counts as without limit, as for the scheduler. Source: KEP-5030, in
which the Cluster Autoscaler takes the limits of a new node from a node of its group.

Utilization is the larger of the cpu and memory shares; on a GPU node, the share of its GPUs; on a node with devices of
dynamic resource allocation, their share, alone or if it is larger. Requests over allocatable; pods whose deletion is
overdue and expendable pods do not count, DaemonSet and mirror pods may be ignored, on both sides. NaN without
allocatable cpu or memory; a GPU node whose GPUs are not registered yet counts as unused. Source: Cluster Autoscaler,
simulator/utilization, Calculate.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.common.kubernetes.signals.cluster_autoscaler import TO_BE_DELETED
from trimtab.common.kubernetes.signals.karpenter import DO_NOT_DISRUPT, NODE_POOL, UNREGISTERED
from trimtab.common.kubernetes.signals.table import marks_leaving
from trimtab.planner.device_amounts.shares import device_shares
from trimtab.planner.facts.labels import codes_by_label_set
from trimtab.planner.facts.readiness import GPU_SUFFIX, NO_GPU_YET, NOT_A_GPU_NODE, gpu_resource
from trimtab.planner.model.settings import SECOND_NS, ScaleDownSettings
from trimtab.planner.model.settings.scale_down import GroupScaleDownSettings
from trimtab.planner.model.values import NodeGroupInfo, NodeTraits, TaintSpec
from trimtab.planner.snapshot.caches import SnapshotKey
from trimtab.planner.snapshot.columns import FLAG_DAEMON, FLAG_MIRROR, Bool, Float64, Int32, Int64, Snapshot
from trimtab.planner.snapshot.dictionaries import CPU, MEMORY
from trimtab.planner.snapshot.references import take_or
from trimtab.planner.snapshot.texts import string_index
from trimtab.prices import ASSUMED_PER_CORE, ASSUMED_PER_GIB

LONGEST_DELETION_S: Final = 300
REGISTRATION_NS: Final = 15 * 60 * SECOND_NS
"""How long Karpenter waits for a node to register before it takes it away."""
_TIME: Final = re.compile("[0-9]{1,18}")
"""A time in Unix seconds. More digits are none, and too many of them are refused by `int`."""
_EXPECTED_COST_SHIFT: Final = (2.0**27, 2.0**25)
NO_POOL: Final = -1
ALWAYS_S: Final = 2**62
"""Later than any time."""
ASSUMPTION: Final = f"assumed: {ASSUMED_PER_CORE:g} a core and {ASSUMED_PER_GIB:g} a GiB of memory an hour"
_RATES: Final = {"cpu": ASSUMED_PER_CORE / 1000, "memory": ASSUMED_PER_GIB / (1 << 30)}
Limits = dict[str, int]


def being_deleted(snapshot: Snapshot, now_ns: int) -> Bool:
    """Return for each node whether it is being deleted. bool[N]."""
    nodes = snapshot.nodes
    now_s = now_ns // SECOND_NS
    marked = [any(_is_leaving(taint, now_s) for taint in taints) for taints in nodes.taint_sets]
    leaving = np.array([*marked, False], bool)[nodes.taint_set] | nodes.being_deleted
    unregistered = [any(taint.key == UNREGISTERED.key for taint in taints) for taints in nodes.taint_sets]
    started = (nodes.created_ns > 0) & (now_ns - nodes.created_ns >= REGISTRATION_NS)
    leaving |= np.array([*unregistered, False], bool)[nodes.taint_set] & started
    for deletion in snapshot.deletions:
        node = string_index(nodes.name, deletion.node)
        if node >= 0:
            leaving[node] = True
    return leaving


def _is_leaving(taint: TaintSpec, now_s: int) -> bool:
    if taint.key != TO_BE_DELETED.key:
        return marks_leaving(taint.key)
    return _TIME.fullmatch(taint.value) is None or now_s - int(taint.value) < LONGEST_DELETION_S


def group_prices(groups: Iterable[NodeGroupInfo]) -> Float64:
    """Return the price per hour of a node of each group. float64[G], NaN = unknown."""
    return np.array([group.price_per_hour for group in groups], np.float64)


def prices(snapshot: Snapshot) -> Float64:
    """Return the price per hour of each node. float64[N], NaN = unknown."""
    by_group = np.append(group_prices(snapshot.groups), np.nan)
    own = snapshot.nodes.own_price
    return np.where(np.isnan(own), by_group[snapshot.nodes.group], own)


def savings(price: Float64) -> Float64:
    """Return the saving by removing each node : float64[N], its price; if unknown, the mean price; without prices, 1.

    price : float64[N] per hour, NaN = unknown.
    """
    has_price = ~np.isnan(price)
    return np.where(has_price, price, total(price[has_price]) / int(has_price.sum()) if has_price.any() else 1.0)


def total(numbers: Float64) -> float:
    """Return the sum of numbers : float64[M], added one after the other; NaN counts as 0.

    numpy's `sum` adds blocks, whose rounding depends on the machine; answers and states have the same bytes on all.
    """
    return float(np.cumsum(np.nan_to_num(numbers))[-1]) if len(numbers) else 0.0


def eviction_ratings(snapshot: Snapshot, priority: Int64) -> Float64:
    """Return the cost of evicting each pod. priority : int64[S] of the specs. float64[P].

    1 + deletion cost / 2^27 + priority / 2^25, clamped to -10 to 10. Source: Karpenter, disruption cost.
    """
    return eviction_rating(snapshot.pods.deletion_cost, priority, snapshot.pods.spec)


def eviction_rating(cost: Int32 | Float64, priority: Int64, spec: Int32 | None = None) -> Float64:
    """Return the cost of evicting pods. cost : [M] deletion costs; priority : int64[M], or by spec; spec : int32[M].
    float64[M]."""
    by_cost, by_priority = _EXPECTED_COST_SHIFT
    of_priority = priority.astype(np.float64) / by_priority
    of_pod = of_priority if spec is None else of_priority[spec]
    return np.clip(1.0 + cost / by_cost + of_pod, -10.0, 10.0)


def eviction_costs(snapshot: Snapshot, rating: Float64, moving: Bool) -> Float64:
    """Return the summed cost of all moving pods of each node. rating : float64[P]; moving : bool[P]. float64[N]."""
    # Without any pods, bincount would count instead of adding.
    cost = np.bincount(snapshot.pods.node[moving], weights=rating[moving], minlength=len(snapshot.nodes.name))
    return cost.astype(np.float64)


def pools_of_nodes(snapshot: Snapshot) -> Int32:
    """Return the NodePool of each node, by the label that Karpenter gives its nodes: the string of the label's value,
    NO_POOL = it has none. int32[N]. O(L + N)."""
    pool: Int32 = codes_by_label_set(snapshot, NODE_POOL.key)[snapshot.nodes.label_set]
    return pool


def undisrupted_until_s(snapshot: Snapshot) -> Int64:
    """Return until when the annotation of each pod keeps it where it is, Unix seconds, 0 = it has none. int64[P]. Pods
    of DaemonSets and of nodes themselves count, too, as in Karpenter; those that have ended or are being deleted do
    not."""
    pods = snapshot.pods
    until = np.zeros(len(pods.spec), np.int64)
    mine = np.flatnonzero(pods.number_key == string_index(snapshot.strings, DO_NOT_DISRUPT.key))
    number = pods.number[mine]
    until[pods.number_pod[mine]] = np.where(np.isfinite(number), np.nan_to_num(number), ALWAYS_S).astype(np.int64)
    until[pods.is_terminal() | (pods.deletion_s != 0)] = 0
    return until


class ShownPrices(NamedTuple):
    """Prices per hour, NaN = unknown. node : float64[N]; group : float64[G] of a new node; assumption : "" = none."""

    node: Float64
    group: Float64
    assumption: str


class ShownPricesKey(SnapshotKey[ShownPrices]):
    """The prices to show."""


def shown_prices(snapshot: Snapshot) -> ShownPrices:
    """Return the prices to show. O(N + G)."""
    node = prices(snapshot)
    group = group_prices(snapshot.groups)
    shown = node if len(node) else group
    if not len(shown) or not np.isnan(shown).all():
        return ShownPrices(node, group, "")
    return ShownPrices(_rated(snapshot, snapshot.nodes.allocatable), _of_new_nodes(snapshot), ASSUMPTION)


def _rated(snapshot: Snapshot, allocatable: Int64) -> Float64:
    """Return the prices of nodes by what they offer, rounded to millionths. allocatable : int64[M, R]. float64[M]."""
    rates = np.array([_RATES.get(name, 0.0) for name in snapshot.resources], np.float64)
    rated: Float64 = np.round((allocatable * rates).sum(axis=1), 6)
    return rated


def _of_new_nodes(snapshot: Snapshot) -> Float64:
    """Return the price of a new node of each group: by its template, else its nodes' mean, else NaN. float64[G]."""
    count = len(snapshot.groups)
    group, price = snapshot.nodes.group, _rated(snapshot, snapshot.nodes.allocatable)
    ours = group >= 0
    number = np.bincount(group[ours], minlength=count)
    mean = np.full(count, np.nan)
    np.divide(np.bincount(group[ours], price[ours], count), number, out=mean, where=number > 0)
    of_template = _rated(snapshot, snapshot.templates.allocatable)
    for row, group_info in enumerate(snapshot.groups):
        if group_info.template >= 0 and of_template[group_info.template] > 0:
            mean[row] = of_template[group_info.template]
    return np.round(mean, 6)


def limits_by_group(snapshot: Snapshot) -> list[Limits]:
    """Return the attach limits by driver that each node group is known to have."""
    by_group: list[Limits] = [{} for _ in snapshot.groups]
    traits, groups = snapshot.nodes.traits, snapshot.nodes.group
    for node in [at for at, entry in enumerate(traits) if entry.attach_limits and groups[at] >= 0]:
        limits = by_group[groups[node]]
        for driver, count in traits[node].attach_limits:
            limits[driver] = max(count, limits.get(driver, count))
    for limits, entry in zip(by_group, snapshot.groups, strict=True):
        if entry.template >= 0:
            limits.update(snapshot.templates.traits[entry.template].attach_limits)
    return by_group


def with_limits(traits: NodeTraits, limits: Limits) -> NodeTraits:
    """Return traits with the limits of the drivers for which they have none."""
    own = dict(traits.attach_limits)
    if limits.keys() <= own.keys():
        return traits
    return traits._replace(attach_limits=tuple(sorted((limits | own).items())))


def of_new_node(traits: NodeTraits, limits: Limits) -> NodeTraits:
    """Return the traits of a new node that is modelled on a node with these, in whose group these limits are known."""
    return traits._replace(attach_limits=tuple(sorted((dict(traits.attach_limits) | limits).items())))


def planned_traits(snapshot: Snapshot) -> Sequence[NodeTraits]:
    """Return the traits of each node with the limits of its group."""
    limits, traits = limits_by_group(snapshot), snapshot.nodes.traits
    if not any(limits):
        return traits
    groups = snapshot.nodes.group.tolist()
    return [
        with_limits(node_traits, limits[group]) if group >= 0 else node_traits
        for node_traits, group in zip(traits, groups, strict=True)
    ]


def of_nodes(
    snapshot: Snapshot, settings: ScaleDownSettings, setting: Callable[[GroupScaleDownSettings], float]
) -> NDArray[Any]:
    """Return a setting of each node: that of its node group, else the general one. O(G + N)."""
    of_groups = [settings.of_group(group.id) for group in snapshot.groups]
    by_node: NDArray[Any] = np.array([setting(group) for group in [*of_groups, settings.general]])[snapshot.nodes.group]
    return by_node


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


def _not_counted(snapshot: Snapshot, settings: ScaleDownSettings, ignored: Bool) -> tuple[Int64, Int64]:
    """Return the pods on nodes that do not count, and those that are subtracted on both sides."""
    pods = snapshot.pods
    placed = pods.node >= 0
    daemons_out = of_nodes(snapshot, settings, lambda group: group.ignore_daemonsets_utilization)
    out = np.zeros(len(placed), bool)
    if daemons_out.any():
        out |= ((pods.flags & FLAG_DAEMON) != 0) & take_or(daemons_out, pods.node, False)
    if settings.ignore_mirror_pods_utilization:
        out |= (pods.flags & FLAG_MIRROR) != 0
    return np.flatnonzero(placed & ignored), np.flatnonzero(placed & ~ignored & out)


def _share(snapshot: Snapshot, not_counted: tuple[Int64, Int64], use: NodeUse, resource: int) -> Float64:
    """Return the share of one resource by node. float64[N], NaN where the node has none."""
    request, pods, count = use.requests[resource], snapshot.pods, len(snapshot.nodes.name)
    ignored, reserved = (
        np.bincount(pods.node[rows], weights=request[pods.spec[rows]], minlength=count) for rows in not_counted
    )
    used = use.used[resource] - ignored - reserved
    room = snapshot.nodes.allocatable[:, resource]
    available = room - reserved
    share = np.full(count, np.nan)
    np.divide(used, available, out=share, where=(room > 0) & (available > 0))
    # A node filled by ignored pods has no usable room: any further use is above every threshold.
    full = (room > 0) & (available <= 0)
    share[full] = np.where(used[full] > 0, np.inf, 0.0)
    return share
