"""The concrete cause of a failed predicate: which taint, which label, which resource.

Each function takes a pod and a node for which the planner has already answered, and returns one clause of a sentence; a
general one if the snapshot shows no details. Never decides.

Topology spread: key, domain, amounts, what lowers the fewest; claims: which claim, request and pool. Source:
Kubernetes, podtopologyspread, Filter: all nodes with the keys of every constraint count, tainted ones too unless
nodeTaintsPolicy is Honor; with fewer domains than minDomains, the fewest is 0.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from functools import lru_cache
from typing import NamedTuple

from trimtab.clients.cli.amounts import amount, counted, named_amount, some
from trimtab.clients.cluster_view import ClusterView, ShownPod
from trimtab.reason_texts import PREDICATE_TEXTS, clauses
from trimtab.v1 import planner_pb2, reason_pb2
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
    lacking = [spread_count.key for spread_count in spread_counts(view, pod) if spread_count.key not in labels]
    if lacking:
        return f"it is to be spread over {lacking[0]}, a label that the node lacks"
    clauses = [_clause(spread_count, labels[spread_count.key]) for spread_count in spread_counts(view, pod)]
    return "; ".join(clause for clause in clauses if clause)


def domains_cause(view: ClusterView, pod: ShownPod) -> str:
    """Return by which constraints a pod is spread over present and new nodes, and whether there are fewer domains than
    it asks for."""
    return "; ".join(_domains_clause(view, spread_count) for spread_count in spread_counts(view, pod))


def _domains_clause(view: ClusterView, spread_count: SpreadCount) -> str:
    offered = {
        view.labels(group.template.label_set).get(spread_count.key, "")
        for group in view.snapshot.node_groups
        if group.HasField("template")
    }
    count = len({*spread_count.pods, *offered} - {""})
    text = f"spread over {spread_count.key} by at most {spread_count.at_most} allows no more pods there"
    if count < spread_count.min_domains:
        return f"{text}: minDomains asks for {spread_count.min_domains} domains, of which {_there_are(count)}"
    return text + _tainted(spread_count.tainted)


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


Reason = reason_pb2.PredicateReason
_EFFECTS = {
    pb.TaintEffect.NO_SCHEDULE: "NoSchedule",
    pb.TaintEffect.PREFER_NO_SCHEDULE: "PreferNoSchedule",
    pb.TaintEffect.NO_EXECUTE: "NoExecute",
}
_OPERATORS = {
    pb.LabelOperator.IN: "in",
    pb.LabelOperator.NOT_IN: "not in",
    pb.LabelOperator.EXISTS: "exists",
    pb.LabelOperator.DOES_NOT_EXIST: "does not exist",
    pb.LabelOperator.GT: ">",
    pb.LabelOperator.LT: "<",
}


def cause(view: ClusterView, pod: ShownPod, node: str, reason: int, insufficient: Sequence[str] = ()) -> str:
    """Return why `reason` keeps `pod` off `node`; `insufficient` are the missing resources."""
    found: dict[int, Callable[[], str]] = {
        Reason.TAINT_NOT_TOLERATED: lambda: _taints(view, pod, node),
        Reason.NODE_AFFINITY_NOT_MATCHED: lambda: _affinity(view, pod, node),
        Reason.INSUFFICIENT_RESOURCES: lambda: _resources(view, pod, node, insufficient),
        Reason.TOO_MANY_PODS: lambda: _pod_count(view, pod, node),
        Reason.HOST_PORT_CONFLICT: lambda: _ports(view, pod, node),
        Reason.TOPOLOGY_SPREAD_VIOLATED: lambda: spread_cause(view, pod, view.labels(view.nodes[node].label_set)),
        Reason.POD_AFFINITY_NOT_MATCHED: lambda: _near(view, pod.spec.pod_affinity, "wants to share"),
        Reason.POD_ANTI_AFFINITY_VIOLATED: lambda: _near(view, pod.spec.pod_anti_affinity, "must not share"),
        Reason.VOLUME_NOT_BINDABLE: lambda: _volumes(view, pod, node),
        Reason.VOLUME_ZONE_MISMATCH: lambda: _zones(view, pod, node),
        Reason.CSI_DRIVER_MISSING: lambda: _drivers(view, pod, node),
        Reason.NODE_FEATURE_NOT_DECLARED: lambda: _features(view, pod, node),
        Reason.UNSUPPORTED_CONSTRAINT: lambda: _unsupported(pod),
    }
    special = found.get(reason)
    general = PREDICATE_TEXTS.get(reason)
    return (special() if special else "") or (general.on_node if general else "the planner gives no more detail")


def taint_text(view: ClusterView, taint: pb.Taint) -> str:
    """Return a taint as kubectl writes it."""
    value = view.text(taint.value)
    return f"{view.text(taint.key)}{'=' + value if value else ''}:{_EFFECTS.get(taint.effect, '?')}"


def _taints(view: ClusterView, pod: ShownPod, node: str) -> str:
    """Describe the taints that no toleration covers."""
    refused = view.refused_taints(pod.spec, node)
    names = ", ".join(taint_text(view, taint) for taint in refused)
    return f"no toleration for the taint{'s' if len(refused) > 1 else ''} {names}" if refused else ""


def _affinity(view: ClusterView, pod: ShownPod, node: str) -> str:
    """Describe the differing pairs of the node selector, else the required terms."""
    labels = view.labels(view.nodes[node].label_set)
    clauses = []
    for pair in pod.spec.node_selector:
        key, wanted = view.text(pair.key), view.text(pair.value)
        if labels.get(key) != wanted:
            has = f"has {labels[key] or 'an empty value'}" if key in labels else "has no such label"
            clauses.append(f"wants {key}={wanted}, the node {has}")
    if not clauses and pod.spec.HasField("node_affinity"):
        terms = " or ".join(_term(view, term) for term in pod.spec.node_affinity.terms)
        clauses.append(f"its node affinity requires {terms or 'nothing, which no node meets'}")
    return "; ".join(clauses)


def _term(view: ClusterView, term: pb.NodeSelectorTerm) -> str:
    """Describe one alternative of node affinity."""
    requirements = [*term.match_expressions, *term.match_fields]
    return " and ".join(_requirement(view, requirement) for requirement in requirements) or "nothing"


def _requirement(view: ClusterView, requirement: pb.LabelRequirement) -> str:
    """One requirement on a label."""
    values = ", ".join(view.text(value) for value in requirement.values)
    shown = f" ({values})" if requirement.operator in (pb.LabelOperator.IN, pb.LabelOperator.NOT_IN) else f" {values}"
    return f"{view.text(requirement.key)} {_OPERATORS.get(requirement.operator, '?')}{shown if values else ''}"


def _resources(view: ClusterView, pod: ShownPod, node: str, insufficient: Sequence[str]) -> str:
    """Describe what the pod requests and what is free."""
    free, wanted = view.free(node, without=pod), view.requests(pod)
    lacking = list(insufficient) or [name for name, value in wanted.items() if value > free.get(name, 0)]
    return "; ".join(
        f"wants {named_amount(name, wanted.get(name, 0))}, {_left(name, free.get(name, 0))}" for name in lacking
    )


def _left(resource: str, left: int) -> str:
    """Describe how much is free; a node may be overcommitted."""
    return f"{amount(resource, left)} free" if left >= 0 else f"overcommitted by {amount(resource, -left)}"


def _pod_count(view: ClusterView, pod: ShownPod, node: str) -> str:
    """Describe how many pods there are and may be."""
    most = view.allocatable(node).get("pods", 0)
    return f"the node has {most - view.free(node, without=pod)['pods']} of at most {most} pods"


def _ports(view: ClusterView, pod: ShownPod, node: str) -> str:
    """Describe the port and the pod that holds it."""
    wanted = {port.port for port in pod.spec.host_ports}
    for other in view.pods_on(node):
        taken = sorted(wanted & {port.port for port in other.spec.host_ports})
        if taken and other.key != pod.key:
            return f"host port {taken[0]} is taken by {other.key}"
    return ""


def _selector(view: ClusterView, selector: pb.LabelSelector) -> str:
    """A label selector as kubectl writes it."""
    return " and ".join(_requirement(view, requirement) for requirement in selector.requirements) or "any labels"


def _near(view: ClusterView, terms: Sequence[pb.PodAffinityTerm], verb: str) -> str:
    """The terms of pod affinity, or of pod anti-affinity."""
    texts = [
        f"{verb} its {view.text(term.topology_key)} with pods of {_selector(view, term.selector)}" for term in terms
    ]
    return "; ".join(texts)


def _volumes(view: ClusterView, pod: ShownPod, node: str) -> str:
    """Describe what is known about its unusable claims, and where volumes are that the node cannot reach."""
    volumes, labels = view.volumes(pod), view.labels(view.nodes[node].label_set)
    texts = [f"claim {volume.id}: {volume.detail}" for volume in volumes if volume.detail]
    for volume in volumes if not texts else ():
        terms = volume.node_affinity.terms if volume.HasField("node_affinity") else ()
        if terms and not any(view.selects(term.match_expressions, labels) for term in terms):
            place = "the volume of" if volume.state == pb.VolumeState.BOUND else "the storage class of"
            texts.append(f"{place} claim {volume.id} is for {' or '.join(_term(view, term) for term in terms)}")
    return "; ".join(texts)


def _zones(view: ClusterView, pod: ShownPod, node: str) -> str:
    """Name the volumes whose zone labels the node does not share."""
    labels = view.labels(view.nodes[node].label_set)
    return "; ".join(
        f"the volume of claim {volume.id} is in {view.text(pair.value).replace('__', ' or ')} ({view.text(pair.key)})"
        for volume in view.volumes(pod)
        for pair in volume.zone_labels
        if labels.get(view.text(pair.key)) not in view.text(pair.value).split("__")
    )


def _drivers(view: ClusterView, pod: ShownPod, node: str) -> str:
    """Name the drivers that the node lacks."""
    lacking = {volume.required_driver for volume in view.volumes(pod)} - {0, *view.nodes[node].volume_drivers.names}
    return f"the node lacks the CSI driver {_names(view, lacking)}" if lacking else ""


def _features(view: ClusterView, pod: ShownPod, node: str) -> str:
    """Name the features that the node does not declare."""
    lacking = set(pod.spec.node_features) - set(view.nodes[node].declared_features)
    return f"the node does not declare the feature {_names(view, lacking)}" if lacking else ""


def _names(view: ClusterView, indices: Collection[int]) -> str:
    return " and ".join(sorted(map(view.text, indices)))


def _unsupported(pod: ShownPod) -> str:
    """The constraints that cannot be decided."""
    return f"this build cannot decide its {' and '.join(pod.spec.unsupported)}" if pod.spec.unsupported else ""


OF_DEVICES = (reason_pb2.PredicateReason.DEVICES_NOT_AVAILABLE, reason_pb2.PredicateReason.CLAIM_UNUSABLE)
"""Reasons of nodes that the refusals of claims explain."""
_TEXTS = clauses(reason_pb2.DeviceReason)


def device_kinds(node: planner_pb2.NodeFit) -> tuple[tuple[str, str, int], ...]:
    """Return what nodes have in common that refuse a pod for the same reasons: claim, request and reason, no pools."""
    return tuple(sorted({(device.claim, device.request, device.reason) for device in node.devices}))


def device_cause(refusals: Iterable[planner_pb2.DeviceRefusal], pool_words: str = "in pool") -> str:
    """Return why claims get no devices, "" = that is not known. pool_words : what stands before the name of a pool."""
    texts: dict[str, list[str]] = {}
    for one in refusals:
        claim = f"claim {one.claim}, " if one.claim else "" if one.request or one.detail else "its extended resources, "
        what = f"{claim}request {one.request}" if one.request else claim.removesuffix(", ")
        reason = one.detail or _TEXTS.get(one.reason, "")
        reason += " (a device lacks this attribute or capacity)" if "no such key" in reason else ""
        texts.setdefault(what, []).append(f"{reason} {pool_words} {one.pool}" if one.pool else reason)
    causes = {what: ", ".join(dict.fromkeys(reasons)) for what, reasons in texts.items()}
    return "; ".join(f"{what}: {reasons}" if what else reasons for what, reasons in causes.items())


def device_causes(nodes: Sequence[planner_pb2.NodeFit]) -> list[tuple[str, list[str]]]:
    """Return why claims get no devices on some nodes, and their names, by cause; pools are those of the first node."""
    alike: dict[object, list[planner_pb2.NodeFit]] = {}
    for node in nodes:
        alike.setdefault(device_kinds(node), []).append(node)
    return [
        (device_cause(of[0].devices, "in pool" if len(of) == 1 else "in pools such as"), [one.node for one in of])
        for of in alike.values()
    ]
