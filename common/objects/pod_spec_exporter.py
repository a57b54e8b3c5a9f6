"""Converts pod specs of the contract to `spec` of a Kubernetes pod: the fields for scheduling, and one idle container.
One container has the requests of all containers; fields that only draining reads are left out.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from trimtab.common.objects.pod_specs import RESTART_ALL_CONTAINERS, USER_NAMESPACES_ON_HOST_NETWORK
from trimtab.v1 import snapshot_pb2 as pb

Json = dict[str, Any]
PAUSE_IMAGE = "registry.k8s.io/pause:3.10"
_EFFECTS = {
    pb.TaintEffect.NO_SCHEDULE: "NoSchedule",
    pb.TaintEffect.PREFER_NO_SCHEDULE: "PreferNoSchedule",
    pb.TaintEffect.NO_EXECUTE: "NoExecute",
}
_TOLERATIONS = {
    pb.TolerationOperator.EXISTS: "Exists",
    pb.TolerationOperator.LT: "Lt",
    pb.TolerationOperator.GT: "Gt",
}
_OPERATORS = {
    pb.LabelOperator.IN: "In",
    pb.LabelOperator.NOT_IN: "NotIn",
    pb.LabelOperator.EXISTS: "Exists",
    pb.LabelOperator.DOES_NOT_EXIST: "DoesNotExist",
    pb.LabelOperator.GT: "Gt",
    pb.LabelOperator.LT: "Lt",
}


class PodSpecExporter:
    """Reads the specs, label sets and selectors of one dictionary, such as a snapshot's."""

    def __init__(self, dictionary: pb.PodDictionary | pb.ClusterSnapshot) -> None:
        self._dictionary = dictionary
        self._text = list(dictionary.strings) or [""]
        sets = dictionary.label_sets
        self._label_sets = tuple(np.frombuffer(one, "<i4").tolist() for one in (sets.offsets, sets.keys, sets.values))

    def labels(self, label_set: int) -> dict[str, str]:
        """Return a label set."""
        offsets, keys, values = self._label_sets
        if label_set + 1 >= len(offsets):
            return {}
        entries = range(offsets[label_set], offsets[label_set + 1])
        return {self._text[keys[at]]: self._text[values[at]] for at in entries}

    def spec(self, index: int) -> Json:
        """Return the spec of a pod with the same requests and constraints."""
        spec = self._dictionary.pod_specs[index]
        out: Json = {"containers": [self._container(spec)], "terminationGracePeriodSeconds": 0}
        if spec.node_selector:
            out["nodeSelector"] = {self._text[one.key]: self._text[one.value] for one in spec.node_selector}
        if affinity := self._affinity(spec):
            out["affinity"] = affinity
        if spec.tolerations:
            out["tolerations"] = [self._toleration(one) for one in spec.tolerations]
        if spec.topology_spread:
            out["topologySpreadConstraints"] = [self._spread(one) for one in spec.topology_spread]
        if USER_NAMESPACES_ON_HOST_NETWORK in self.names(spec.node_features):
            out |= {"hostNetwork": True, "hostUsers": False}
        return out

    def names(self, indices: Iterable[int]) -> list[str]:
        """Return the strings of indices."""
        return [self._text[index] for index in indices]

    def amounts(self, amounts: Iterable[tuple[int, int]]) -> dict[str, str]:
        """Return amounts of resources, given with the resource's index, as quantities by name."""
        names = self._dictionary.resources
        return {
            names[resource]: f"{amount}m" if names[resource] == "cpu" else str(amount) for resource, amount in amounts
        }

    def taints(self, taints: Iterable[pb.Taint]) -> list[Json]:
        """Return taints."""
        return [
            {"key": self._text[taint.key], "value": self._text[taint.value], "effect": _EFFECTS[taint.effect]}
            for taint in taints
        ]

    def selector(self, selector: pb.LabelSelector) -> Json:
        """Return a label selector."""
        return {"matchExpressions": self._requirements(selector.requirements)} if selector.requirements else {}

    def _container(self, spec: pb.PodSpec) -> Json:
        requests = self.amounts((request.resource, request.amount) for request in spec.requests)
        # Kubernetes requires limits equal to requests for resources that cannot be shared.
        whole = {name: amount for name, amount in requests.items() if "/" in name or name.startswith("hugepages-")}
        container: Json = {"name": "pause", "image": PAUSE_IMAGE, "resources": {"requests": requests}}
        if whole:
            container["resources"]["limits"] = whole
        if spec.host_ports:
            container["ports"] = [self._port(host_port) for host_port in spec.host_ports]
        if RESTART_ALL_CONTAINERS in self.names(spec.node_features):
            exits = {"operator": "In", "values": [255]}
            container["restartPolicy"] = "Never"
            container["restartPolicyRules"] = [{"action": "RestartAllContainers", "exitCodes": exits}]
        return container

    def _port(self, port: pb.HostPort) -> Json:
        out: Json = {"containerPort": port.port, "hostPort": port.port, "protocol": self._text[port.protocol] or "TCP"}
        return out | ({"hostIP": self._text[port.host_ip]} if port.host_ip else {})

    def _affinity(self, spec: pb.PodSpec) -> Json:
        out: Json = {}
        required = "requiredDuringSchedulingIgnoredDuringExecution"
        if spec.HasField("node_affinity"):
            terms = [
                {"matchExpressions": self._requirements(term.match_expressions)}
                | ({"matchFields": self._requirements(term.match_fields)} if term.match_fields else {})
                for term in spec.node_affinity.terms
            ]
            out["nodeAffinity"] = {required: {"nodeSelectorTerms": terms}}
        if spec.pod_affinity:
            out["podAffinity"] = {required: [self._term(one) for one in spec.pod_affinity]}
        if spec.pod_anti_affinity:
            out["podAntiAffinity"] = {required: [self._term(one) for one in spec.pod_anti_affinity]}
        return out

    def _term(self, term: pb.PodAffinityTerm) -> Json:
        out: Json = {"topologyKey": self._text[term.topology_key]}
        if term.HasField("selector"):
            out["labelSelector"] = self.selector(term.selector)
        if term.namespaces:
            out["namespaces"] = [self._text[namespace] for namespace in term.namespaces]
        if term.HasField("namespace_selector"):
            out["namespaceSelector"] = self.selector(term.namespace_selector)
        return out

    def _requirements(self, requirements: Sequence[pb.LabelRequirement]) -> list[Json]:
        return [
            {"key": self._text[requirement.key], "operator": _OPERATORS[requirement.operator]}
            | ({"values": [self._text[value] for value in requirement.values]} if requirement.values else {})
            for requirement in requirements
        ]

    def _toleration(self, toleration: pb.Toleration) -> Json:
        exists = toleration.operator == pb.TolerationOperator.EXISTS
        out: Json = {"operator": _TOLERATIONS.get(toleration.operator, "Equal")}
        out |= {"key": self._text[toleration.key]} if toleration.key else {}
        out |= {} if exists else {"value": self._text[toleration.value]}
        return out | ({"effect": _EFFECTS[toleration.effect]} if toleration.effect else {})

    def _spread(self, one: pb.TopologySpreadConstraint) -> Json:
        out: Json = {
            "maxSkew": one.max_skew,
            "topologyKey": self._text[one.topology_key],
            "whenUnsatisfiable": "DoNotSchedule",
            "nodeAffinityPolicy": "Ignore" if one.HasField("honor_node_affinity") and not one.honor_node_affinity
            else "Honor",
            "nodeTaintsPolicy": "Honor" if one.honor_node_taints else "Ignore",
        }  # fmt: skip
        out |= {"labelSelector": self.selector(one.selector)} if one.HasField("selector") else {}
        out |= {"minDomains": one.min_domains} if one.HasField("min_domains") and one.min_domains > 1 else {}
        return out | (
            {"matchLabelKeys": [self._text[key] for key in one.match_label_keys]} if one.match_label_keys else {}
        )
