"""InterPodAffinity, by checking every pod. Source: kube-scheduler v1.37.2."""

from tests.builders.rows import Labels, NodeRow, PodRow
from tests.reference.classes.selectors import selects
from tests.reference.predicates.durations import FOR_GOOD, FOR_NOW
from tests.reference.simulation.moves import Cluster
from trimtab.planner.model.values import AffinityTerm
from trimtab.v1.reason_pb2 import PredicateReason as Reason

Placed = list[tuple[PodRow, NodeRow]]
Namespaces = dict[str, Labels]
HOLDS = {
    Reason.POD_AFFINITY_NOT_MATCHED: FOR_NOW,
    Reason.POD_ANTI_AFFINITY_VIOLATED: FOR_GOOD,
    Reason.EXISTING_POD_ANTI_AFFINITY_VIOLATED: FOR_GOOD,
}


def own_namespaces(term: AffinityTerm, owner: PodRow) -> tuple[str, ...]:
    own = not term.namespaces and term.namespace_selector is None
    return (owner.namespace,) if own else term.namespaces


def incoming_matches(term: AffinityTerm, owner: PodRow, other: PodRow, namespaces: Namespaces) -> bool:
    """Return whether a term of the incoming pod matches; only the empty selector selects unlisted namespaces."""
    selector = term.namespace_selector
    names = set(own_namespaces(term, owner))
    if selector is not None:
        names |= {name for name, labels in namespaces.items() if selects(selector, labels)}
    there = other.namespace in names or selector == ()
    return there and selects(term.selector, other.labels)


def existing_matches(term: AffinityTerm, owner: PodRow, pod: PodRow, namespaces: Namespaces) -> bool:
    """Return whether a term of a placed pod matches the incoming pod."""
    there = pod.namespace in own_namespaces(term, owner) or selects(
        term.namespace_selector, namespaces.get(pod.namespace, {})
    )
    return there and selects(term.selector, pod.labels)


def affinity_refuses(pod: PodRow, node: NodeRow, placed: Placed, namespaces: Namespaces) -> bool:
    terms = pod.spec.pod_affinity
    matching = [
        there for other, there in placed if terms and all(incoming_matches(t, pod, other, namespaces) for t in terms)
    ]
    if any(term.topology_key not in node.labels for term in terms):
        return True

    def met(term: AffinityTerm) -> bool:
        key = term.topology_key
        return any(there.labels.get(key) == node.labels[key] for there in matching)

    if all(met(term) for term in terms):
        return False
    nobody = not any(term.topology_key in there.labels for term in terms for there in matching)
    return not (nobody and all(incoming_matches(term, pod, pod, namespaces) for term in terms))


def shares(key: str, one: NodeRow, other: NodeRow) -> bool:
    return key in one.labels and one.labels[key] == other.labels.get(key)


def refusals(cluster: Cluster, pod: PodRow, name: str) -> set[int]:
    node, namespaces, out = cluster.nodes[name], cluster.namespaces, set[int]()
    placed = [(other, cluster.nodes[at]) for other, at in cluster.placed()]
    for other, there in placed:
        for term in pod.spec.pod_anti_affinity:
            if shares(term.topology_key, node, there) and incoming_matches(term, pod, other, namespaces):
                out.add(Reason.POD_ANTI_AFFINITY_VIOLATED)
        for term in other.spec.pod_anti_affinity:
            if shares(term.topology_key, node, there) and existing_matches(term, other, pod, namespaces):
                out.add(Reason.EXISTING_POD_ANTI_AFFINITY_VIOLATED)
    if affinity_refuses(pod, node, placed, namespaces):
        out.add(Reason.POD_AFFINITY_NOT_MATCHED)
    return out
