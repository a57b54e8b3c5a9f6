"""Estimates the resources of a machine's node from the nodes of other machines. Sources in this order: nodes of this
instance type in the same node group, such nodes in other groups, an estimate. Disk, huge pages and devices depend on
more than the type, so only nodes of the same group count for them. Two amounts are estimated: the memory that a machine
hides from its operating system, as a line over the machines' memory (of the same family if a node of it was seen); and
the reserved resources, by the published rule that comes closest to all nodes seen, plus its remaining error. Without
any nodes, the cloud's own rule is used. Pure: each answer depends only on the arguments.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import msgspec

from trimtab.actuator.cloud.provider import MachineType, Reservation
from trimtab.actuator.tracker.states import NodeAmounts, SeenType

MIB: Final = 1 << 20
GIB: Final = 1 << 30
# Source: Kubernetes, "Reserve Compute Resources for System Daemons": `memory.available` of `--eviction-hard`.
EVICTION_BYTES: Final = 100 * MIB
# Source: kubelet, `--max-pods`.
MAX_PODS: Final = 110
# Share of the memory that AWS machines hide from their operating system. Source: Karpenter, VM_MEMORY_OVERHEAD_PERCENT.
AWS_HIDDEN_SHARE: Final = 0.075
# Share of each further slice: of the first core 6 %, of the second 1 %, of two more 0.5 %, then 0.25 %.
_CPU_SLICES: Final = ((1000, 0.06), (1000, 0.01), (2000, 0.005), (float("inf"), 0.0025))
_GKE_MEMORY_SLICES: Final = (
    (4 * GIB, 0.25),
    (4 * GIB, 0.20),
    (8 * GIB, 0.10),
    (112 * GIB, 0.06),
    (float("inf"), 0.02),
)
_AKS_CPU: Final = ((0, 0), (1, 60), (2, 100), (4, 140), (8, 180), (16, 260), (32, 420), (64, 740))

_HIDDEN_SHARE: Final = {Reservation.EKS: AWS_HIDDEN_SHARE}
# Rules that differ by less than this share of a node explain the nodes equally well.
_EQUAL_SHARE: Final = 1e-4


class Reserved(NamedTuple):
    """The resources that a node withholds from pods. `cpu_milli` : milli-cores; `memory_bytes` : bytes."""

    cpu_milli: float
    memory_bytes: float


Rule = Callable[[NodeAmounts, int], Reserved]
"""A rule: takes a node's resources, and the number of pods that its machine's addresses allow (0 = not known)."""


def kubelet(node: NodeAmounts, address_pods: int) -> Reserved:
    """Return what the kubelet reserves without configuration. Source: as `EVICTION_BYTES`."""
    del node, address_pods
    return Reserved(0.0, EVICTION_BYTES)


def eks(node: NodeAmounts, address_pods: int) -> Reserved:
    """Return what nodes of Amazon EKS reserve. Source: amazon-eks-ami, `bootstrap.sh` and nodeadm."""
    pods = address_pods or node.pods or MAX_PODS
    return Reserved(_sliced(node.cpu_milli, _CPU_SLICES), (255 + 11 * pods) * MIB + EVICTION_BYTES)


def eks_own_pods(node: NodeAmounts, address_pods: int) -> Reserved:
    """Return the same for nodes whose number of pods is configured."""
    return eks(node, node.pods or address_pods)


def gke(node: NodeAmounts, address_pods: int) -> Reserved:
    """Return what nodes of Google Kubernetes Engine reserve. Source: GKE, "Plan GKE Standard node sizes"."""
    del address_pods
    whole = node.memory_bytes
    memory = _sliced(whole, _GKE_MEMORY_SLICES) if whole >= GIB else 255 * MIB
    return Reserved(_sliced(node.cpu_milli, _CPU_SLICES), memory + EVICTION_BYTES)


def aks(node: NodeAmounts, address_pods: int) -> Reserved:
    """Return what nodes of Azure Kubernetes Service reserve from 1.29 on. Source: AKS, "Node resource reservations"."""
    pods = node.pods or address_pods or MAX_PODS
    memory = min((20 * pods + 50) * MIB, 0.25 * node.memory_bytes)
    return Reserved(_between(node.cpu_milli / 1000, _AKS_CPU), memory + EVICTION_BYTES)


RULES: Final[Sequence[Rule]] = (eks, eks_own_pods, gke, aks, kubelet)


def _sliced(whole: float, slices: Sequence[tuple[float, float]]) -> float:
    """Return the sum of the shares of each slice."""
    total = 0.0
    for size, share in slices:
        part = min(whole, size)
        total += part * share
        whole -= part
    return total


def _between(at: float, points: Sequence[tuple[float, float]]) -> float:
    """Return the value between points by linear interpolation; beyond the last, extrapolate from the last two."""
    pairs = list(pairwise(points))
    (left, low), (right, high) = next((pair for pair in pairs if at <= pair[1][0]), pairs[-1])
    return low + (high - low) * (at - left) / (right - left)


_OWN_RULE: Final = {Reservation.EKS: eks, Reservation.KUBELET: kubelet}


class Offer(NamedTuple):
    """The resources of a node, and those of them that pods may request. `capacity` : all; `allocatable` : less what the
    node reserves.
    """

    capacity: NodeAmounts
    allocatable: NodeAmounts


class _FittedLine(NamedTuple):
    """The value at x is `at_zero` + `slope` · x."""

    at_zero: float
    slope: float

    def at(self, x: float) -> float:
        return self.at_zero + self.slope * x


class _Reserving(NamedTuple):
    """A rule, and the amount reserved beyond it as a line over the node's amount of the resource."""

    rule: Rule
    beyond: _FittedLine


