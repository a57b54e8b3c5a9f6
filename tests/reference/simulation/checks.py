"""Whether a pod fits a node, by all predicates, computed only from the rows."""

from tests.builders.rows import PodRow
from tests.reference.predicates import compose, resources, static
from tests.reference.simulation.moves import Cluster
from trimtab.v1.reason_pb2 import PredicateReason as Reason


def failing(cluster: Cluster, pod: PodRow, name: str) -> set[int]:
    """Return the reasons of all failing predicates; a node that is not open counts as cordoned."""
    node = cluster.nodes[name]
    # These clusters have no other templates than those of their nodes.
    are_features_declared = any(one.declared_features for one in cluster.nodes.values())
    out = static.refusals(pod, node, are_features_declared) | resources.refusals(pod, node, cluster.pods_on(name))
    out |= compose.because(cluster, pod, name)
    if cluster.state[name] != "open":
        out.add(Reason.NODE_UNSCHEDULABLE)
    return out


def fits(cluster: Cluster, pod: PodRow, name: str) -> bool:
    """Return whether no predicate fails."""
    return not failing(cluster, pod, name)
