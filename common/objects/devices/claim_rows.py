"""Claims as plain values: the whole content of a claim in a snapshot, before strings become indices."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from trimtab.common.kubernetes.kinds.devices import (
    AllocationResult,
    ClaimConsumer,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimStatus,
)
from trimtab.common.kubernetes.kinds.metadata import NodeSelector, ObjectMeta
from trimtab.common.kubernetes.signals import well_known
from trimtab.common.objects.devices.pod_claims import MOST_RESULTS, claim_owner

ALLOCATED, DELETED, BINDING_FAILED = 1, 2, 4
ADMIN_ACCESS, SHARE = 1, 2
POD_CLAIM_NAME: Final = well_known.POD_CLAIM_NAME.key
"""Annotation of a claim that was made from a template: its name within the pod."""
_NODE_NAME: Final = "metadata.name"
_NONE: Final = ResourceClaimStatus()
_NO_SPEC: Final = ResourceClaimSpec()
_encode: Callable[[Any], bytes] = msgspec.msgpack.Encoder(order="deterministic").encode

Amounts = tuple[tuple[str, str], ...]
"""Names of capacities and quantities."""


class ClaimRow(NamedTuple):
    """A claim. `spec` : encoded; `pod`, `pod_claim` : as in `ResourceClaimTable`; `node` : the only node of the
    allocation, "" = none such; `selector` : any other selector of it, encoded, b"" = none.

    results : (driver, pool, device, request, flags, amounts of capacities) of each device, of more than the API allows
    the first ones; consumers : names of pods,
    "" = not a pod; object : the claim, which is kept alive, so that its identity stays its own
    """

    object: ResourceClaim
    namespace: str
    name: str
    spec: bytes
    pod: str
    pod_claim: str
    flags: int
    node: str
    selector: bytes
    results: tuple[tuple[str, str, str, str, int, Amounts], ...]
    consumers: tuple[str, ...]


class ClaimReader:
    """Reads claims; keeps distinct specs and node selectors by their encoded form."""

    def __init__(self) -> None:
        self.specs: dict[bytes, ResourceClaimSpec] = {}
        self.selectors: dict[bytes, NodeSelector] = {}

    def row(self, claim: ResourceClaim) -> ClaimRow:
        """Return the row of a claim."""
        meta, status = claim.metadata or ObjectMeta(), claim.status or _NONE
        spec = claim.spec or _NO_SPEC
        key = _encode(spec)
        self.specs.setdefault(key, spec)
        owner = claim_owner(claim)
        is_of_pod = owner is not None and owner.kind == "Pod"
        allocation = status.allocation
        node, selector = ("", b"") if allocation is None else self._place(allocation)
        return ClaimRow(
            claim,
            meta.namespace or "default",
            meta.name or "",
            key,
            (owner.name or "") if owner is not None and is_of_pod else "",
            ((meta.annotations or {}).get(POD_CLAIM_NAME) or "") if is_of_pod else "",
            (0 if allocation is None else ALLOCATED)
            | (DELETED if meta.deletion_timestamp is not None else 0)
            | (BINDING_FAILED if status.devices and _has_failed(status) else 0),
            node,
            selector,
            _results(allocation),
            tuple([_consumer(used) for used in status.reserved_for]) if status.reserved_for else (),
        )

    def _place(self, allocation: AllocationResult) -> tuple[str, bytes]:
        """Return the only node of an allocation, or its selector."""
        selector = allocation.node_selector
        if selector is None:
            return "", b""
        terms = selector.node_selector_terms or ()
        if len(terms) == 1 and not terms[0].match_expressions and len(terms[0].match_fields or ()) == 1:
            field = (terms[0].match_fields or [])[0]
            if field.key == _NODE_NAME and field.operator == "In" and len(field.values or ()) == 1:
                return (field.values or [""])[0], b""
        key = _encode(selector)
        self.selectors.setdefault(key, selector)
        return "", key


def _results(allocation: AllocationResult | None) -> tuple[tuple[str, str, str, str, int, Amounts], ...]:
    results = allocation.devices.results if allocation is not None and allocation.devices is not None else None
    if not results:
        return ()
    return tuple(
        [
            (
                one.driver or "",
                one.pool or "",
                one.device or "",
                one.request or "",
                (ADMIN_ACCESS if one.admin_access else 0) | (SHARE if one.share_id else 0),
                tuple(sorted([(name, str(amount)) for name, amount in one.consumed_capacity.items()]))
                if one.consumed_capacity
                else (),
            )
            for one in (results if len(results) <= MOST_RESULTS else results[:MOST_RESULTS])
        ]
    )


def _consumer(used: ClaimConsumer) -> str:
    return (used.name or "") if used.resource == "pods" and not used.api_group else ""


def _has_failed(status: ResourceClaimStatus) -> bool:
    """Return whether a binding failure condition of one of the devices holds."""
    results = (status.allocation and status.allocation.devices and status.allocation.devices.results) or ()
    failures = {_place_of(result): set(result.binding_failure_conditions or ()) for result in results}
    return any(
        condition.status == "True" and condition.type in failures.get(_place_of(device), ())
        for device in status.devices or ()
        for condition in device.conditions or ()
    )


def _place_of(one: Any) -> tuple[str | None, str | None, str | None, str | None]:
    return one.driver, one.pool, one.device, one.share_id
