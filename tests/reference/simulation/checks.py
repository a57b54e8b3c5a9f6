"""Whether a pod fits a node, by all predicates, computed only from the rows."""

from tests.builders.rows import PodRow
from tests.reference.predicates import presence, resources, spread, static, volumes
from tests.reference.simulation.moves import Cluster
from trimtab.v1.reason_pb2 import PredicateReason as Reason


def failing(cluster: Cluster, pod: PodRow, name: str) -> set[int]:
    """Return the reasons of all failing predicates; a node that is not open counts as cordoned."""
    node = cluster.nodes[name]
    there = cluster.pods_on(name)
    placed = [(other, cluster.nodes[at]) for other, at in cluster.placed()]
    out = static.refusals(pod, node) | resources.refusals(pod, node, there)
    out |= presence.refusals(pod, node, placed, cluster.namespaces)
    out |= volumes.refusals(pod, node, there, [other for other, _ in placed])
    alive = {
        n: (row, cluster.state[n] == "retired", cluster.pods_on(n))
        for n, row in cluster.nodes.items()
        if cluster.state[n] != "dropped"
    }
    out |= spread.refusals(pod, node, alive)
    if cluster.state[name] != "open":
        out.add(Reason.NODE_UNSCHEDULABLE)
    return out


def fits(cluster: Cluster, pod: PodRow, name: str) -> bool:
    """Return whether no predicate fails."""
    return not failing(cluster, pod, name)
