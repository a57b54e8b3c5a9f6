"""Learns the resources of instance types from nodes, and puts them into the templates of node groups. Decides which
nodes count: those whose machine type the cloud names, or that is the only one of their group; never those of a mix of
types that the cloud does not distinguish. Of nodes of one type the least of each amount counts. A smaller amount
replaces the known one at once, a larger one only if the difference is more than noise. A device that a young node lacks
may still come with its plugin; a device that even old nodes lack will not. Of devices, the capacity that all nodes have
counts if at least one node has all of them working: a broken device concerns only its own node. Pure.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from trimtab.actuator.cloud.provider import CloudNodeTemplate, MachineType
from trimtab.actuator.kube.cluster import NodeQuantities, NodeView, is_extended
from trimtab.actuator.node_types.estimate import Estimator, least, nominal_of
from trimtab.actuator.tracker.states import NodeAmounts, SeenType
from trimtab.common.kubernetes.quantities import counted_amount

# Nodes of one instance type differ by some KiB.
_NOISE_SHARE: Final = 0.01
# Least share of an unnamed machine's memory that its nodes show; a node with less is of another machine.
_LEAST_SHARE: Final = 0.75

_KIB: Final = 1 << 10
_IN_BYTES: Final = ("memory", "ephemeral-storage")


class ObservedNodes(NamedTuple):
    """Resources of the nodes of one instance type (label, "" = none) in one group: the least of each amount.

    has_old : one of them is old enough to show all its resources
    node_group : id; instance_type : value of the label; capacity, allocatable : as the nodes' status gives them
    """

    node_group: str
    instance_type: str
    capacity: NodeAmounts
    allocatable: NodeAmounts
    has_old: bool = False


class _NodeResources(NamedTuple):
    """The resources of one node. `is_old` : it is old enough to show all of them. `capacity`, `allocatable` : as its
    status gives them.
    """

    capacity: NodeAmounts
    allocatable: NodeAmounts
    is_old: bool


def observed_nodes(nodes: Iterable[tuple[str, NodeView]], old_ms: int = 0) -> list[ObservedNodes]:
    """Return the resources of nodes, given with their groups, sorted by group and type; nodes without amounts are left
    out. old_ms : nodes created before it are old. O(nodes); few quantities are parsed, as nodes of a type are mostly
    alike.
    """
    distinct = {
        (group, node.instance_type, node.capacity, node.allocatable, 0 < node.created_ms < old_ms)
        for group, node in nodes
    }
    found: dict[tuple[str, str], list[_NodeResources]] = {}
    for group, instance_type, capacity, allocatable, is_old in distinct:
        whole, rest = _amounts(capacity), _amounts(allocatable)
        if whole is not None and rest is not None:
            found.setdefault((group, instance_type), []).append(_NodeResources(whole, rest, is_old))
    return [ObservedNodes(*key, *_shown(rows), any(row.is_old for row in rows)) for key, rows in sorted(found.items())]


def machine_of(nodes: ObservedNodes, machines: Sequence[MachineType], is_only: bool) -> MachineType | None:
    """Return the group's machine that the nodes are of, None = none. `is_only` : their group has no other type."""
    named = next((machine for machine in machines if machine.name and machine.name == nodes.instance_type), None)
    if named is not None or len(machines) != 1 or machines[0].name or not is_only:
        return named
    (machine,) = machines
    share = nodes.capacity.memory_bytes / machine.memory_bytes if machine.memory_bytes else 0.0
    is_like = nodes.capacity.cpu_milli == machine.cpu_milli and _LEAST_SHARE <= share <= 1 + _NOISE_SHARE
    return machine if is_like else None


def learned_resources(
    nodes: ObservedNodes, machine: MachineType, known: SeenType | None = None, given: Collection[str] = ()
) -> SeenType:
    """Return the record to keep of nodes of one type. known : the record of the same type in the same group; given :
    other resources that its nodes have according to the cloud.
    """
    nominal = nominal_of(machine)
    before = known if known is not None and known.nominal == nominal else None

    def whole(shown: NodeAmounts, earlier: NodeAmounts | None) -> NodeAmounts:
        others = {} if earlier is None else dict(earlier.others)
        if nodes.has_old:
            others = dict.fromkeys((*given, *others), 0)
        return msgspec.structs.replace(shown, others=_sorted(others | dict(shown.others)))

    return SeenType(
        nodes.node_group,
        nodes.instance_type,
        nominal,
        whole(nodes.capacity, None if before is None else before.capacity),
        whole(nodes.allocatable, None if before is None else before.allocatable),
    )


def is_known(new: SeenType, known: SeenType | None) -> bool:
    """Return whether the record of the same type in the same group still holds, noise aside."""
    if known is None or known.nominal != new.nominal:
        return False
    return _holds(known.capacity, new.capacity) and _holds(known.allocatable, new.allocatable)


