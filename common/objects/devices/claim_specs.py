"""What a claim asks for, as a message; and what makes it unusable. The API server refuses such claims, files may have
them. Source: kubernetes pkg/apis/resource/validation; limits of resource/v1 types.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from trimtab.common.kubernetes.kinds.devices import (
    EXACT_COUNT,
    AlternativeRequest,
    CelSelector,
    ClaimedDevices,
    DeviceRequest,
    DeviceSelector,
    ExactRequest,
    RequestConstraint,
    ResourceClaimSpec,
)
from trimtab.common.kubernetes.object_errors import FieldError, below
from trimtab.v1 import snapshot_pb2 as pb

MOST_REQUESTS: Final = 32
MOST_CONSTRAINTS: Final = 32
MOST_SELECTORS: Final = 32
MOST_ALTERNATIVES: Final = 8
MOST_TOLERATIONS: Final = 16
LONGEST_EXPRESSION: Final = 10 * 1024
"""Bytes."""
_MODES: Final[Mapping[str, pb.DeviceAllocationMode.Code.ValueType]] = MappingProxyType(
    {EXACT_COUNT: pb.DeviceAllocationMode.EXACT_COUNT, "All": pb.DeviceAllocationMode.ALL}
)


def claim_spec(spec: ResourceClaimSpec | None) -> pb.DeviceClaimSpec:
    """Return what a claim asks for. Errors: FieldError with the path below `spec`."""
    claim = (spec.devices if spec else None) or ClaimedDevices()
    requests, constraints = claim.requests or (), claim.constraints or ()
    with below("devices"):
        _limit("requests", requests, MOST_REQUESTS)
        _limit("constraints", constraints, MOST_CONSTRAINTS)
        row = pb.DeviceClaimSpec()
        names: set[str] = set()
        for at, request in enumerate(requests):
            with below(f"requests[{at}]"):
                made = _request(request)
                if made.name in names:
                    raise FieldError("name", f"{made.name} is given twice", "give each request its own name")
            names.add(made.name)
            row.requests.append(made)
        row.constraints.extend(_constraint(f"constraints[{at}]", one) for at, one in enumerate(constraints))
    return row


def expressions(selectors: Iterable[DeviceSelector] | None) -> tuple[list[str], bool]:
    """Return the expressions of selectors, and whether one is not an expression. Errors: FieldError."""
    found = list(selectors or ())
    _limit("selectors", found, MOST_SELECTORS)
    texts = [(one.cel or CelSelector()).expression or "" for one in found]
    for at, text in enumerate(texts):
        if len(text.encode()) > LONGEST_EXPRESSION:
            problem = f"the expression has more than {LONGEST_EXPRESSION} bytes"
            raise FieldError(f"selectors[{at}].cel.expression", problem, "shorten it")
    return [text for text in texts if text], not all(texts)


def _request(request: DeviceRequest) -> pb.DeviceRequest:
    if not request.name:
        raise FieldError("name", "it is missing", "give each request a name")
    alternatives = request.first_available or ()
    if bool(alternatives) is (request.exactly is not None):
        given = "both" if alternatives else "neither"
        raise FieldError("", f"{given} of `exactly` and `firstAvailable` is given", "give one of the two")
    row = pb.DeviceRequest(name=request.name, first_available=bool(alternatives))
    if request.exactly is not None:
        with below("exactly"):
            row.alternatives.append(_one_kind(request.exactly, ""))
        row.admin_access = bool(request.exactly.admin_access)
    _limit("firstAvailable", alternatives, MOST_ALTERNATIVES)
    for at, alternative in enumerate(alternatives):
        with below(f"firstAvailable[{at}]"):
            if not alternative.name:
                raise FieldError("name", "it is missing", "give each alternative a name")
            row.alternatives.append(_one_kind(alternative, alternative.name))
    return row


def _one_kind(request: ExactRequest | AlternativeRequest, name: str) -> pb.DeviceSubRequest:
    if not request.device_class_name:
        raise FieldError("deviceClassName", "it is missing", "name a DeviceClass")
    texts, is_other = expressions(request.selectors)
    _limit("tolerations", request.tolerations or (), MOST_TOLERATIONS)
    if request.count is not None and request.count < 0:
        raise FieldError("count", f"{request.count} is negative", "give at least 1")
    return pb.DeviceSubRequest(
        name=name,
        device_class=request.device_class_name,
        selectors=texts,
        mode=_MODES.get(request.allocation_mode or EXACT_COUNT, pb.DeviceAllocationMode.OTHER),
        count=request.count or 0,
        tolerations=[
            pb.DeviceToleration(key=t.key or "", operator=t.operator or "", value=t.value or "", effect=t.effect or "")
            for t in request.tolerations or ()
        ],
        capacities=quantities(request.capacity.requests if request.capacity else None),
        unknown_selector=is_other,
    )


def _constraint(path: str, constraint: RequestConstraint) -> pb.DeviceConstraint:
    if bool(constraint.match_attribute) is bool(constraint.distinct_attribute):
        given = "both" if constraint.match_attribute else "neither"
        raise FieldError(path, f"{given} of `matchAttribute` and `distinctAttribute` is given", "give one of the two")
    return pb.DeviceConstraint(
        requests=constraint.requests or (),
        match_attribute=constraint.match_attribute or "",
        distinct_attribute=constraint.distinct_attribute or "",
    )


def quantities(amounts: Mapping[str, str | int | float] | None) -> list[pb.NamedQuantity]:
    """Return quantities as written, sorted by name."""
    return [pb.NamedQuantity(name=name, value=str(amount)) for name, amount in sorted((amounts or {}).items())]


def _limit(field: str, items: Sequence[object], most: int) -> None:
    if len(items) > most:
        raise FieldError(field, f"there are {len(items)}", f"give at most {most}")
