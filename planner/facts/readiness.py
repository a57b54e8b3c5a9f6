"""Which nodes are ready, which are starting or still to come, what a starting node lacks, and taints that do not last.

A node is ready with the condition Ready, without a startup or status taint, and with all that its group offers of
extended resources. Otherwise it gives no room and is scaled down like an unready node; while it is young it is
starting, and counts as upcoming. The number of unready nodes decides whether a cluster is healthy enough for
scale-down.

A device plugin advertises an extended resource some time after its node is Ready. So a young node awaits a resource of
which it offers less than its group's template, or less than at least half of its group's nodes; or any GPU, if it has
the label of GPU nodes. When the time for a start is over, it is ready with what it has.

Upcoming nodes are requested but not able to take pods yet: not registered, or still starting. A node that is being
deleted is registered and not starting: as long as its group's target size counts it, no other node comes for it.
Requested nodes no longer count when the group is in back-off, or when its last growth is longer ago than a cloud may
take. Upstream counts a node that is being drained as upcoming, so that pods wait for a node that never comes.

Source: Cluster Autoscaler, utils/kubernetes GetReadinessState, clusterstate.IsClusterHealthy, GetUpcomingNodes and
updateReadinessStats, processors/customresources (GPU only); utils/taints (NodeConditionTaints, SanitizeTaints,
TaintConfig); for taints named in settings, its Zalando fork.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np

from trimtab.common.kubernetes.signals import cluster_autoscaler, well_known
from trimtab.common.kubernetes.signals.table import STARTING_TAINTS, marks_leaving
from trimtab.planner.facts.labels import LabelIndex
from trimtab.planner.model.settings import Readiness, ScaleDownSettings, TaintNames
from trimtab.planner.model.values import LabelRequirement, TaintSpec
from trimtab.planner.snapshot.columns import Bool, Int32, Int64, Snapshot
from trimtab.v1 import snapshot_pb2 as pb
from trimtab.v1.snapshot_pb2 import NodeGroupHealth

GPU_SUFFIX: Final = "/gpu"
NOT_A_GPU_NODE: Final = -1
NO_GPU_YET: Final = -2
_NOT_EXTENDED: Final = ("hugepages-", "attachable-volumes-")
_ANY_GPU: Final = "a GPU"
_TRANSIENT: Final = STARTING_TAINTS | {
    row.key
    for row in (
        cluster_autoscaler.TO_BE_DELETED,
        cluster_autoscaler.DELETION_CANDIDATE,
        well_known.UNREACHABLE,
        well_known.UNSCHEDULABLE,
        well_known.MEMORY_PRESSURE,
        well_known.DISK_PRESSURE,
        well_known.PID_PRESSURE,
        well_known.OUT_OF_SERVICE,
        well_known.IMPAIRED_VOLUMES,
    )
}
_STARTUP_PREFIXES: Final = (cluster_autoscaler.IGNORE_TAINT.key, cluster_autoscaler.STARTUP_TAINT.key)
_STATUS_PREFIX: Final = cluster_autoscaler.STATUS_TAINT.key


class AwaitedResource(NamedTuple):
    """What a starting node lacks. row : of the node; resource : "a GPU" = any, as its label promises; offered, expected
    : amounts."""

    row: int
    node: str
    resource: str
    offered: int
    expected: int

    @property
    def is_counted(self) -> bool:
        """Whether the amounts are known, not only that some GPU is promised."""
        return self.resource != _ANY_GPU


def is_ready(snapshot: Snapshot, rules: Readiness, now_ns: int) -> Bool:
    """Return which nodes are ready. bool[N]. O(N · extended resources)."""
    sets = [any(marks_not_ready(taint.key, rules) for taint in taints) for taints in snapshot.nodes.taint_sets]
    ready: Bool = snapshot.nodes.ready & ~np.array([*sets, False], bool)[snapshot.nodes.taint_set]
    ready[[awaited.row for awaited in _lacking(snapshot, rules, may_start(snapshot, rules, now_ns))]] = False
    return ready


def may_start(snapshot: Snapshot, rules: Readiness, now_ns: int) -> Bool:
    """Return which nodes are so young that they may still be starting. bool[N]. A node of unknown age has started."""
    created_ns = snapshot.nodes.created_ns
    young: Bool = (created_ns > 0) & (now_ns - created_ns < rules.start_ns)
    return young


def awaited_resources(snapshot: Snapshot, rules: Readiness, now_ns: int) -> list[AwaitedResource]:
    """Return what nodes lack that are Ready and starting, by group, node and resource."""
    return _lacking(snapshot, rules, may_start(snapshot, rules, now_ns) & snapshot.nodes.ready)


def unhealthy(
    snapshot: Snapshot, ready: Bool, leaving: Bool, rules: Readiness, limits: ScaleDownSettings, now_ns: int
) -> str:
    """Return why a cluster is not healthy, "" = it is. ready, leaving : bool[N]; nodes that are being deleted, or may
    still be starting, need not be ready."""
    unready = ~ready & ~leaving & ~may_start(snapshot, rules, now_ns)
    count, total, max_share = int(unready.sum()), len(unready), limits.max_unready_percentage / 100
    if count <= limits.ok_unready_count or count <= max_share * total:
        return ""
    return f"{count} of {total} nodes are unready; no node is removed while more than {max_share:.0%} are"


def _lacking(snapshot: Snapshot, rules: Readiness, young: Bool) -> list[AwaitedResource]:
    """Return what young nodes lack, by group, node and resource. young : bool[N]. O(N log N) if any node is young."""
    nodes = snapshot.nodes
    awaited: list[AwaitedResource] = []
    if not young.any():
        return awaited
    columns = [(at, name) for at, name in enumerate(snapshot.resources) if _is_extended(name)]
    order = np.argsort(nodes.group, kind="stable")
    sorted_groups = nodes.group[order]
    for group in np.unique(nodes.group[young & (nodes.group >= 0)]).tolist() if columns else ():
        members = order[slice(*np.searchsorted(sorted_groups, (group, group + 1)))]
        template = snapshot.groups[group].template
        for column, name in columns:
            offered = nodes.allocatable[members, column]
            expected = int(np.sort(offered)[len(members) // 2])
            if template >= 0:
                expected = max(expected, int(snapshot.templates.allocatable[template, column]))
            # A group may bring nodes of several sizes: what a started node offers is all that comes.
            complete = (offered > 0) & np.isin(offered, offered[~young[members]])
            awaited += [
                AwaitedResource(row, nodes.name[row], name, int(nodes.allocatable[row, column]), expected)
                for row in members[young[members] & (offered < expected) & ~complete].tolist()
            ]
    without = {resource.row for resource in awaited}
    promised = np.flatnonzero(young & (gpu_resource(snapshot, rules.gpu_label) == NO_GPU_YET)).tolist()
    return awaited + [AwaitedResource(row, nodes.name[row], _ANY_GPU, 0, 1) for row in promised if row not in without]


def _is_extended(resource: str) -> bool:
    """Return whether a resource is offered by a device plugin: its name has a domain, none of Kubernetes' own."""
    return "/" in resource and well_known.OWN_PREFIX.key not in resource and not resource.startswith(_NOT_EXTENDED)


