"""Affinity, topology spread, tolerations and host ports of a pod as messages, checked as the API server checks them.

Keeps only rules that can exclude a node; preferences and ScheduleAnyway only affect scores. Errors: FieldError with the
path below `spec`. Source: core/v1 validation; kube-scheduler plugins interpodaffinity, podtopologyspread, nodeports.
"""

from collections.abc import Iterable

from trimtab.common.kubernetes.kinds.metadata import NodeSelectorTerm
from trimtab.common.kubernetes.kinds.nodes import Taint
from trimtab.common.kubernetes.kinds.pods import (
    Affinity,
    Container,
    ContainerPort,
    NodeAffinity,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    PodSpec,
    Toleration,
    TopologySpreadConstraint,
)
from trimtab.common.kubernetes.object_errors import FieldError, below
from trimtab.common.kubernetes.selectors import NODE_NAME_FIELD, label_selector
from trimtab.common.objects.dictionary import Dictionary
from trimtab.v1 import snapshot_pb2 as pb

_EFFECTS = {
    "NoSchedule": pb.TaintEffect.NO_SCHEDULE,
    "PreferNoSchedule": pb.TaintEffect.PREFER_NO_SCHEDULE,
    "NoExecute": pb.TaintEffect.NO_EXECUTE,
}
_OPERATORS = {
    "Equal": pb.TolerationOperator.EQUAL,
    "Exists": pb.TolerationOperator.EXISTS,
    "Lt": pb.TolerationOperator.LT,
    "Gt": pb.TolerationOperator.GT,
}
_PROTOCOLS = ("TCP", "UDP", "SCTP")
_POLICIES = ("Honor", "Ignore")


def split_pin(affinity: Affinity) -> tuple[str, Affinity | None]:
    """Separate the one node that every term of required node affinity names, as in DaemonSet pods.

    Return (node name, affinity without it), or ("", affinity as it is). A term that only named the node leaves no
    requirement at all. Terms without any requirement match nothing and are dropped beside others.
    """
    required = affinity.node_affinity.required if affinity.node_affinity else None
    terms = [
        t for t in (required.node_selector_terms if required else None) or () if t.match_fields or t.match_expressions
    ]
    names = {_pinned(term) for term in terms}
    if required is None or len(names) != 1 or None in names:
        return "", affinity
    rest = [_without_pin(term) for term in terms]
    free = any(not (term.match_expressions or term.match_fields) for term in rest)
    node_affinity = None if free else NodeAffinity(type(required)(node_selector_terms=rest))
    left = Affinity(node_affinity, affinity.pod_affinity, affinity.pod_anti_affinity)
    return names.pop() or "", left


def _pinned(term: NodeSelectorTerm) -> str | None:
    for one in term.match_fields or ():
        if one.key == NODE_NAME_FIELD and one.operator == "In" and one.values and len(one.values) == 1:
            return one.values[0] or None
    return None


def _without_pin(term: NodeSelectorTerm) -> NodeSelectorTerm:
    name, fields = _pinned(term), []
    for match_field in term.match_fields or ():
        if not (match_field.key == NODE_NAME_FIELD and match_field.operator == "In" and match_field.values == [name]):
            fields.append(match_field)
    return NodeSelectorTerm(term.match_expressions, fields or None)


def pod_affinity_terms(affinity: PodAffinity | None, dictionary: Dictionary) -> list[pb.PodAffinityTerm]:
    """Return the required terms of pod affinity or anti-affinity."""
    out = []
    for i, term in enumerate((affinity.required if affinity else None) or ()):
        with below(f"requiredDuringSchedulingIgnoredDuringExecution[{i}]"):
            out.append(_affinity_term(term, dictionary))
    return out


def preferred_terms(affinity: PodAntiAffinity | None, dictionary: Dictionary) -> list[pb.WeightedPodAffinityTerm]:
    """Return the preferred terms of pod anti-affinity."""
    out = []
    for i, one in enumerate((affinity.preferred if affinity else None) or ()):
        with below(f"preferredDuringSchedulingIgnoredDuringExecution[{i}]"):
            if not 1 <= (one.weight or 0) <= 100:
                raise FieldError("weight", f"{one.weight} is not a weight", "give 1 to 100")
            with below("podAffinityTerm"):
                term = _affinity_term(one.pod_affinity_term or PodAffinityTerm(), dictionary)
            out.append(pb.WeightedPodAffinityTerm(weight=one.weight or 0, term=term))
    return out


def _affinity_term(term: PodAffinityTerm, dictionary: Dictionary) -> pb.PodAffinityTerm:
    if not term.topology_key:
        raise FieldError("topologyKey", "it is missing", "name the node label that makes a domain")
    with below("labelSelector"):
        selector = label_selector(term.label_selector)
    with below("namespaceSelector"):
        namespace_selector = label_selector(term.namespace_selector)
    return pb.PodAffinityTerm(
        selector=dictionary.selector(selector),
        namespaces=[dictionary.string(name) for name in sorted(set(term.namespaces or ()))],
        namespace_selector=dictionary.selector(namespace_selector),
        topology_key=dictionary.string(term.topology_key),
    )


