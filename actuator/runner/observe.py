"""Reads the facts for the decision on a deletion from cluster and cloud. Pods are read from the
server's cache; the tasks read them again, consistently, once the taint is written. The order matters: nodes in progress
are read before the target sizes, so that a node that a size no longer counts is never subtracted again.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import structlog

from trimtab.actuator.cloud.provider import CloudProvider
from trimtab.actuator.drain.pods import pods_to_move
from trimtab.actuator.kube.cluster import ClusterApi, NodeView, NotFoundError
from trimtab.actuator.runner.tasks import TaskContext
from trimtab.actuator.tracker.admission import AdmissionFacts, GroupSizeFacts, NodeFacts, NodeRequest
from trimtab.common.kubernetes.names import HARD_TAINT_KEY

log = structlog.get_logger("groups")

# From this many nodes on, one list is cheaper than single gets.
LIST_FROM = 20


def observe(context: TaskContext, requests: Sequence[NodeRequest], pending: frozenset[str]) -> AdmissionFacts:
    """Read nodes, their pods, and the node groups. Raises `ClusterError`, `CloudError`."""
    cluster, cloud, now_ms = context.cluster, context.cloud, context.recorder.now_ms()
    groups = {
        group.id: GroupSizeFacts(min_size=group.min_size, target_size=group.target_size)
        for group in cloud.node_groups()
    }
    names = [request.node for request in requests]
    nodes = nodes_named(cluster, names)
    group_of = cloud.groups_of([node.provider_id for node in nodes if node.provider_id])
    timeouts = {group: _drain_timeout_s(cloud, group) for group in sorted(set(group_of.values()))}

    def look(node: NodeView) -> NodeFacts:
        pods = pods_to_move(
            cluster.list_pods(node.name, from_cache=True), now_ms, context.settings.drain.expendable_priority
        )
        return NodeFacts(
            node_group=group_of.get(node.provider_id),
            uids=tuple(pod.uid for pod in pods),
            tainted=node.taint(HARD_TAINT_KEY) is not None,
            gpu=node.gpu,
            provider_id=node.provider_id,
            node_uid=node.uid,
            drain_timeout_s=timeouts.get(group_of.get(node.provider_id, "")),
        )

    with ThreadPoolExecutor(context.settings.taint_thread_count, thread_name_prefix="observe") as pool:
        seen = dict(zip((node.name for node in nodes), pool.map(look, nodes), strict=True))
    return AdmissionFacts(nodes=seen, groups=groups, pending=pending)


def _drain_timeout_s(cloud: CloudProvider, group: str) -> float | None:
    """Return the option of a group; None = it has none, or an unreadable one. Raises `CloudError`."""
    try:
        return cloud.options(group).drain_timeout_s
    except ValueError as error:
        log.warning("group_not_read", node_group=group, detail=str(error))
        return None


def nodes_named(cluster: ClusterApi, names: list[str]) -> list[NodeView]:
    """Return the nodes that exist."""
    if len(names) >= LIST_FROM:
        wanted = set(names)
        return [node for node in cluster.list_nodes() if node.name in wanted]
    found = []
    for name in names:
        try:
            found.append(cluster.get_node(name))
        except NotFoundError:
            continue
    return found
