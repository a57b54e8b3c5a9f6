"""The numbers of a recording that could identify its owner: amounts, prices, times, ports. Each is replaced in a way
that does not change any decision:
- amounts of a resource are divided by their common divisor, and multiplied by a random number: only ratios determine
  which pods fit where, and how much of a node is used. The number of pods on a node is not scaled, as pods are counted.
- prices are multiplied by a random power of two: sums of them are rounded as before.
- times are shifted such that the first request is made at `FIRST_NOW_S`. Pods older than every timer get the same age;
  nodes keep only the order of their creation. Other times keep their distances, including fractions of seconds, since
  timers compare them.
- host ports are numbered in their order.

What stays: counts (sizes of groups, replicas, budgets, limits of volumes and of skew), priorities and deletion costs
(their amount rates evictions), settings that are not amounts of the cluster, the upper bound of what another plan could
save, and the values in answers that follow from all these.
"""

import math
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from trimtab.v1 import plan_pb2
from trimtab.v1 import snapshot_pb2 as pb

FIRST_NOW_S: Final = 1_000_000_000
"""The new time of the first request, within a second."""
_SECOND_NS: Final = 10**9
_COUNTED: Final = "pods"
_MOST_FACTOR: Final = 1000
_MOST_AMOUNT: Final = 1 << 46
"""Amounts are scaled up to this: the sum over 50,000 nodes still fits in 63 bits."""
_MOST_EXPONENT: Final = 12
_LEAST_OLD_S: Final = 24 * 3600
"""Ages of pods below this stay, whatever the timers are: a replay may have other settings."""


class Visitor(Protocol):
    """Visits each number of a kind, and returns its replacement."""

    def amount(self, resource: str, value: int) -> int:
        """An amount of a resource."""

    def price(self, value: float) -> float:
        """A price, or a sum of prices."""

    def time_ns(self, value: int) -> int:
        """A moment; not 0."""

    def node_time_ns(self, value: int) -> int:
        """The time of a node's creation; not 0."""

    def pod_times_s(self, values: Any) -> Any:
        """Moments of pods' creation : int64 column; 0 = unknown."""

    def port(self, value: int) -> int:
        """A host port."""


