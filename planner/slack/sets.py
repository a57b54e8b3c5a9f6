"""The required placeholders: sets of equal ones, with their size and their number.

Decides sizes and numbers from the requests of the parts of the cluster, by the settings or a schedule that is active,
and adds the sets of workloads and CapacityBuffers (`trimtab.planner.slack.objects`). Sizes of standard placeholders are
damped by those of the last loop. Amounts as in the snapshot.

Slack is a share of the existing nodes, so removing a node also reduces the requested slack. Scale-down uses this for
nodes whose placeholders have no place elsewhere (`RequiredWithout`): the same formulas, on the other nodes.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.model.settings.scale_down import is_active
from trimtab.planner.simulation.virtual_rows import Kinds, VirtualPod, kinds_of
from trimtab.planner.slack import sizes
from trimtab.planner.slack.objects import (
    MOST,
    NO_OBJECT_REQUESTS,
    ObjectRequests,
    PlaceholderSet,
    RequestingObject,
    SizeColumns,
    size_columns,
)
from trimtab.planner.slack.parts import Part
from trimtab.planner.slack.rooms import Rooms
from trimtab.planner.slack.settings import PoolSettings, SlackAmount, SlackSchedule, SlackSettings
from trimtab.planner.slack.sizes import SPREAD_OUT, Amounts
from trimtab.planner.snapshot.columns import Int32, Int64
from trimtab.v1 import plan_pb2 as pb

Kind = pb.PlaceholderKind
NAMESPACE: Final = "default"
"""Pod of placeholders that make room for any pod."""
_STANDARD: Final = "standard"
_BY_RATE = ("cpu", "memory")
_OF_NODES: Final = (pb.PlaceholderKind.STANDARD, pb.PlaceholderKind.LARGEST)
"""Kinds of placeholders that parts of the cluster request; the number of other kinds does not depend on nodes."""
_OF_PODS: Final = (pb.SlackStrategy.LARGEST_POD, pb.SlackStrategy.LARGEST_BY_RESOURCE)
"""Strategies that also depend on the pods of a pool's nodes."""


class RequiredSets(NamedTuple):
    """The required placeholders.

    sets : of the parts, then of objects; sizes, kinds : of the sets; of_parts : how many of the sets are of parts;
    desired : amount by resource that should be kept free; problems : for people; objects : those that request room, by
    name.
    """

    sets: tuple[PlaceholderSet, ...]
    sizes: SizeColumns
    kinds: Kinds
    of_parts: int
    desired: Mapping[str, int]
    problems: tuple[str, ...]
    objects: tuple[RequestingObject, ...]


class SetInputs(NamedTuple):
    """The inputs from which sets are computed.

    rooms : capacity and room of nodes; now_ns : Unix nanoseconds; before : sizes of the last loop by name of the set,
    for those in `damped_names`.
    """

    settings: SlackSettings
    rooms: Rooms
    now_ns: int
    before: Mapping[str, Amounts]


class _SetCollector:
    """Collects sets, amounts and problems."""

    def __init__(self) -> None:
        self.sets: list[PlaceholderSet] = []
        self.desired: dict[str, int] = {}
        self.problems: list[str] = []
        self._total = 0

    def add(self, entry: PlaceholderSet) -> None:
        """Add a set, or as much of it as is allowed."""
        limit = MOST - self._total
        if entry.number > limit:
            limit = 0 if entry.is_gang else limit
            self.problems.append(f"{entry.name}: {entry.number} placeholders are requested, of which {limit} are kept")
        entry = entry._replace(number=min(entry.number, limit))
        self._total += entry.number
        if entry.number > 0:
            self.sets.append(entry)

    def may_add(self, number: int) -> bool:
        """Return whether this many more placeholders are allowed."""
        return number <= MOST - self._total

    def ask(self, amounts: Amounts, times: int = 1) -> None:
        """Add to the amounts that should be kept free."""
        for name, amount in amounts.items():
            if amount * times > 0:
                self.desired[name] = min(self.desired.get(name, 0) + amount * times, 1 << 62)


