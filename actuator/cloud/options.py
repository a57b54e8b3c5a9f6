"""Options of a node group as texts, from annotations or tags; template, price and options of new nodes in a NodeGroup
object, which `memory` and `kwok` share.

Decides the names (those of the Cluster Autoscaler's tags, without regard to case, `jobpodsunmovable` and
`draintimeout`) and forms. A value that cannot be read is an error that names it.
Source: CA, `config/const.go`, and Go's `time.ParseDuration`.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from trimtab.actuator.cloud.provider import CloudNodeTemplate, GroupOptions, MachineType, Reservation
from trimtab.actuator.kube.cluster import TaintView, instance_type
from trimtab.common.kubernetes.quantities import counted_amount
from trimtab.common.kubernetes.signals import ours
from trimtab.prices import MOST_PER_HOUR, is_price

ANNOTATION_PREFIX: Final = ours.GROUP_OPTIONS.key
_UNITS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3}
_PART: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(h|ms|m|s)", re.ASCII)


def read_options(texts: Mapping[str, str]) -> GroupOptions:
    """Return the options of names and values; names of no option are left out. Raises `ValueError`."""
    values: dict[str, Any] = {}
    for name, text in sorted(texts.items()):
        known = _OPTIONS.get(name.lower())
        if known is None:
            continue
        field, read = known
        try:
            values[field] = read(text.strip())
        except ValueError as error:
            raise ValueError(f"option {name}: {error}") from error
    return GroupOptions(**values)


def annotated_options(annotations: Mapping[str, Any] | None) -> GroupOptions:
    """Return the options in the annotations of a NodeGroup object. Raises `ValueError`."""
    return read_options(
        {
            key.removeprefix(ANNOTATION_PREFIX): str(value)
            for key, value in (annotations or {}).items()
            if key.startswith(ANNOTATION_PREFIX)
        }
    )


def duration_s(text: str) -> float:
    """Return seconds of a duration such as "10m" or "1h30m". Raises `ValueError`."""
    parts = _PART.findall(text)
    if text == "0":
        return 0.0
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is not a duration; write it as 90s, 10m or 1h30m")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def _share(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise ValueError(f"{text!r} is not a share; give a number from 0 to 1")
    return value


def _truth(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{text!r} must be true or false")
    return text.lower() == "true"


_OPTIONS: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    "scaledownutilizationthreshold": ("scale_down_utilization_threshold", _share),
    "scaledowngpuutilizationthreshold": ("scale_down_gpu_utilization_threshold", _share),
    "scaledownunneededtime": ("scale_down_unneeded_s", duration_s),
    "scaledownunreadytime": ("scale_down_unready_s", duration_s),
    "maxnodeprovisiontime": ("max_node_provision_s", duration_s),
    "zeroormaxnodescaling": ("zero_or_max", _truth),
    "ignoredaemonsetsutilization": ("ignore_daemon_sets_utilization", _truth),
    "jobpodsunmovable": ("job_pods_unmovable", _truth),
    "draintimeout": ("drain_timeout_s", duration_s),
}


def template_of(template: Mapping[str, Any], more_labels: Mapping[str, str]) -> CloudNodeTemplate | None:
    """Return the template of a Node object without name; None = it gives no amounts. `more_labels` win."""
    metadata, status = template.get("metadata") or {}, template.get("status") or {}
    capacity = status.get("capacity") or status.get("allocatable")
    if not capacity:
        return None
    taints = (template.get("spec") or {}).get("taints") or ()
    return CloudNodeTemplate(
        labels={**(metadata.get("labels") or {}), **more_labels},
        taints=tuple(TaintView(taint["key"], taint.get("value") or "", taint.get("effect") or "") for taint in taints),
        capacity=_texts(capacity),
        allocatable=_texts(status.get("allocatable") or capacity),
        annotations=metadata.get("annotations") or {},
    )


def price_of(spec: Mapping[str, Any]) -> float | None:
    """Return the price of a node and hour; None = not given. Raises `ValueError`."""
    price = spec.get("price")
    if price is None:
        return None
    if isinstance(price, bool) or not isinstance(price, int | float) or not is_price(price):
        raise ValueError(f"spec.price must be a number from 0 to {MOST_PER_HOUR:.0e}, not {price!r}")
    return float(price)


def options_of(item: Mapping[str, Any]) -> GroupOptions:
    """Return the options of a NodeGroup object. Raises `ValueError`."""
    options = annotated_options(item["metadata"].get("annotations"))
    zero_or_max = (item.get("spec") or {}).get("zeroOrMax")
    if options.zero_or_max is None and zero_or_max is not None:
        return options._replace(zero_or_max=bool(zero_or_max))
    return options


def _texts(amounts: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}


def machines_of(
    labels: Mapping[str, str], amounts: Mapping[str, str], reservation: Reservation
) -> tuple[MachineType, ...]:
    """Return the one machine of a template; none where cpu or memory is missing, 0, or no quantity."""
    try:
        cpu, memory, pods = (counted_amount(name, amounts.get(name) or "0") for name in ("cpu", "memory", "pods"))
    except ValueError:
        return ()
    machine = MachineType(instance_type(labels), cpu, memory, pods, reservation)
    return (machine,) if cpu > 0 and memory > 0 else ()