class Found:
    """A visitor that changes nothing and collects the data that replacements depend on."""

    def __init__(self) -> None:
        self._divisor: dict[str, int] = defaultdict(int)
        self._most: dict[str, int] = defaultdict(int)
        self._node_times: set[int] = set()
        self._ports: set[int] = set()
        self._latest_s = 0
        self._first_now_ns: int | None = None
        self._timer_s = _LEAST_OLD_S

    def amount(self, resource: str, value: int) -> int:
        """Keep the common divisor and the largest amount."""
        self._divisor[resource] = math.gcd(self._divisor[resource], value)
        self._most[resource] = max(self._most[resource], value)
        return value

    def price(self, value: float) -> float:
        """Nothing depends on it."""
        return value

    def time_ns(self, value: int) -> int:
        """Keep the latest moment."""
        self._latest_s = max(self._latest_s, value // _SECOND_NS)
        return value

    def node_time_ns(self, value: int) -> int:
        """Keep it for the order."""
        self._node_times.add(value)
        return self.time_ns(value)

    def pod_times_s(self, values: Any) -> Any:
        """Keep the latest moment."""
        self._latest_s = max(self._latest_s, int(values.max(initial=0)))
        return values

    def port(self, value: int) -> int:
        """Keep it for the order."""
        self._ports.add(value)
        return value

    def see(self, message: Message) -> None:
        """Take the content of a frame."""
        visit(message, self)
        if isinstance(message, plan_pb2.PlanRequest):
            now_ns = message.now.ToNanoseconds()
            self._first_now_ns = min(self._first_now_ns or now_ns, now_ns)
            self._timer_s = max(self._timer_s, *_timers_s(message.settings))
        elif isinstance(message, plan_pb2.PlanSettings):
            self._timer_s = max(self._timer_s, *_timers_s(message))
        for snapshot in (message, getattr(message, "changed", None)):
            if isinstance(snapshot, pb.ClusterSnapshot):
                timers = (max(one.topology_spread_timeout_s, one.scale_up_delay_s) for one in snapshot.pod_specs)
                self._timer_s = max(self._timer_s, *timers, 0)

    def replacements(self, draw: random.Random) -> "Replacements":
        """Return the replacements of the numbers."""
        factors = {}
        for resource, most in self._most.items():
            divisor = 1 if resource == _COUNTED else self._divisor[resource] or 1
            limit = min(_MOST_FACTOR, _MOST_AMOUNT * divisor // max(most, 1))
            factors[resource] = (divisor, 1 if resource == _COUNTED else _factor(draw, divisor, limit))
        exponent = draw.choice([one for one in range(-_MOST_EXPONENT, _MOST_EXPONENT + 1) if one])
        now_ns = self._latest_s * _SECOND_NS if self._first_now_ns is None else self._first_now_ns
        now_s = now_ns // _SECOND_NS
        return Replacements(
            factors,
            2.0**exponent,
            now_s - FIRST_NOW_S,
            now_s - self._timer_s - 2,
            {time_ns: (rank + 1) * _SECOND_NS for rank, time_ns in enumerate(sorted(self._node_times))},
            {port: rank + 1 for rank, port in enumerate(sorted(self._ports))},
        )


def _factor(draw: random.Random, divisor: int, limit: int) -> int:
    """Draw a factor up to a limit. A factor that only moves the decimal point is not used: it would keep the digits."""
    digits = str(divisor).rstrip("0")
    return draw.choice([one for one in range(1, limit + 1) if str(one).rstrip("0") != digits] or [1])


class Replacements(NamedTuple):
    """A visitor that replaces.

    factors : (divisor, factor) by resource; earlier_s : how much earlier all times become; old_s : pods created until
    then are older than every timer; node_times, ports : by value
    """

    factors: dict[str, tuple[int, int]]
    price_factor: float
    earlier_s: int
    old_s: int
    node_times: dict[int, int]
    ports: dict[int, int]

    def amount(self, resource: str, value: int) -> int:
        """Scale it."""
        divisor, factor = self.factors[resource]
        return value // divisor * factor

    def price(self, value: float) -> float:
        """Scale it."""
        return value * self.price_factor

    def time_ns(self, value: int) -> int:
        """Move it."""
        return max(value - self.earlier_s * _SECOND_NS, 1)

    def node_time_ns(self, value: int) -> int:
        """Return its place in the order."""
        return self.node_times[value]

    def pod_times_s(self, values: Any) -> Any:
        """Shift them; those older than every timer become equal."""
        moved = np.maximum(np.maximum(values, self.old_s) - self.earlier_s, 1)
        return np.where(values > 0, moved, values)

    def port(self, value: int) -> int:
        """Return its place in the order."""
        return self.ports[value]

    def moment(self, time: datetime) -> datetime:
        """Return the shifted time of a header."""
        moved_s = time.timestamp() - self.earlier_s
        return datetime.fromtimestamp(max(moved_s, 0), UTC)


def visit(message: Message, visitor: Visitor) -> None:
    """Pass all numbers of a frame's content through a visitor, in place."""
    if isinstance(message, plan_pb2.PlanRequest):
        message.snapshot_size_bytes = 0
    if isinstance(message, pb.SnapshotDelta):
        message = message.changed
    resources = message.resources if isinstance(message, pb.ClusterSnapshot) else ()
    _visit(message, visitor, resources)


def _visit(message: Message, visitor: Visitor, resources: Sequence[str]) -> None:
    if isinstance(message, pb.PodDictionary):
        resources = message.resources
    if isinstance(message, pb.SlackRequests):
        resources = message.dictionary.resources
    special = _SPECIAL.get(message.DESCRIPTOR.name)
    if special is not None:
        special(message, visitor, resources)
    for field, value in message.ListFields():
        inner = field.message_type
        if inner is None:
            _visit_unit(message, field, visitor)
            continue
        if inner.GetOptions().map_entry:
            continue
        for one in value if field.is_repeated else (value,):
            if not isinstance(one, Timestamp):
                _visit(one, visitor, resources)
            elif one.ToNanoseconds():
                is_node = isinstance(message, pb.Node) and field.name == "create_time"
                to_new = visitor.node_time_ns if is_node else visitor.time_ns
                one.FromNanoseconds(to_new(one.ToNanoseconds()))


def _visit_unit(message: Message, field: FieldDescriptor, visitor: Visitor) -> None:
    """Replace a number by the unit in the name of its field."""
    for unit, replacement in _BY_UNIT.items():
        if not field.is_repeated and field.name.endswith(unit):
            setattr(message, field.name, replacement(visitor, getattr(message, field.name)))


def _visit_node(node: Any, visitor: Visitor, resources: Sequence[str]) -> None:
    for amounts in (node.allocatable, node.capacity):
        # A row that names more amounts than there are resources breaks the contract; the planner refuses it.
        amounts[:] = [visitor.amount(name, value) for name, value in zip(resources, amounts, strict=False)]


def _visit_amount(amount: Any, visitor: Visitor, resources: Sequence[str]) -> None:
    if 0 <= amount.resource < len(resources):
        amount.amount = visitor.amount(resources[amount.resource], amount.amount)


def _visit_limit(limit: Any, visitor: Visitor, _: Sequence[str]) -> None:
    for field in ("minimum", "maximum", "maximum_added"):
        if limit.resource != "nodes" and limit.HasField(field):
            setattr(limit, field, visitor.amount(limit.resource, getattr(limit, field)))


def _visit_slack(slack: Any, visitor: Visitor, _: Sequence[str]) -> None:
    for amounts in (slack.desired, slack.present):
        for resource, value in amounts.items():
            amounts[resource] = visitor.amount(resource, value)


def _visit_sizes(one: Any, visitor: Visitor, _: Sequence[str]) -> None:
    for resource, value in one.size.items():
        one.size[resource] = visitor.amount(resource, value)


def _visit_bounds(settings: Any, visitor: Visitor, _: Sequence[str]) -> None:
    for resource, bounds in settings.resources.items():
        for field in ("floor", "ceiling"):
            if bounds.HasField(field):
                setattr(bounds, field, visitor.amount(resource, getattr(bounds, field)))


def _visit_score(score: Any, _: Visitor, __: Sequence[str]) -> None:
    if score.expander in (plan_pb2.Expander.PRICE, plan_pb2.Expander.CHEAPEST_PLAN):
        score.score = 0


def _visit_cost_term(term: Any, visitor: Visitor, _: Sequence[str]) -> None:
    if term.strategy == plan_pb2.PodCostStrategy.NODE_COST and term.threshold:
        term.threshold = visitor.price(term.threshold)


def _visit_port(port: Any, visitor: Visitor, _: Sequence[str]) -> None:
    port.port = visitor.port(port.port)


def _visit_pods(pods: Any, visitor: Visitor, _: Sequence[str]) -> None:
    if pods.created:
        pods.created = visitor.pod_times_s(np.frombuffer(pods.created, "<i8")).astype("<i8").tobytes()
    if pods.deletion:
        deletion = np.frombuffer(pods.deletion, "<i8").tolist()
        # A terminating pod stays so: 0 s would mean that it is not terminating.
        moved = [max(visitor.time_ns(one * _SECOND_NS) // _SECOND_NS, 1) if one else 0 for one in deletion]
        pods.deletion = np.array(moved, "<i8").tobytes()


def _visit_times(times: Any, visitor: Visitor, _: Sequence[str]) -> None:
    column = np.frombuffer(times.time_ns, "<i8").tolist()
    times.time_ns = np.array([visitor.time_ns(one) if one else 0 for one in column], "<i8").tobytes()


def _visit_saving(settings: Any, visitor: Visitor, _: Sequence[str]) -> None:
    if settings.HasField("min_saving_per_eviction"):
        settings.min_saving_per_eviction = visitor.price(settings.min_saving_per_eviction)


_BY_UNIT: Final[dict[str, Callable[[Visitor, Any], Any]]] = {
    "cpu_milli": lambda visitor, value: visitor.amount("cpu", value),
    "memory_bytes": lambda visitor, value: visitor.amount("memory", value),
    "per_hour": lambda visitor, value: visitor.price(value),
}
"""By the unit with which the name of a single number ends, in every message."""
_SPECIAL: Final[dict[str, Callable[[Any, Visitor, Sequence[str]], None]]] = {
    "Node": _visit_node,
    "NodeTemplate": _visit_node,
    "ResourceAmount": _visit_amount,
    "ResourceLimit": _visit_limit,
    "SlackDecision": _visit_slack,
    "HostPort": _visit_port,
    "PodTable": _visit_pods,
    "NodeTimes": _visit_times,
    "FailedNodes": _visit_times,
    "ExpanderScore": _visit_score,
    "SlackSetState": _visit_sizes,
    "SlackSettings": _visit_bounds,
    "SlackPool": _visit_bounds,
    "SlackSchedule": _visit_bounds,
    "PodCostTerm": _visit_cost_term,
    "ScaleDownSettings": _visit_saving,
}


def _timers_s(settings: plan_pb2.PlanSettings) -> tuple[int, ...]:
    """Return the ages of pods, in seconds, at which some setting makes a difference."""
    return (settings.scale_down.blocking_system_pod_disruption_timeout.seconds + 1, 0)