def _holds(before: NodeAmounts, now: NodeAmounts) -> bool:
    had, has = dict(before.others), dict(now.others)
    pairs = [
        (before.cpu_milli, now.cpu_milli),
        (before.memory_bytes, now.memory_bytes),
        (before.pods, now.pods),
        *((had[name], has[name]) for name in had.keys() & has.keys()),
    ]
    return had.keys() == has.keys() and all(old <= new <= old * (1 + _NOISE_SHARE) for old, new in pairs)


def _shown(rows: Sequence[_NodeResources]) -> tuple[NodeAmounts, NodeAmounts]:
    """Return capacity and allocatable of nodes of one type, the least of each amount; other resources only if a node
    has them.
    """
    wholes, rests = ([dict(amounts.others) for amounts in column] for column in list(zip(*rows, strict=True))[:2])
    capacity, allocatable = {}, {}
    for name in {name for rest in rests for name in rest}:
        whole = min((amounts[name] for amounts in wholes if name in amounts), default=0)
        working = [rest[name] for rest in rests if name in rest]
        capacity[name] = whole or min(working)
        allocatable[name] = min(capacity[name], max(working)) if is_extended(name) else min(working)
    return (
        msgspec.structs.replace(least([row.capacity for row in rows]), others=_sorted(capacity)),
        msgspec.structs.replace(least([row.allocatable for row in rows]), others=_sorted(allocatable)),
    )


def _amounts(texts: NodeQuantities) -> NodeAmounts | None:
    """Return the amounts without other resources that are 0; None = cpu or memory is missing, or an amount cannot be
    read.
    """
    try:
        cpu, memory = counted_amount("cpu", texts.cpu), counted_amount("memory", texts.memory)
        pods = counted_amount("pods", texts.pods) if texts.pods else 0
        others = tuple((name, number) for name, text in texts.others if (number := counted_amount(name, text)) > 0)
    except ValueError:
        return None
    return NodeAmounts(cpu, memory, pods, others) if cpu > 0 and memory > 0 else None


def _sorted(others: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(others.items()))


class Offers:
    """Templates by node group, from the nodes seen."""

    def __init__(self) -> None:
        self._begin(())

    def _begin(self, seen: Sequence[SeenType]) -> None:
        self._seen = seen
        self._estimator = Estimator(seen)
        self._made: dict[str, tuple[CloudNodeTemplate, CloudNodeTemplate]] = {}

    def of(self, group: str, template: CloudNodeTemplate, seen: Sequence[SeenType]) -> CloudNodeTemplate:
        """Return the template with its nodes' resources; unchanged if its amounts are those of nodes already."""
        if not template.machines:
            return template
        if seen is not self._seen:
            self._begin(seen)
        known = self._made.get(group)
        if known is None or known[0] != template:
            known = self._made[group] = template, _offered(group, template, self._estimator)
        return known[1]


def _offered(group: str, template: CloudNodeTemplate, estimator: Estimator) -> CloudNodeTemplate:
    offers = [estimator.offer(group, machine) for machine in template.machines]
    capacity, allocatable = least([offer.capacity for offer in offers]), least([offer.allocatable for offer in offers])
    others = [[dict(offer.capacity.others) for offer in offers], [dict(offer.allocatable.others) for offer in offers]]
    return template._replace(
        capacity=_with_others({**template.capacity, **_texts(capacity, template)}, others[0], template),
        allocatable=_with_others({**template.allocatable, **_texts(allocatable, template)}, others[1], template),
    )


def _with_others(
    given: Mapping[str, str], shown: Sequence[Mapping[str, int]], template: CloudNodeTemplate
) -> dict[str, str]:
    """Return the amounts plus the other resources that all machines have, according to their nodes."""
    texts = dict(given)
    for name in sorted({name for amounts in shown for name in amounts} - template.declared):
        known = [amounts[name] for amounts in shown if name in amounts]
        if len(known) < len(shown) and (name in given or is_extended(name)):
            known.append(counted_amount(name, given.get(name, "0")))
        texts[name] = _text(name, min(known))
        if not min(known):
            del texts[name]
    return texts


def _text(name: str, number: int) -> str:
    return f"{number // _KIB}Ki" if name in _IN_BYTES and number % _KIB == 0 else str(number)


def _texts(amounts: NodeAmounts, template: CloudNodeTemplate) -> dict[str, str]:
    """Return amounts as quantities, without those that are declared or not known."""
    cpu = amounts.cpu_milli
    texts = {
        "cpu": f"{cpu}m" if cpu % 1000 else str(cpu // 1000),
        "memory": _text("memory", amounts.memory_bytes),
    }
    if amounts.pods:
        texts["pods"] = str(amounts.pods)
    return {name: text for name, text in texts.items() if name not in template.declared}