class Estimator:
    """Offers of machines, estimated from the nodes seen."""

    def __init__(self, seen: Sequence[SeenType]) -> None:
        """Fit the reserved resources to the nodes of each type. O(types · rules)."""
        self._of_group: dict[str, list[SeenType]] = {}
        self._of_type: dict[str, list[SeenType]] = {}
        for one in seen:
            self._of_group.setdefault(one.node_group, []).append(one)
            self._of_type.setdefault(one.instance_type, []).append(one)
        # Groups with the same type count once; nodes without label count as a separate type for each group.
        alike = [rows[-1:] if name else rows for name, rows in self._of_type.items()]
        self._types = [learned for rows in alike for learned in rows]
        self._hidden: dict[str, _FittedLine | None] = {}
        self._memory = _reserving(
            self._types, lambda amounts: amounts.memory_bytes, lambda amounts: amounts.memory_bytes
        )
        self._cpu = _reserving(self._types, lambda amounts: amounts.cpu_milli, lambda amounts: amounts.cpu_milli)

    def offer(self, group: str, machine: MachineType) -> Offer:
        """Return the resources of a group's node on a machine: as nodes show them, otherwise an estimate."""
        nominal = nominal_of(machine)
        of_group = self._of_group.get(group, ())
        own = [
            learned
            for learned in of_group
            if learned.nominal == nominal and machine.name in ("", learned.instance_type)
        ]
        others = self._of_type.get(machine.name, ()) if machine.name and not own else ()
        chosen = own or [other for other in others if other.nominal == nominal]
        if not chosen:
            return self._estimated(machine)
        capacity = least([learned.capacity for learned in chosen])
        allocatable = least([learned.allocatable for learned in chosen])
        if not own:
            return Offer(capacity, allocatable)
        return Offer(
            msgspec.structs.replace(capacity, others=_least_others([learned.capacity for learned in own])),
            msgspec.structs.replace(allocatable, others=_least_others([learned.allocatable for learned in own])),
        )

    def _estimated(self, machine: MachineType) -> Offer:
        nominal = nominal_of(machine)
        memory_bytes = nominal.memory_bytes - self._hidden_bytes(machine)
        capacity = NodeAmounts(nominal.cpu_milli, max(0, int(memory_bytes)), self._pods(machine))
        own = _OWN_RULE.get(machine.reservation, _nothing)
        memory, cpu = (
            self._memory or _Reserving(own, _FittedLine(0.0, 0.0)),
            self._cpu or _Reserving(own, _FittedLine(0.0, 0.0)),
        )
        reserved_bytes = memory.rule(capacity, machine.pods).memory_bytes + memory.beyond.at(capacity.memory_bytes)
        reserved_milli = cpu.rule(capacity, machine.pods).cpu_milli + cpu.beyond.at(capacity.cpu_milli)
        allocatable = NodeAmounts(
            _within(capacity.cpu_milli - reserved_milli, capacity.cpu_milli),
            _within(capacity.memory_bytes - reserved_bytes, capacity.memory_bytes),
            capacity.pods,
        )
        return Offer(capacity, allocatable)

    def _hidden_bytes(self, machine: MachineType) -> float:
        """Return the memory that the machine hides from its operating system."""
        family = family_of(machine.name)
        if family not in self._hidden:
            alike = [node_type for node_type in self._types if family_of(node_type.instance_type) == family]
            rows = [
                (learned.nominal.memory_bytes, learned.nominal.memory_bytes - learned.capacity.memory_bytes)
                for learned in alike or self._types
            ]
            self._hidden[family] = _rising(rows) if rows else None
        line = self._hidden[family] or _FittedLine(0.0, _HIDDEN_SHARE.get(machine.reservation, 0.0))
        return line.at(machine.memory_bytes)

    def _pods(self, machine: MachineType) -> int:
        """Return the number of pods by the pattern that the nodes show: as many as addresses allow, the same up to the
        kubelet's maximum, or the same number on all nodes.
        """
        shown = [
            (node_type.capacity.pods, node_type.nominal.pods) for node_type in self._types if node_type.capacity.pods
        ]
        if any(pods != min(MAX_PODS, addresses) for pods, addresses in shown):
            if all(pods == addresses for pods, addresses in shown):
                return machine.pods
            if len({pods for pods, _ in shown}) == 1:
                return shown[0][0]
        return min(MAX_PODS, machine.pods)


