"""Encoding of the specs, claims and labels of placeholders in a dictionary of its own: the reverse of reading them.

Strings and label sets are numbered in the order in which they are first used. Quantities of devices are written in
nano-units, which are exact. O(specs).
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from trimtab.planner.devices.model import AllocationMode, DeviceClaim, DeviceSubRequest
from trimtab.planner.model.values import (
    AffinityTerm,
    ExtendedDeviceRequest,
    LabelRequirement,
    PodClaim,
    PodRequirements,
    SpreadConstraint,
)
from trimtab.planner.simulation.virtual_rows import Labels
from trimtab.v1 import snapshot_pb2
from trimtab.v1 import snapshot_pb2 as pb

_MODES = {
    AllocationMode.EXACT_COUNT.value: pb.DeviceAllocationMode.EXACT_COUNT,
    AllocationMode.ALL.value: pb.DeviceAllocationMode.ALL,
}


class SpecWriter:
    """Writes specs and label sets, each once, into a `PodDictionary`."""

    def __init__(self) -> None:
        self._strings: dict[str, int] = {"": 0}
        self._resources: dict[str, int] = {}
        self._specs: dict[PodRequirements, int] = {}
        self._label_sets: dict[Labels, int] = {(): 0}
        self._out = snapshot_pb2.PodDictionary()

    def spec(self, spec: PodRequirements) -> int:
        """Return the index of a spec."""
        number = self._specs.get(spec)
        if number is None:
            number = self._specs[spec] = len(self._specs)
            self._write(spec, self._out.pod_specs.add())
        return number

    def label_set(self, labels: Labels) -> int:
        """Return the index of a label set."""
        return self._label_sets.setdefault(labels, len(self._label_sets))

    def amounts(self, amounts: Iterable[tuple[str, int]]) -> list[snapshot_pb2.ResourceAmount]:
        """Return amounts by resource."""
        return [
            snapshot_pb2.ResourceAmount(resource=self._resources.setdefault(name, len(self._resources)), amount=amount)
            for name, amount in amounts
        ]

    def finish(self) -> snapshot_pb2.PodDictionary:
        """Return the dictionary; to be called last."""
        pairs = [(self.string(key), self.string(value)) for labels in self._label_sets for key, value in labels]
        sets = self._out.label_sets
        sets.offsets = _int32(np.cumsum([0, *map(len, self._label_sets)]))
        sets.keys = _int32([key for key, _ in pairs])
        sets.values = _int32([value for _, value in pairs])
        self._out.strings.extend(self._strings)
        self._out.resources.extend(self._resources)
        return self._out

    def string(self, text: str) -> int:
        """Return the index of a string."""
        return self._strings.setdefault(text, len(self._strings))

    def _write(self, spec: PodRequirements, out: snapshot_pb2.PodSpec) -> None:
        text = self.string
        out.requests.extend(self.amounts(spec.requests))
        for key, value in spec.node_selector:
            out.node_selector.add(key=text(key), value=text(value))
        if spec.node_affinity is not None:
            out.node_affinity.SetInParent()
            for term in spec.node_affinity:
                out.node_affinity.terms.add(
                    match_expressions=self._requirements(term.match_expressions),
                    match_fields=self._requirements(term.match_fields),
                )
        for toleration in spec.tolerations:
            out.tolerations.add(
                key=text(toleration.key),
                operator=_code(toleration.operator),
                value=text(toleration.value),
                effect=_code(toleration.effect),
            )
        for port in spec.host_ports:
            out.host_ports.add(protocol=text(port.protocol), host_ip=text(port.host_ip), port=port.port)
        for field, terms in (("pod_affinity", spec.pod_affinity), ("pod_anti_affinity", spec.pod_anti_affinity)):
            if terms:
                getattr(out, field).extend([self._affinity(term) for term in terms])
        if spec.topology_spread:
            out.topology_spread.extend([self._spread(constraint) for constraint in spec.topology_spread])
        self._add_rest(out, spec)

    def _add_rest(self, out: snapshot_pb2.PodSpec, spec: PodRequirements) -> None:
        add_claims(out, spec.claims, spec.extended_device_requests)
        out.local_storage = spec.local_storage
        out.priority = spec.priority
        if spec.scheduler_name:
            out.scheduler_name = self.string(spec.scheduler_name)
        if spec.unsupported:
            out.unsupported.extend(spec.unsupported)
        for field in ("exclusive_disks", "read_only_disks", "node_features"):
            if names := getattr(spec, field):
                getattr(out, field).extend([self.string(name) for name in names])

    def _requirements(self, selector: Iterable[LabelRequirement]) -> list[snapshot_pb2.LabelRequirement]:
        return [
            snapshot_pb2.LabelRequirement(
                key=self.string(requirement.key),
                operator=_code(requirement.operator),
                values=[self.string(value) for value in requirement.values],
            )
            for requirement in selector
        ]

    def _selector(self, selector: Iterable[LabelRequirement] | None) -> snapshot_pb2.LabelSelector | None:
        return None if selector is None else snapshot_pb2.LabelSelector(requirements=self._requirements(selector))

    def _affinity(self, term: AffinityTerm) -> snapshot_pb2.PodAffinityTerm:
        return snapshot_pb2.PodAffinityTerm(
            selector=self._selector(term.selector),
            namespaces=[self.string(namespace) for namespace in term.namespaces],
            namespace_selector=self._selector(term.namespace_selector),
            topology_key=self.string(term.topology_key),
        )

    def _spread(self, constraint: SpreadConstraint) -> snapshot_pb2.TopologySpreadConstraint:
        return snapshot_pb2.TopologySpreadConstraint(
            max_skew=constraint.max_skew,
            topology_key=self.string(constraint.topology_key),
            selector=self._selector(constraint.selector),
            min_domains=constraint.min_domains,
            honor_node_affinity=constraint.honor_node_affinity,
            honor_node_taints=constraint.honor_node_taints,
            match_label_keys=[self.string(key) for key in constraint.match_label_keys],
        )


def add_claims(out: pb.PodSpec, claims: tuple[PodClaim, ...], extended: tuple[ExtendedDeviceRequest, ...]) -> None:
    """Add the claims of a pod, and its extended resources that devices may satisfy."""
    for claim in claims:
        row = out.claims.add(name=claim.name, shared_claim=claim.shared, problem=claim.problem)
        if isinstance(claim.spec, DeviceClaim):
            row.spec.SetInParent()
            write_claim_spec(row.spec, claim.spec)
    for resource in extended:
        out.extended_device_requests.add(name=resource.name, resource=resource.resource, count=resource.devices)


def write_claim_spec(out: pb.DeviceClaimSpec, claim: DeviceClaim) -> None:
    """Write what a claim asks for."""
    for request in claim.requests:
        alternatives = request.first_available if request.exactly is None else (request.exactly,)
        admin = request.exactly is not None and bool(request.exactly.admin_access)
        row = out.requests.add(name=request.name, first_available=request.exactly is None, admin_access=admin)
        for alternative in alternatives:
            _add_alternative(row, alternative)
    for constraint in claim.constraints:
        out.constraints.add(
            requests=constraint.requests,
            match_attribute=constraint.match_attribute,
            distinct_attribute=constraint.distinct_attribute,
        )


def _add_alternative(row: pb.DeviceRequest, alternative: DeviceSubRequest) -> None:
    out = row.alternatives.add(
        name=alternative.name,
        device_class=alternative.device_class,
        selectors=[text for text in alternative.selectors if text is not None],
        mode=_MODES.get(alternative.mode, pb.DeviceAllocationMode.OTHER),
        count=alternative.count,
        unknown_selector=None in alternative.selectors,
    )
    for toleration in alternative.tolerations:
        out.tolerations.add(
            key=toleration.key, operator=toleration.operator, value=toleration.value, effect=toleration.effect
        )
    for name, nano in alternative.capacity or ():
        out.capacities.add(name=name, value=f"{nano}n")


def _code(value: int) -> Any:
    """Return a number typed as a value of an enumeration."""
    return value


def _int32(values: Any) -> bytes:
    return np.asarray(values, "<i4").tobytes()
