"""Template, price and options of new nodes in a NodeGroup object. Decides how the object is read; `memory` and `kwok`
share it. An object without template has none here.
"""

from collections.abc import Mapping
from typing import Any

from trimtab.actuator.cloud.options import annotated_options
from trimtab.actuator.cloud.provider import CloudNodeTemplate, GroupOptions, MachineType, Reservation
from trimtab.actuator.kube.cluster import TaintView, instance_type
from trimtab.common.kubernetes.quantities import counted_amount
from trimtab.prices import MOST_PER_HOUR, is_price


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