def nominal_of(machine: MachineType) -> NodeAmounts:
    """Return the resources of a machine as the cloud describes it."""
    return NodeAmounts(machine.cpu_milli, machine.memory_bytes, machine.pods)


def least(amounts: Sequence[NodeAmounts]) -> NodeAmounts:
    """Return the least of each amount, without `others`; at least one row is needed."""
    return NodeAmounts(
        min(amount.cpu_milli for amount in amounts),
        min(amount.memory_bytes for amount in amounts),
        min(amount.pods for amount in amounts),
    )


def _least_others(amounts: Sequence[NodeAmounts]) -> tuple[tuple[str, int], ...]:
    """Return the least known amount of each other resource."""
    found: dict[str, int] = {}
    for amount in amounts:
        for name, number in amount.others:
            found[name] = min(number, found.get(name, number))
    return tuple(sorted(found.items()))


def family_of(instance_type: str) -> str:
    """Return an instance type without its size: m5 of m5.large, n2-highmem of n2-highmem-4."""
    end = max(instance_type.rfind("."), instance_type.rfind("-"))
    return instance_type[:end] if end > 0 else instance_type


def _reserving(
    seen: Sequence[SeenType], of_node: Callable[[NodeAmounts], int], of_rule: Callable[..., float]
) -> _Reserving | None:
    """Return the rule closest to the nodes' reserved resources, and its error; None = no node was seen."""
    found = []
    for order, rule in enumerate(RULES):
        rows = []
        for learned in seen:
            whole = of_node(learned.capacity)
            missing = whole - of_node(learned.allocatable) - of_rule(rule(learned.capacity, learned.nominal.pods))
            rows.append((whole, missing))
        if not rows:
            return None
        beyond = _any(rows)
        left = max(abs(missing - beyond.at(whole)) / whole for whole, missing in rows)
        moved = max(abs(missing) / whole for whole, missing in rows)
        found.append((left // _EQUAL_SHARE, moved // _EQUAL_SHARE, order, _Reserving(rule, beyond)))
    return min(found, key=lambda row: row[:3])[3]


def _any(rows: Sequence[tuple[int, float]]) -> _FittedLine:
    """Return the line through rows of x and y; level if there are fewer than three distinct x."""
    if len({x for x, _ in rows}) < 3:
        return _FittedLine(sum(y for _, y in rows) / len(rows), 0.0)
    return _fitted(rows)


def _rising(rows: Sequence[tuple[int, float]]) -> _FittedLine:
    """Return the line through rows of x and y that neither falls nor begins below 0."""
    share = _FittedLine(0.0, max(0.0, sum(y / x for x, y in rows) / len(rows)))
    if len({x for x, _ in rows}) < 2:
        return share
    line = _fitted(rows)
    return line if line.at_zero >= 0 and line.slope >= 0 else share


def _fitted(rows: Sequence[tuple[int, float]]) -> _FittedLine:
    """Return the line with the least squared errors relative to x, which must differ in at least two rows."""
    weights = [1 / x**2 for x, _ in rows]
    total = sum(weights)
    mean_x = sum(w * x for w, (x, _) in zip(weights, rows, strict=True)) / total
    mean_y = sum(w * y for w, (_, y) in zip(weights, rows, strict=True)) / total
    spread = sum(w * (x - mean_x) ** 2 for w, (x, _) in zip(weights, rows, strict=True))
    slope = sum(w * (x - mean_x) * (y - mean_y) for w, (x, y) in zip(weights, rows, strict=True)) / spread
    return _FittedLine(mean_y - slope * mean_x, slope)


def _nothing(node: NodeAmounts, address_pods: int) -> Reserved:
    del node, address_pods
    return Reserved(0.0, 0.0)


def _within(amount: float, whole: int) -> int:
    return max(0, min(whole, int(amount)))
