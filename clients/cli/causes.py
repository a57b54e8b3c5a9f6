"""The concrete cause of a failed predicate: which taint, which label, which resource.

Each function takes a pod and a node for which the planner has already answered, and returns one clause of a sentence; a
general one if the snapshot shows no details. Never decides.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

from trimtab.clients.cli.amounts import amount, named_amount
from trimtab.clients.cli.spread_causes import spread_cause
from trimtab.clients.cluster_view import ClusterView, ShownPod
from trimtab.reason_texts import PREDICATE_TEXTS
from trimtab.v1 import reason_pb2
from trimtab.v1 import snapshot_pb2 as pb

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
    return " and ".join(_requirement(view, one) for one in requirements) or "nothing"


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
    return " and ".join(_requirement(view, one) for one in selector.requirements) or "any labels"


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
        if terms and not any(all(_holds(view, one, labels) for one in term.match_expressions) for term in terms):
            place = "the volume of" if volume.state == pb.VolumeState.BOUND else "the storage class of"
            texts.append(f"{place} claim {volume.id} is for {' or '.join(_term(view, term) for term in terms)}")
    return "; ".join(texts)


def _holds(view: ClusterView, requirement: pb.LabelRequirement, labels: Mapping[str, str]) -> bool:
    """Return whether labels meet a requirement; those that compare numbers count as met."""
    key, values = view.text(requirement.key), {view.text(value) for value in requirement.values}
    match requirement.operator:
        case pb.LabelOperator.IN:
            return labels.get(key) in values
        case pb.LabelOperator.NOT_IN:
            return labels.get(key) not in values
        case pb.LabelOperator.EXISTS:
            return key in labels
        case pb.LabelOperator.DOES_NOT_EXIST:
            return key not in labels
    return True


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
    lacking = {one.required_driver for one in view.volumes(pod)} - {0, *view.nodes[node].volume_drivers.names}
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
