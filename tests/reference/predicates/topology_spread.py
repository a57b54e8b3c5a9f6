"""PodTopologySpread, by counting every pod in every domain. Source: kube-scheduler v1.37.2."""

from tests.builders.rows import NodeRow, PodRow
from tests.reference.classes.selectors import node_matches, selects
from tests.reference.predicates.durations import FOR_NOW
from tests.reference.predicates.taints import tolerates_all
from tests.reference.simulation.moves import Cluster
from trimtab.planner.model.values import LabelRequirement, SpreadConstraint, TaintSpec
from trimtab.v1.reason_pb2 import PredicateReason as Reason
from trimtab.v1.snapshot_pb2 import LabelOperator, TaintEffect

HOLDS = {Reason.TOPOLOGY_SPREAD_VIOLATED: FOR_NOW}
DRAINED = TaintSpec("ToBeDeletedByClusterAutoscaler", "1234", TaintEffect.NO_SCHEDULE)


def eligible(pod: PodRow, constraint: SpreadConstraint, node: NodeRow) -> bool:
    if any(one.topology_key not in node.labels for one in pod.spec.topology_spread):
        return False
    elsewhere = bool(pod.pinned) and pod.pinned != node.name
    if constraint.honor_node_affinity and (elsewhere or not node_matches(pod.spec, node)):
        return False
    return not constraint.honor_node_taints or tolerates_all(pod.spec.tolerations, node.taints)


def violated(
    pod: PodRow, constraint: SpreadConstraint, node: NodeRow, nodes: dict[str, tuple[NodeRow, bool, list[PodRow]]]
) -> bool:
    """Return whether a node would violate a constraint. nodes : name to (node, whether it is cordoned, pods)."""
    key = constraint.topology_key
    if key not in node.labels:
        return True
    selector = constraint.selector
    if selector is not None:
        own = [k for k in constraint.match_label_keys if k in pod.labels]
        selector = (*(LabelRequirement(k, LabelOperator.IN, (pod.labels[k],)) for k in own), *selector)
    counts: dict[str, int] = {}
    domains = set()
    for one, cordoned, pods in nodes.values():
        if not eligible(pod, constraint, one):
            continue
        counted = [
            p
            for p in pods
            if selector and p.namespace == pod.namespace and not p.terminating and selects(selector, p.labels)
        ]
        counts[one.labels[key]] = counts.get(one.labels[key], 0) + len(counted)
        drained = one._replace(taints=(*one.taints, DRAINED))
        if not cordoned or eligible(pod, constraint, drained):
            domains.add(one.labels[key])
    smallest = min((counts[domain] for domain in domains), default=0)
    if len(domains) < constraint.min_domains:
        smallest = 0
    itself = 1 if selects(selector, pod.labels) else 0
    return counts.get(node.labels[key], 0) + itself - smallest > constraint.max_skew


def refusals(cluster: Cluster, pod: PodRow, name: str) -> set[int]:
    alive = {
        one: (row, cluster.state[one] == "cordoned", cluster.pods_on(one))
        for one, row in (cluster.nodes.items() if pod.spec.topology_spread else ())
        if cluster.state[one] != "outside"
    }
    bad = any(violated(pod, constraint, cluster.nodes[name], alive) for constraint in pod.spec.topology_spread)
    return {Reason.TOPOLOGY_SPREAD_VIOLATED} if bad else set()
