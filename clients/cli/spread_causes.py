"""Why topology spread keeps a pod off a node, in words: key, domain, amounts, what lowers the fewest. Never decides.

Source: Kubernetes, podtopologyspread, Filter: all nodes with the keys of every constraint count, tainted ones too
unless nodeTaintsPolicy is Honor; with fewer domains than minDomains, the fewest is 0.
"""

from collections.abc import Mapping, Set
from functools import lru_cache
from typing import NamedTuple

from trimtab.clients.cli.amounts import counted, some
from trimtab.clients.cluster_view import ClusterView, ShownPod
from trimtab.v1 import snapshot_pb2 as pb


class SpreadCount(NamedTuple):
    """Pods by domain of one constraint. key : of the label; at_most : its max skew; of_pod : 1 = the pod counts itself;
    min_domains : 1 is the default; tainted : domains, all of whose nodes have taints that the pod does not tolerate;
    own : domain that consists of the pod's node, "" = none."""

    key: str
    at_most: int
    of_pod: int
    min_domains: int
    pods: Mapping[str, int]
    tainted: Set[str]
    own: str


def spread_cause(view: ClusterView, pod: ShownPod, labels: Mapping[str, str]) -> str:
    """Return why the constraints of a pod keep it off a node with these labels, "" = the snapshot does not show it."""
    lacking = [one.key for one in spread_counts(view, pod) if one.key not in labels]
    if lacking:
        return f"it is to be spread over {lacking[0]}, a label that the node lacks"
    clauses = [_clause(one, labels[one.key]) for one in spread_counts(view, pod)]
    return "; ".join(clause for clause in clauses if clause)


def domains_cause(view: ClusterView, pod: ShownPod) -> str:
    """Return by which constraints a pod is spread over present and new nodes, and whether there are fewer domains than
    it asks for."""
    return "; ".join(_domains_clause(view, one) for one in spread_counts(view, pod))


def _domains_clause(view: ClusterView, one: SpreadCount) -> str:
    offered = {
        view.labels(group.template.label_set).get(one.key, "")
        for group in view.snapshot.node_groups
        if group.HasField("template")
    }
    count = len({*one.pods, *offered} - {""})
    text = f"spread over {one.key} by at most {one.at_most} allows no more pods there"
    if count < one.min_domains:
        return f"{text}: minDomains asks for {one.min_domains} domains, of which {_there_are(count)}"
    return text + _tainted(one.tainted)


def _clause(one: SpreadCount, domain: str) -> str:
    here = one.pods.get(domain, 0) + one.of_pod
    few = len(one.pods) < one.min_domains
    fewest = 0 if few or not one.pods else min(one.pods.values())
    if here - fewest <= one.at_most:
        return ""
    text = f"spread over {one.key} by at most {one.at_most}: {counted(here, 'pod')} would be in {domain}"
    if few:
        return f"{text}, and minDomains asks for {one.min_domains} domains, of which {_there_are(len(one.pods))}"
    emptiest = sorted(name for name, pods in one.pods.items() if pods == fewest)
    text += f", {fewest} in {some(emptiest, 2)}"
    if emptiest == [one.own]:
        return f"{text} (its own node, which counts while it is drained, unless nodeTaintsPolicy is Honor)"
    return text + _tainted(one.tainted & set(emptiest))


def _there_are(count: int) -> str:
    return f"there {'is' if count == 1 else 'are'} {count}: the fewest counts as 0"


def _tainted(domains: Set[str]) -> str:
    if not domains:
        return ""
    has = "has" if len(domains) == 1 else "have"
    return (
        f" ({some(sorted(domains), 2)} {has} only nodes with taints that it does not tolerate, which count unless "
        "nodeTaintsPolicy is Honor)"
    )


@lru_cache(maxsize=1)
def _counts(view: ClusterView, key: str) -> list[SpreadCount]:
    pod = view.pod(key)
    return [_count(view, pod, one) for one in pod.spec.topology_spread] if pod else []


def spread_counts(view: ClusterView, pod: ShownPod) -> list[SpreadCount]:
    """Return the pods by domain of each constraint of a pod, without the pod itself. O(nodes + pods)."""
    return _counts(view, pod.key)


def _count(view: ClusterView, pod: ShownPod, constraint: pb.TopologySpreadConstraint) -> SpreadCount:
    key, keys = view.text(constraint.topology_key), {view.text(one.topology_key) for one in pod.spec.topology_spread}
    heeds_affinity = constraint.honor_node_affinity or not constraint.HasField("honor_node_affinity")
    domains, tolerated = dict[str, str](), set[str]()
    for name, node in view.nodes.items():
        labels = view.labels(node.label_set)
        if not keys <= labels.keys() or (heeds_affinity and not view.is_wanted(pod.spec, name)):
            continue
        if not view.refused_taints(pod.spec, name):
            tolerated.add(labels[key])
        elif constraint.honor_node_taints:
            continue
        domains[name] = labels[key]
    counts = dict.fromkeys(domains.values(), 0)
    alike = view.pods_like(pod, constraint.selector, constraint.match_label_keys).tolist()
    for row in alike:
        domain = domains.get(view.node_of(row))
        if row != pod.row and domain is not None:
            counts[domain] += 1
    of_pod, least = int(pod.row in alike), max(constraint.min_domains, 1)
    own = domains.get(pod.node, "")
    own = own if list(domains.values()).count(own) == 1 else ""
    return SpreadCount(key, constraint.max_skew, of_pod, least, counts, set(counts) - tolerated, own)