def required_sets(inputs: SetInputs, parts: Sequence[Part], requests: ObjectRequests) -> RequiredSets:
    """Return all sets. requests : sets requested by objects. O(parts · (N + S)), and O(sets of objects · resources)."""
    collector = _SetCollector()
    for part in parts:
        if part.problem:
            collector.problems.append(part.problem)
        _of_part(inputs, part, in_force(part.pool, inputs.now_ns), collector)
    count = len(collector.sets)
    own = tuple(sorted(collector.sets, key=lambda entry: entry.name))
    collector.ask(requests.desired)
    collector.problems.extend(requests.problems)
    of_objects, columns, kinds = requests.sets, requests.sizes, requests.kinds
    if not collector.may_add(requests.number):
        for entry in requests.sets:
            collector.add(entry)
        of_objects = tuple(collector.sets[count:])
        columns, kinds = (
            size_columns(of_objects),
            kinds_of(tuple([entry.pod for entry in of_objects])),
        )
    return RequiredSets(
        own + of_objects,
        size_columns(own).and_of(columns),
        kinds_of(tuple([entry.pod for entry in own])).and_of(kinds),
        count,
        collector.desired,
        tuple(collector.problems),
        requests.objects,
    )


def damped_names(parts: Sequence[Part]) -> list[str]:
    """Return the names of the sets whose sizes of the last loop affect the new ones."""
    return [f"{part.prefix}{_STANDARD}" for part in parts]


class Demand(NamedTuple):
    """The room that a pool requests at one time. replicas : number of standard placeholders, None = by the amounts."""

    amounts: Mapping[str, SlackAmount]
    replicas: int | None


def in_force(pool: PoolSettings, now_ns: int) -> Demand:
    """Return the amounts that apply now. now_ns : Unix nanoseconds."""
    holding = [schedule for schedule in pool.schedules if holds(schedule, now_ns)]
    amounts = dict(pool.amounts)
    for name in sorted({*_BY_RATE, *(name for held in holding for name in held.amounts)}):
        meanwhile = [amount for held in holding if (amount := _of(held, name, pool.amounts)) is not None]
        if meanwhile:
            amounts[name] = largest(meanwhile)
    counts = [held.replicas for held in holding if held.replicas is not None]
    return Demand(amounts, max(counts, default=None))


def holds(schedule: SlackSchedule, now_ns: int) -> bool:
    """Return whether a schedule is active: it was due less than its duration ago."""
    return is_active(schedule.cron, schedule.zone, schedule.duration_ns, now_ns)


def _of(schedule: SlackSchedule, name: str, otherwise: Mapping[str, SlackAmount]) -> SlackAmount | None:
    """Return a schedule's amount of a resource, completed by the amount without schedule; None = no amount."""
    usual = otherwise.get(name, SlackAmount())
    own = schedule.amounts.get(name)
    if own is not None:
        return SlackAmount(usual.rate if own.rate is None else own.rate, own.floor, own.ceiling)
    if schedule.rate is not None and name in _BY_RATE:
        return SlackAmount(schedule.rate, usual.floor, usual.ceiling)
    return None


def largest(amounts: Sequence[SlackAmount]) -> SlackAmount:
    """Return the amount with the largest rate, the largest floor and the largest ceiling, where a missing ceiling is
    the largest.
    """
    ceilings = [amount.ceiling for amount in amounts if amount.ceiling is not None]
    floors = [amount.floor for amount in amounts if amount.floor is not None]
    return SlackAmount(
        max(amount.rate or 0.0 for amount in amounts),
        max(floors, default=None),
        max(ceilings) if len(ceilings) == len(amounts) else None,
    )


