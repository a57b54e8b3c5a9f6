"""The machine behind a template, for clouds that describe one in quantities.

Decides nothing: unreadable amounts give no machine, and are reported with the template.
"""

from collections.abc import Mapping

from trimtab.actuator.cloud.provider import MachineType, Reservation
from trimtab.actuator.kube.cluster import instance_type
from trimtab.clients.kubernetes.quantities import counted_amount


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
