"""One plan as values: which nodes can go, why the others stay, which node groups grow, and the money."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Final

from google.protobuf.timestamp_pb2 import Timestamp

from trimtab.clients.cli.amounts import counted, percent
from trimtab.clients.cli.answers.answer import Costs, money
from trimtab.clients.json_form import readable_form
from trimtab.clients.python_api.replacement import PlannedReplacement, replacement_of
from trimtab.clients.verdicts import going, staying
from trimtab.places import moves_by_node, on_new_nodes, shortfalls
from trimtab.prices import HOURS_A_MONTH
from trimtab.v1 import plan_pb2, reason_pb2

_MOST_SHOWN: Final = 5
"""Nodes, node groups and reasons that the text of a plan shows."""


@dataclass(frozen=True)
class RemovableNode:
    """A node that can go, together with all others of the plan.

    node_group : "" = none; utilization : the larger of the shares of cpu and memory requested, 0 to 1; price_per_hour :
    None = not known; destinations : where its pods would go, "namespace/name" to node; goes_now : whether the plan
    deletes it now; since : since when it has been unneeded.
    """

    name: str
    node_group: str
    utilization: float
    price_per_hour: float | None
    destinations: Mapping[str, str]
    goes_now: bool
    since: datetime


@dataclass(frozen=True)
class StayingNode:
    """A node that stays.

    reason : the name of an `UnremovableReason`, such as "BLOCKED_BY_POD"; why : the same in words; blocking_pod : as
    "namespace/name", "" = none; blocking_reason : the name of a `BlockingPodReason`, "" = none; price_per_hour : None =
    not known.
    """

    name: str
    node_group: str
    reason: str
    why: str
    blocking_pod: str
    blocking_reason: str
    price_per_hour: float | None


@dataclass(frozen=True)
class PlannedGrowth:
    """A node group that grows. pods : for which it grows, as "namespace/name"; price_per_hour : of the new nodes, None
    = not known.
    """

    node_group: str
    current_size: int
    new_size: int
    pods: Sequence[str]
    price_per_hour: float | None


@dataclass(frozen=True, repr=False)
class PlanResult:
    """The answer of the planner to one cluster. Its text, `print(plan)`, is a summary.

    response : the whole answer of the contract; notes : remarks on the input and the plan.
    """

    response: plan_pb2.PlanResponse
    notes: Sequence[str]
    _costs: Costs
    _now: Timestamp

    @cached_property
    def removable(self) -> Sequence[RemovableNode]:
        """The nodes that can go, by name."""
        moves = moves_by_node(self.response.scale_down.places)
        return tuple(
            RemovableNode(
                one.node,
                one.node_group,
                one.utilization,
                self._costs.by_node.get(one.node),
                moves.get(one.node, {}),
                one.fate == plan_pb2.NodeFate.GOES_NOW,
                (one.since if one.HasField("since") else self._now).ToDatetime(UTC),
            )
            for one in going(self.response)
        )

    @cached_property
    def staying(self) -> Sequence[StayingNode]:
        """The nodes that stay, by name, each with its reason."""
        return tuple(
            StayingNode(
                one.node,
                one.node_group,
                reason_pb2.UnremovableReason.Code.Name(one.reason),
                one.why,
                one.blocking_pod,
                reason_pb2.BlockingPodReason.Code.Name(one.blocking_reason) if one.blocking_reason else "",
                self._costs.by_node.get(one.node),
            )
            for one in staying(self.response)
        )

    @cached_property
    def growth(self) -> Sequence[PlannedGrowth]:
        """The node groups that grow, by name."""
        pods = on_new_nodes(self.response.scale_up)
        return tuple(
            PlannedGrowth(
                one.node_group, one.current_size, one.new_size, tuple(pods[one.node_group]), one.price_per_hour or None
            )
            for one in self.response.scale_up.splits
        )

    @cached_property
    def replacement(self) -> PlannedReplacement | None:
        """Which nodes are replaced by cheaper ones; None = not asked for (`decisions`, or settings of it)."""
        return replacement_of(self.response) if self.response.HasField("replacement") else None

    @property
    def unschedulable(self) -> Mapping[str, str]:
        """The pods that stay pending, as "namespace/name", with the reason in words."""
        return {pod: one.detail for pod, one in shortfalls(self.response.scale_up).items()}

    @property
    def node_count(self) -> int:
        """Number of nodes of the cluster."""
        return self.response.summary.now.node_count + self.response.summary.leaving_node_count

    @property
    def cost_per_hour(self) -> float | None:
        """What all nodes with a price cost that are not being deleted; None = no price is known."""
        return self._costs.total if self._costs.known else None

    @property
    def saving_per_hour(self) -> float | None:
        """What the removable nodes cost; None = no price is known."""
        figures = (one for one in self.response.summary.decisions if one.decision == plan_pb2.Decision.SCALE_DOWN)
        return sum(one.saved_per_hour for one in figures) if self._costs.known else None

    @property
    def saving_per_month(self) -> float | None:
        """The same for a month of 730 hours."""
        saving = self.saving_per_hour
        return None if saving is None else saving * HOURS_A_MONTH

    def as_dict(self) -> dict[str, Any]:
        """Return the whole answer as `trimtab plan -o json` prints it."""
        document = readable_form(self.response)
        document["diagnostics"]["stages"] = []  # they differ between runs
        return document

    def __repr__(self) -> str:
        """Return a summary of a few lines."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        share = f" ({percent(len(self.removable) / self.node_count)})" if self.node_count else ""
        saving, cost = self.saving_per_hour, self.cost_per_hour
        saves = ""
        if saving is not None and cost is not None:
            saves = f", saving {money(saving)} of {money(cost)} an hour, {saving * HOURS_A_MONTH:,.0f} a month"
        yield f"Plan: {len(self.removable):,} of {counted(self.node_count, 'node')} can go{share}{saves}"
        for group in self.growth[:_MOST_SHOWN]:
            sizes = f"{group.current_size:,} → {group.new_size:,}"
            yield f"  node group {group.node_group} grows {sizes} for {counted(len(group.pods), 'pod')}"
        if self.unschedulable:
            yield f"  {counted(len(self.unschedulable), 'pod')} stay pending"
        dearest = sorted(self.removable, key=lambda one: (-(one.price_per_hour or 0.0), one.utilization, one.name))
        for node in dearest[:_MOST_SHOWN]:
            price = f", {money(node.price_per_hour)} an hour" if node.price_per_hour is not None else ""
            used, pods = percent(node.utilization), counted(len(node.destinations), "pod")
            yield f"  {node.name} goes: {used} used, {pods} to move{price}"
        if len(dearest) > _MOST_SHOWN:
            yield f"  and {len(dearest) - _MOST_SHOWN:,} more"
        for why, count in Counter(one.why for one in self.staying).most_common(_MOST_SHOWN):
            yield f"  {count:,} {'stays' if count == 1 else 'stay'}: {why}"
        if self.replacement is not None:
            yield from self.replacement.summary()