def _of_part(inputs: SetInputs, part: Part, demand: Demand, collector: _SetCollector) -> None:
    names = [name for name, amount in demand.amounts.items() if amount.rate or amount.floor]
    if not names and not demand.replicas:
        return
    total, nodes = inputs.rooms.capacity(part)
    desired = {name: sizes.desired(demand.amounts[name], total.get(name, 0)) for name in sorted(names)}
    if demand.replicas == 0 or not (any(desired.values()) or demand.replicas):
        return
    if nodes == 0:
        # There is no node yet: a new one will match the templates.
        total, nodes = inputs.rooms.template_capacity(part)
    if demand.replicas is None:
        collector.ask(desired)
    held = [_whole(inputs, part, name, desired, collector) for name in sorted(desired) if name not in SPREAD_OUT]
    apart = {name: amount for name, amount in desired.items() if name in SPREAD_OUT}
    rest = sizes.left(
        apart,
        [(entry.size, entry.number) for entry in held if entry is not None],
    )
    _of_standard(inputs, part, _Standard(rest, demand.replicas, total, nodes), collector)


class _Standard(NamedTuple):
    """The demand for standard placeholders of a part. desired : amounts; replicas : fixed number, None = by amounts;
    total : capacity of the part; nodes : number of its nodes."""

    desired: Mapping[str, int]
    replicas: int | None
    total: Mapping[str, int]
    nodes: int


def _of_standard(inputs: SetInputs, part: Part, demand: _Standard, collector: _SetCollector) -> None:
    desired, replicas, total, nodes = demand
    largest = _largest(inputs, part)
    held = []
    for name, size in largest.sizes.items():
        cut, fits = inputs.rooms.fitted(part, size)
        if not fits:
            collector.problems.append(f"{part.prefix}{name}: no node has room for {_text(size)}; it is reduced")
        collector.add(_set(part, name, Kind.LARGEST, cut, 1))
        held.append((cut, 1))
    names = [name for name, amount in desired.items() if amount > 0] or ["cpu", "memory"]
    shares = sizes.standard_shares({name: total.get(name, 0) for name in names}, nodes, part.pool.granularity)
    size = sizes.rounded_down(shares)
    size = sizes.capped(size, largest.limit) if largest.sizes else size
    size = {name: min(amount, sizes.MOST) for name, amount in size.items()}
    name = f"{part.prefix}{_STANDARD}"
    damped = sizes.damped(size, inputs.before.get(name), inputs.settings.resize_threshold)
    cut, fits = inputs.rooms.fitted(part, damped)
    rest = sizes.left(desired, held)
    number = sizes.count(rest, cut, shares) if replicas is None else replicas
    lacking = sorted(resource for resource, amount in rest.items() if amount > 0 and not cut.get(resource))
    if lacking or not cut:
        collector.problems.append(f"{name}: no counted node has any {' or '.join(lacking or names)}")
    elif number and not fits:
        collector.problems.append(f"{name}: no node has room for {_text(size)}; they are reduced")
    if cut:
        collector.add(_set(part, _STANDARD, Kind.STANDARD, cut, number))
    if replicas is not None:
        for size, times in (*held, (cut, number)):
            collector.ask(size, times)


class _Largest(NamedTuple):
    """sizes : of the largest placeholders, by name; limit : upper limit of the size of a standard one."""

    sizes: dict[str, dict[str, int]]
    limit: dict[str, int]


def _largest(inputs: SetInputs, part: Part) -> _Largest:
    """Return the largest placeholders that a strategy requires; none if there are no pods."""
    strategy = part.pool.strategy
    if strategy not in (pb.SlackStrategy.LARGEST_POD, pb.SlackStrategy.LARGEST_BY_RESOURCE):
        return _Largest({}, {})
    pods = inputs.rooms.largest_pods(part)
    if pods is None:
        return _Largest({}, {})
    amounts = {"cpu": pods.by_cpu.get("cpu", 0), "memory": pods.by_memory.get("memory", 0)}
    amounts = {name: amount for name, amount in amounts.items() if amount > 0}
    if strategy == pb.SlackStrategy.LARGEST_POD:
        return _Largest({"largest": amounts} if amounts else {}, amounts)
    by = {"largest-cpu": dict(pods.by_cpu), "largest-memory": dict(pods.by_memory)}
    if pods.is_one:
        del by["largest-memory"]
    return _Largest({name: size for name, size in by.items() if size}, amounts)


