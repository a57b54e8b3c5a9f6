"""Values of scenarios: durations, quantities, names, prices, parts of Kubernetes objects; how all parts are read.

Decides which values can be meant. Raises ValueError, of which pydantic makes its ValidationError.
"""

import math
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel

from trimtab.common.kubernetes.names import RULE, is_label, is_subdomain
from trimtab.common.kubernetes.object_errors import FieldError, InvalidInputError, ObjectError
from trimtab.common.kubernetes.quantities import parse_quantity
from trimtab.common.objects import build_snapshot, decode_objects
from trimtab.common.objects.times import go_duration_ns
from trimtab.prices import MOST_PER_HOUR

Json = dict[str, Any]


class ScenarioError(InvalidInputError):
    """A scenario, trace or result that cannot be used; the message names file, line and field."""


_CONTAINER = {"name": "main", "resources": {"requests": {"cpu": "1", "memory": "1Mi"}}}


def check_pod_spec(spec: Json) -> Json:
    """Return a pod's spec, which need not have containers."""
    if "nodeName" in spec:
        raise ValueError("nodeName: the scheduler decides it; leave it out, or use nodeSelector")
    _check("Pod", {"containers": [_CONTAINER], **spec}, {})
    return spec


def check_taints(taints: list[Json]) -> list[Json]:
    """Return a node's taints."""
    _check("Node", {"taints": taints}, {"allocatable": {"cpu": "1", "memory": "1Mi", "pods": "1"}})
    return taints


def _check(kind: str, spec: Json, status: Json) -> None:
    metadata = {"name": "x"} | ({"namespace": "default"} if kind == "Pod" else {})
    item = {"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": spec, "status": status}
    try:
        build_snapshot(decode_objects([item]))
    except ObjectError as error:
        raise ValueError(f"{error.path.removeprefix('spec.')}: {error.problem}") from None


LONGEST_S = 366 * 86_400.0


def seconds(value: object) -> float:
    """Return a duration in seconds. Raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError('a duration is text such as "90s" or "1h30m", or a number of seconds')
    try:
        found = go_duration_ns(value) / 1e9 if isinstance(value, str) else float(value)
    except FieldError as error:
        raise ValueError(str(error).removeprefix(": ")) from None
    if not math.isfinite(found) or not 0 <= found <= LONGEST_S:
        raise ValueError(f"{value} is no duration between 0 and a year")
    return found


def _quantity(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError('a quantity is text such as "500m" or "2Gi", or a number')
    if parse_quantity(str(value)) < 0:
        raise ValueError(f"{value} is negative")
    return str(value)


def _name(value: str) -> str:
    if not is_subdomain(value):
        raise ValueError(f"{value!r}: a name has {RULE}")
    return value


def _namespace(value: str) -> str:
    if not is_label(value):
        raise ValueError(f"{value!r} is no namespace; those have {RULE}")
    return value


Duration = Annotated[
    float,
    BeforeValidator(seconds),
    WithJsonSchema({"type": ["string", "number"], "description": 'as in Go, "90s", "1h30m", or seconds'}),
]
Price = Annotated[float, Field(ge=0, le=MOST_PER_HOUR, allow_inf_nan=False)]
"""Hourly price of a node."""
Quantity = Annotated[
    str, BeforeValidator(_quantity), WithJsonSchema({"type": ["string", "number"], "description": 'such as "500m"'})
]
Name = Annotated[str, BeforeValidator(_name)]
Labels = dict[Annotated[str, Field(min_length=1)], str]
Namespace = Annotated[str, BeforeValidator(_namespace)]


MODEL_CONFIG: Final = ConfigDict(
    alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True, use_attribute_docstrings=True
)
"""How all parts of a scenario are read: keys in camel case as in Kubernetes, unknown ones refused, values constant."""
