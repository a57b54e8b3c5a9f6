"""What a plan says about attach limits that no CSINode tells. O(mounts + groups)."""

import numpy as np

from trimtab.planner.facts.attach_limits import limits_by_group
from trimtab.planner.scale_up.plan import ScaleUpPlan
from trimtab.planner.snapshot.columns import NO_NODE


def attach_notes(plan: ScaleUpPlan) -> list[str]:
    """Return a note for each node group of whose new nodes the limit for volumes of placed pods is not known, and for
    each node on which their driver is not registered yet."""
    snapshot, progress = plan.context.request.snapshot, plan.progress
    nodes, pods, at = snapshot.nodes, snapshot.pods, progress.state.pod_node[snapshot.pods.volume_pod]
    moved = np.flatnonzero((at >= 0) & (pods.node[pods.volume_pod] == NO_NODE))
    if not len(moved):
        return []
    known, group_of = limits_by_group(snapshot), dict(zip(progress.opened.tolist(), progress.group_of, strict=True))
    unknown, awaited = set[tuple[str, str]](), set[tuple[str, str, int]]()
    for node, volume in zip(at[moved].tolist(), pods.volume[moved].tolist(), strict=True):
        driver, is_new = snapshot.volumes[volume].driver, node in group_of
        group = group_of[node] if is_new else int(nodes.group[node]) if node < len(nodes.name) else -1
        if not driver or group < 0:
            continue
        if is_new and driver not in known[group]:
            unknown.add((snapshot.groups[group].id, driver))
        if not is_new and driver in known[group] and driver not in dict(nodes.traits[node].attach_limits):
            awaited.add((nodes.name[node], driver, known[group][driver]))
    return [
        *(
            f"new nodes of node group {group} are planned without a limit on volumes of {driver}: neither its nodes "
            f"nor its template have one; set it in spec.template.status.allocatable: attachable-volumes-csi-{driver}"
            for group, driver in sorted(unknown)
        ),
        *(
            f"node {node} has not registered {driver} yet: it counts with {count} volumes, as its node group's others"
            for node, driver, count in sorted(awaited)
        ),
    ]