def spread_constraints(
    constraints: Iterable[TopologySpreadConstraint] | None, dictionary: Dictionary
) -> list[pb.TopologySpreadConstraint]:
    """Return the DoNotSchedule constraints."""
    out = []
    for i, constraint in enumerate(constraints or ()):
        with below(f"topologySpreadConstraints[{i}]"):
            when = constraint.when_unsatisfiable
            if when == "DoNotSchedule":
                out.append(_spread_constraint(constraint, dictionary))
            elif when != "ScheduleAnyway":
                raise FieldError("whenUnsatisfiable", f"{when!r} is unknown", "use DoNotSchedule or ScheduleAnyway")
    return out


def _spread_constraint(constraint: TopologySpreadConstraint, dictionary: Dictionary) -> pb.TopologySpreadConstraint:
    if not constraint.topology_key:
        raise FieldError("topologyKey", "it is missing", "name the node label that makes a domain")
    skew, domains = constraint.max_skew or 0, constraint.min_domains
    _check_range("maxSkew", skew)
    if domains is not None:
        _check_range("minDomains", domains)
    _check_policy("nodeAffinityPolicy", constraint.node_affinity_policy)
    _check_policy("nodeTaintsPolicy", constraint.node_taints_policy)
    if constraint.match_label_keys and constraint.label_selector is None:
        raise FieldError("matchLabelKeys", "there is no labelSelector", "give a labelSelector, or drop the keys")
    with below("labelSelector"):
        selector = label_selector(constraint.label_selector)
    return pb.TopologySpreadConstraint(
        max_skew=skew,
        topology_key=dictionary.string(constraint.topology_key),
        selector=dictionary.selector(selector),
        min_domains=domains if domains != 1 else None,
        honor_node_affinity=False if constraint.node_affinity_policy == "Ignore" else None,
        honor_node_taints=True if constraint.node_taints_policy == "Honor" else None,
        match_label_keys=[dictionary.string(key) for key in sorted(set(constraint.match_label_keys or ()))],
    )


def _check_range(field: str, value: int) -> None:
    if not 1 <= value < 2**31:
        raise FieldError(field, f"{value} is out of range", "give a number from 1 to 2147483647")


def _check_policy(field: str, policy: str | None) -> None:
    if policy is not None and policy not in _POLICIES:
        raise FieldError(field, f"{policy!r} is unknown", "use Honor or Ignore")


def tolerations(items: Iterable[Toleration] | None, dictionary: Dictionary) -> list[pb.Toleration]:
    """Return tolerations in their order; no operator is Equal, no effect is every effect."""
    out = []
    for i, one in enumerate(items or ()):
        with below(f"tolerations[{i}]"):
            operator = _OPERATORS.get(one.operator or "Equal")
            if operator is None:
                raise FieldError("operator", f"{one.operator!r} is unknown", f"use one of {', '.join(_OPERATORS)}")
            effect = _effect(one.effect) if one.effect else pb.TaintEffect.UNSPECIFIED
            key, value = dictionary.string(one.key), dictionary.string(one.value)
            out.append(pb.Toleration(key=key, operator=operator, value=value, effect=effect))
    return out


def taints(items: Iterable[Taint] | None, dictionary: Dictionary) -> list[pb.Taint]:
    """Return the taints of a node, sorted by key, value, effect."""
    out = []
    for i, one in enumerate(items or ()):
        with below(f"taints[{i}]"):
            if not one.key:
                raise FieldError("key", "it is missing", "name the taint")
            out.append((one.key, one.value or "", _effect(one.effect)))
    return [
        pb.Taint(key=dictionary.string(key), value=dictionary.string(value), effect=effect)
        for key, value, effect in sorted(set(out))
    ]


def _effect(effect: str | None) -> pb.TaintEffect.Code.ValueType:
    code = _EFFECTS.get(effect or "")
    if code is None:
        raise FieldError("effect", f"{effect!r} is unknown", f"use one of {', '.join(_EFFECTS)}")
    return code


def host_ports(spec: PodSpec, dictionary: Dictionary) -> list[pb.HostPort]:
    """Return the host ports of containers and sidecars, without duplicates, sorted by (protocol, address, port).

    Port 0 means no host port. In the host's network every container port is one, as the API server defaults it.
    """
    found: set[tuple[str, str, int]] = set()
    for i, container in enumerate(spec.containers or ()):
        with below(f"containers[{i}]"):
            found.update(_container_ports(container, bool(spec.host_network)))
    for i, container in enumerate(spec.init_containers or ()):
        if container.restart_policy == "Always":
            with below(f"initContainers[{i}]"):
                found.update(_container_ports(container, bool(spec.host_network)))
    return [
        pb.HostPort(protocol=dictionary.string(protocol), host_ip=dictionary.string(address), port=port)
        for protocol, address, port in sorted(found)
    ]


def _container_ports(container: Container, host_network: bool) -> Iterable[tuple[str, str, int]]:
    for i, port in enumerate(container.ports or ()):
        with below(f"ports[{i}]"):
            number = _host_port(port, host_network)
            if number:
                protocol = port.protocol or "TCP"
                if protocol not in _PROTOCOLS:
                    raise FieldError("protocol", f"{protocol!r} is unknown", f"use one of {', '.join(_PROTOCOLS)}")
                address = "" if port.host_ip in (None, "0.0.0.0") else str(port.host_ip)
                yield ("" if protocol == "TCP" else protocol, address, number)


def _host_port(port: ContainerPort, host_network: bool) -> int:
    number = port.host_port or (port.container_port or 0 if host_network else 0)
    if not 0 <= number <= 65535:
        raise FieldError("hostPort", f"{number} is not a port", "give a number from 1 to 65535")
    return number
