"""What is looked up before a deletion is decided on.

Decides nothing. Pods are read as the server has them in memory: whoever acts on a node looks again, closely, once its
taint is written. The order matters: which nodes are in progress is read before the target sizes, so that a size that
counts a leaving node out already is never counted out twice the wrong way.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from actuator.drain.pods import pods_to_move
from actuator.kube.cluster import HARD_TAINT_KEY, Cluster, NodeView, NotFoundError
from actuator.runner.tasks import Surroundings
from actuator.tracker.admission import Facts, GroupFacts, NodeFacts, NodeWish

# From so many nodes on, one list is cheaper than single gets.
LIST_FROM = 20


def observe(around: Surroundings, wishes: Sequence[NodeWish], pending: frozenset[str]) -> Facts:
    """Look up nodes, their pods, and the node groups. Raises `ClusterError`, `CloudError`."""
    cluster, cloud, now_ms = around.cluster, around.cloud, around.recorder.now_ms()
    groups = {
        group.id: GroupFacts(min_size=group.min_size, target_size=group.target_size) for group in cloud.node_groups()
    }
    names = [wish.node for wish in wishes]
    nodes = _nodes(cluster, names)
    group_of = cloud.groups_of(names)

    def look(node: NodeView) -> NodeFacts:
        pods = pods_to_move(
            cluster.list_pods(node.name, recent=True), now_ms, around.settings.drain.expendable_priority
        )
        return NodeFacts(
            node_group=group_of.get(node.name),
            uids=tuple(pod.uid for pod in pods),
            tainted=node.taint(HARD_TAINT_KEY) is not None,
            gpu=node.gpu,
        )

    with ThreadPoolExecutor(around.settings.taint_thread_count, thread_name_prefix="observe") as pool:
        seen = dict(zip((node.name for node in nodes), pool.map(look, nodes), strict=True))
    return Facts(nodes=seen, groups=groups, pending=pending)


def _nodes(cluster: Cluster, names: list[str]) -> list[NodeView]:
    """Those of the nodes that exist."""
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
