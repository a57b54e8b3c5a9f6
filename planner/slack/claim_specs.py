"""Claims of devices as messages: the reverse of reading them (`trimtab.planner.snapshot.device_values`).

Quantities are written in nano-units, which are exact. Decides nothing.
"""

from trimtab.planner.devices.model import AllocationMode, DeviceClaim, DeviceSubRequest
from trimtab.planner.model.values import ExtendedDeviceRequest, PodClaim
from trimtab.v1 import snapshot_pb2 as pb

_MODES = {
    AllocationMode.EXACT_COUNT.value: pb.DeviceAllocationMode.EXACT_COUNT,
    AllocationMode.ALL.value: pb.DeviceAllocationMode.ALL,
}


def add_claims(out: pb.PodSpec, claims: tuple[PodClaim, ...], extended: tuple[ExtendedDeviceRequest, ...]) -> None:
    """Add the claims of a pod, and its extended resources that devices may satisfy."""
    for claim in claims:
        row = out.claims.add(name=claim.name, shared_claim=claim.shared, problem=claim.problem)
        if isinstance(claim.spec, DeviceClaim):
            row.spec.SetInParent()
            write_claim_spec(row.spec, claim.spec)
    for one in extended:
        out.extended_device_requests.add(name=one.name, resource=one.resource, count=one.devices)


def write_claim_spec(out: pb.DeviceClaimSpec, claim: DeviceClaim) -> None:
    """Write what a claim asks for."""
    for request in claim.requests:
        alternatives = request.first_available if request.exactly is None else (request.exactly,)
        admin = request.exactly is not None and bool(request.exactly.admin_access)
        row = out.requests.add(name=request.name, first_available=request.exactly is None, admin_access=admin)
        for one in alternatives:
            _add_alternative(row, one)
    for constraint in claim.constraints:
        out.constraints.add(
            requests=constraint.requests,
            match_attribute=constraint.match_attribute,
            distinct_attribute=constraint.distinct_attribute,
        )


def _add_alternative(row: pb.DeviceRequest, one: DeviceSubRequest) -> None:
    out = row.alternatives.add(
        name=one.name,
        device_class=one.device_class,
        selectors=[text for text in one.selectors if text is not None],
        mode=_MODES.get(one.mode, pb.DeviceAllocationMode.OTHER),
        count=one.count,
        unknown_selector=None in one.selectors,
    )
    for toleration in one.tolerations:
        out.tolerations.add(
            key=toleration.key, operator=toleration.operator, value=toleration.value, effect=toleration.effect
        )
    for name, nano in one.capacity or ():
        out.capacities.add(name=name, value=f"{nano}n")
