"""Which nodes are ready, which are starting, and what a starting node lacks.

A node is ready with the condition Ready, without a startup or status taint, and with all that its group offers of
extended resources. Otherwise it gives no room and is scaled down like an unready node; while it is young it is
starting, and counts as upcoming. The number of unready nodes decides whether a cluster is healthy enough for
scale-down.

A device plugin advertises an extended resource some time after its node is Ready. So a young node awaits a resource of
which it offers less than its group's template, or less than at least half of its group's nodes; or any GPU, if it has
the label of GPU nodes. When the time for a start is over, it is ready with what it has.
Source: Cluster Autoscaler, utils/kubernetes GetReadinessState, clusterstate.IsClusterHealthy,
processors/customresources (GPU only); for taints named in settings, its Zalando fork.
"""

from typing import Final, NamedTuple

import numpy as np

from trimtab.common.kubernetes.signals import well_known
from trimtab.planner.facts.label_index import LabelIndex
from trimtab.planner.facts.transient_taints import marks_not_ready
from trimtab.planner.model.settings import Readiness
from trimtab.planner.model.values import LabelRequirement
from trimtab.planner.snapshot.columns import Bool, Int32, Snapshot
from trimtab.v1 import snapshot_pb2 as pb

GPU_SUFFIX: Final = "/gpu"
_NOT_EXTENDED: Final = ("hugepages-", "attachable-volumes-")
_ANY_GPU: Final = "a GPU"


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
    ready[[one.row for one in _lacking(snapshot, rules, may_start(snapshot, rules, now_ns))]] = False
    return ready


def may_start(snapshot: Snapshot, rules: Readiness, now_ns: int) -> Bool:
    """Return which nodes are so young that they may still be starting. bool[N]. A node of unknown age has started."""
    created_ns = snapshot.nodes.created_ns
    young: Bool = (created_ns > 0) & (now_ns - created_ns < rules.start_ns)
    return young


def awaited_resources(snapshot: Snapshot, rules: Readiness, now_ns: int) -> list[AwaitedResource]:
    """Return what nodes lack that are Ready and starting, by group, node and resource."""
    return _lacking(snapshot, rules, may_start(snapshot, rules, now_ns) & snapshot.nodes.ready)


def unhealthy(unready: Bool, max_share: float, ok_count: int) -> str:
    """Return why a cluster is not healthy, "" = it is. unready : bool[N], nodes that should be ready and are not."""
    count, total = int(unready.sum()), len(unready)
    if count <= ok_count or count <= max_share * total:
        return ""
    return f"{count} of {total} nodes are unready; no node is removed while more than {max_share:.0%} are"


def _lacking(snapshot: Snapshot, rules: Readiness, young: Bool) -> list[AwaitedResource]:
    """Return what young nodes lack, by group, node and resource. young : bool[N]. O(N log N) if any node is young."""
    nodes = snapshot.nodes
    found: list[AwaitedResource] = []
    if not young.any():
        return found
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
            found += [
                AwaitedResource(row, nodes.name[row], name, int(nodes.allocatable[row, column]), expected)
                for row in members[young[members] & (offered < expected) & ~complete].tolist()
            ]
    known = {one.row for one in found}
    promised = np.flatnonzero(young & (gpu_resource(snapshot, rules.gpu_label) == NO_GPU_YET)).tolist()
    return found + [AwaitedResource(row, nodes.name[row], _ANY_GPU, 0, 1) for row in promised if row not in known]


def _is_extended(resource: str) -> bool:
    """Return whether a resource is offered by a device plugin: its name has a domain, none of Kubernetes' own."""
    return "/" in resource and well_known.OWN_PREFIX.key not in resource and not resource.startswith(_NOT_EXTENDED)


NOT_A_GPU_NODE: Final = -1
NO_GPU_YET: Final = -2


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
