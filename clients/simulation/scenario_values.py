"""Values of scenarios: durations, quantities, names, prices, parts of Kubernetes objects; how all parts are read.

Decides which values can be meant. Raises ValueError, of which pydantic makes its ValidationError.
"""

import math
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator
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


ATOMIC_SCALE_UP: Final = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"


def _at_least_a_second(value: float) -> float:
    if value < 1:
        raise ValueError("at least 1s")
    return value


class JobRequestModel(BaseModel):
    """A ProvisioningRequest for each job, whose pods are created once there is room for all of them."""

    model_config = MODEL_CONFIG

    class_name: Literal["best-effort-atomic-scale-up.autoscaling.x-k8s.io", "check-capacity.autoscaling.x-k8s.io"] = (
        Field(default=ATOMIC_SCALE_UP, alias="class")
    )
    """Class of the request: new nodes, or only room that exists."""
    valid_until: Annotated[Duration, AfterValidator(_at_least_a_second)] | None = None
    """How long after its creation room is sought, in whole seconds; by default as the settings say, 7 days."""


class ReclaimModel(BaseModel):
    """Machines that the cloud takes back, as it does with spot instances. The first entry that matches a node applies.

    A notice comes at a random time: the node is cordoned, as termination handlers do it; when the notice ends, machine
    and node are gone, and controllers create its pods again.
    """

    model_config = MODEL_CONFIG

    node_groups: list[Name] = []
    """Node groups whose machines are taken back; none = all."""
    labels: Labels = {}
    """Labels that a node must have."""
    per_hour: float | None = Field(default=None, gt=0, le=3600, allow_inf_nan=False)
    """Average number of reclaims per hour that a machine runs; or give `meanTime`."""
    mean_time: Duration | None = None
    """Average time from a node's start to its notice; or give `perHour`."""
    notice: Duration = 120.0
    """From the notice to the end of the machine."""
    replace: bool = False
    """Whether the cloud starts another machine at once, as an auto scaling group does; otherwise the group shrinks."""

    @model_validator(mode="after")
    def _has_one_rate(self) -> Self:
        if (self.per_hour is None) == (self.mean_time is None):
            raise ValueError("give either perHour or meanTime")
        if self.mean_time is not None and self.mean_time < 1:
            raise ValueError("meanTime: at least 1s")
        return self

    @property
    def mean_s(self) -> float:
        """Return the average time from a node's start to its notice, seconds."""
        return 3600 / self.per_hour if self.per_hour is not None else self.mean_time or 0.0


class StorageClassModel(BaseModel):
    """A class of volumes. A volume is in one zone, and so is every pod that mounts it."""

    model_config = MODEL_CONFIG

    name: Name
    """Name of the class."""
    binding: Literal["WaitForFirstConsumer", "Immediate"] = "WaitForFirstConsumer"
    """Whether a volume is made where its first pod is scheduled, or at once, in a zone that follows from its name."""
    zones: list[str] = []
    """Zones in which volumes can be; none = every zone of the node groups."""
    driver: Name = "disk.csi.trimtab.dev"
    """Name of the CSI driver, for `attachLimits` of node groups."""


class VolumeModel(BaseModel):
    """A volume of each pod of a StatefulSet. It stays when the pod goes; the pod that follows returns to its zone."""

    model_config = MODEL_CONFIG

    name: Name
    """Name of the volume, and the prefix of the claims' names."""
    storage_class: Name
    """One of `storageClasses`."""
    size: Quantity = "10Gi"
    """Requested size; it limits nothing."""