def gpu_resource(snapshot: Snapshot, gpu_label: str) -> Int32:
    """Return each node's first GPU resource, NO_GPU_YET if it only has the label. int32[N]."""
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


def upcoming(snapshot: Snapshot, leaving: Bool, now_ns: int, rules: Readiness) -> Int64:
    """Return the number of upcoming nodes of each group. int64[G], at least 0. leaving : bool[N], being deleted."""
    nodes, groups = snapshot.nodes, snapshot.groups
    starts = starting(snapshot, now_ns, rules) & ~leaving & (nodes.group >= 0)
    missing = unregistered(snapshot)
    missing[overdue(snapshot, now_ns, rules)] = 0
    missing[[group.health == NodeGroupHealth.BACKED_OFF for group in groups]] = 0
    # The cloud removes nodes above the target size, including starting ones.
    target = np.array([group.target_size for group in groups], np.int64)
    coming: Int64 = np.minimum(missing + np.bincount(nodes.group[starts], minlength=len(groups)), target)
    return coming


def overdue(snapshot: Snapshot, now_ns: int, rules: Readiness) -> Bool:
    """Return which groups lack nodes that were requested longer ago than a cloud may take. bool[G]."""
    asked_ns = np.array([group.last_scale_up_ns for group in snapshot.groups], np.int64)
    late: Bool = (unregistered(snapshot) > 0) & (asked_ns > 0) & (now_ns - asked_ns > rules.provision_ns)
    return late


def starting(snapshot: Snapshot, now_ns: int, rules: Readiness) -> Bool:
    """Return which nodes have registered but not started yet. bool[N]. A node of unknown age has started."""
    starts: Bool = may_start(snapshot, rules, now_ns) & ~is_ready(snapshot, rules, now_ns)
    return starts


def unregistered(snapshot: Snapshot) -> Int64:
    """Return how many nodes of each group's target size have not registered. int64[G]."""
    group = snapshot.nodes.group
    registered = np.bincount(group[group >= 0], minlength=len(snapshot.groups))
    target = np.array([group_info.target_size for group_info in snapshot.groups], np.int64)
    missing: Int64 = np.maximum(target - registered, 0)
    return missing


def is_startup_taint(key: str, startup: TaintNames) -> bool:
    """Return whether a taint is removed once its node has started. startup : additional ones named in the settings."""
    return key in STARTING_TAINTS or key.startswith(_STARTUP_PREFIXES) or startup.match(key)


def marks_not_ready(key: str, rules: Readiness) -> bool:
    """Return whether a node with this taint is not ready."""
    return is_startup_taint(key, rules.startup) or key.startswith(_STATUS_PREFIX) or rules.status.match(key)


def lasting(taints: Iterable[TaintSpec], rules: Readiness) -> tuple[TaintSpec, ...]:
    """Return the taints that a new node keeps, in their order."""
    return tuple(
        taint
        for taint in taints
        if not (taint.key in _TRANSIENT or marks_leaving(taint.key) or marks_not_ready(taint.key, rules))
    )