def _whole(
    inputs: SetInputs, part: Part, name: str, desired: Amounts, collector: _SetCollector
) -> PlaceholderSet | None:
    """Add placeholders with a resource that only some nodes have, such as GPUs.

    Each requests whole units, and the same share of cpu and memory of the average node that has the resource.
    """
    if desired[name] <= 0:
        return None
    total, nodes = inputs.rooms.capacity(part, name)
    if nodes == 0:
        total, nodes = inputs.rooms.template_capacity(part, name)
    if nodes == 0:
        collector.problems.append(f"{part.prefix}{name}: no counted node has any {name}")
        return None
    least_size = max(-(-total[name] // (nodes * part.pool.granularity)), 1)
    size = {
        other: max(total[other] * least_size // total[name], 1) for other in ("cpu", "memory") if total.get(other, 0)
    }
    size[name] = least_size
    cut, fits = inputs.rooms.fitted(part, size)
    if not fits:
        collector.problems.append(
            f"{part.prefix}{name}: no node has room for {_text(size | {name: least_size})}; it is reduced"
        )
    standard = _set(part, name, Kind.STANDARD, cut, sizes.count({name: desired[name]}, cut))
    collector.add(standard)
    return standard


def _set(
    part: Part, name: str, kind: "pb.PlaceholderKind.Code.ValueType", size: Amounts, number: int
) -> PlaceholderSet:
    spec = part.spec._replace(
        requests=tuple(sorted((resource, amount) for resource, amount in size.items() if amount > 0))
    )
    return PlaceholderSet(
        f"{part.prefix}{name}", kind, VirtualPod(NAMESPACE, spec), number, dict(size), pool=part.pool.name
    )


def _text(size: Amounts) -> str:
    return " and ".join(f"{amount}{'m' if name == 'cpu' else ''} {name}" for name, amount in sorted(size.items()))


class RequiredWithout:
    """Numbers of placeholders for a changed set of nodes.

    given, parts : the inputs from which the sets were computed; sets : the Q current sets.
    """

    def __init__(self, inputs: SetInputs, parts: Sequence[Part], sets: Sequence[PlaceholderSet]) -> None:
        self._inputs = inputs._replace(before={entry.name: entry.size for entry in sets if entry.kind in _OF_NODES})
        self._parts = parts
        self._sets = sets

    def without(self, nodes: Int32) -> Int64:
        """Return how many placeholders of each set would be required without some nodes : int32[n]. int64[Q].

        As many as now if they would have another size: then all of them move anyway. A part that would lose its last
        node requests as much as now. O(parts · (N + S)).
        """
        parts = []
        for part in self._parts:
            rest = part.nodes.copy()
            rest[nodes] = False
            parts.append(part._replace(nodes=rest) if rest.any() else part)
        required = {entry.name: entry for entry in required_sets(self._inputs, parts, NO_OBJECT_REQUESTS).sets}
        return np.array([_number(entry, required.get(entry.name)) for entry in self._sets], np.int64)

    def kind(self, node: int) -> Hashable:
        """Return the properties of a node on which this depends: nodes of one kind make the same difference."""
        if any(part.pool.strategy in _OF_PODS for part in self._parts):
            return node
        return tuple(bool(part.nodes[node]) for part in self._parts), self._inputs.rooms.of_node(node)


def _number(now: PlaceholderSet, then: PlaceholderSet | None) -> int:
    if now.kind not in _OF_NODES:
        return now.number
    if then is None:
        return 0
    return then.number if then.size == now.size else now.number
