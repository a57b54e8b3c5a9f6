"""What nodes teach about their instance types.

Decides which nodes teach: those of one machine that the cloud names, or the only one of their group, never of a mix of
types that the cloud does not tell apart. Of nodes of one type the least of each amount counts; what was known is
replaced by less at once, by more only where the difference is more than noise. Pure.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from actuator.cloud.provider import MachineType
from actuator.kube.cluster import NodeQuantities, NodeView
from actuator.node_types.estimate import least, nominal_of
from actuator.simulated_cluster.quantities import amount
from actuator.tracker.states import NodeAmounts, SeenType

# Nodes of one instance type differ by some KiB.
_NOISE_SHARE: Final = 0.01
# Share of the memory of a machine without name that a node of it shows; any other is of another machine.
_LEAST_SHARE: Final = 0.75


class Example(NamedTuple):
    """What nodes of one instance type in one group have, the least of each amount."""

    node_group: str
    instance_type: str
    capacity: NodeAmounts
    allocatable: NodeAmounts


def examples(nodes: Iterable[tuple[str, NodeView]]) -> list[Example]:
    """Return what nodes, each with its group, have, sorted by group and type; those without amounts are left out.

    O(nodes), and few quantities are read: nodes of a type mostly say the same.
    """
    distinct = {(group, node.instance_type, node.capacity, node.allocatable) for group, node in nodes}
    found: dict[tuple[str, str], list[tuple[NodeAmounts, NodeAmounts]]] = {}
    for group, instance_type, capacity, allocatable in distinct:
        whole, rest = _amounts(capacity), _amounts(allocatable)
        if whole is not None and rest is not None:
            found.setdefault((group, instance_type), []).append((whole, rest))
    return [
        Example(*key, least([whole for whole, _ in rows]), least([rest for _, rest in rows]))
        for key, rows in sorted(found.items())
    ]


def machine_of(example: Example, machines: Sequence[MachineType], is_only: bool) -> MachineType | None:
    """Return the machine of a group that the example is of, None = none. `is_only` : its group has no other type."""
    named = next((one for one in machines if one.name and one.name == example.instance_type), None)
    if named is not None or len(machines) != 1 or machines[0].name or not is_only:
        return named
    (machine,) = machines
    share = example.capacity.memory_bytes / machine.memory_bytes if machine.memory_bytes else 0.0
    is_like = example.capacity.cpu_milli == machine.cpu_milli and _LEAST_SHARE <= share <= 1 + _NOISE_SHARE
    return machine if is_like else None


def lesson(example: Example, machine: MachineType) -> SeenType:
    """Return what is to be kept of an example."""
    group, instance_type, capacity, allocatable = example
    return SeenType(group, instance_type, nominal_of(machine), capacity, allocatable)


def is_known(new: SeenType, known: SeenType | None) -> bool:
    """Return whether what is known of the same type in the same group holds, but for noise."""
    if known is None or known.nominal != new.nominal:
        return False
    return _holds(known.capacity, new.capacity) and _holds(known.allocatable, new.allocatable)


def _holds(before: NodeAmounts, now: NodeAmounts) -> bool:
    pairs = (
        (before.cpu_milli, now.cpu_milli),
        (before.memory_bytes, now.memory_bytes),
        (before.pods, now.pods),
    )
    return all(old <= new <= old * (1 + _NOISE_SHARE) for old, new in pairs)


def _amounts(texts: NodeQuantities) -> NodeAmounts | None:
    """Return amounts; None = cpu or memory is missing, or cannot be read."""
    try:
        cpu, memory = amount("cpu", texts.cpu), amount("memory", texts.memory)
        pods = amount("pods", texts.pods) if texts.pods else 0
    except ValueError:
        return None
    return NodeAmounts(cpu, memory, pods) if cpu > 0 and memory > 0 else None
