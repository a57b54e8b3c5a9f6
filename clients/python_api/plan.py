"""One plan as values: which nodes can go, why the others stay, which node groups grow, and the money."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from trimtab.clients.cli.answers.answer import PlanAnswer
from trimtab.clients.cli.answers.page import plan_page
from trimtab.clients.cli.plan import plan_document
from trimtab.clients.cli.terminal import text_of
from trimtab.clients.verdicts import going, staying
from trimtab.places import shortfalls
from trimtab.prices import HOURS_A_MONTH
from trimtab.v1 import plan_pb2, reason_pb2


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
    """The answer of the planner to one cluster. Its text, `print(plan)`, is what `trimtab plan` prints.

    answer : with the cluster that it is about; notes : remarks on the input and the plan.
    """

    answer: PlanAnswer
    notes: Sequence[str]

    @property
    def response(self) -> plan_pb2.PlanResponse:
        """The whole answer of the contract."""
        return self.answer.response

    @cached_property
    def removable(self) -> Sequence[RemovableNode]:
        """The nodes that can go, by name."""
        asked_at = Timestamp()
        asked_at.FromNanoseconds(self.answer.now_ns)
        return tuple(
            RemovableNode(
                one.node,
                one.node_group,
                one.utilization,
                self.answer.costs.by_node.get(one.node),
                self.answer.moves.get(one.node, {}),
                one.fate == plan_pb2.NodeFate.GOES_NOW,
                (one.since if one.HasField("since") else asked_at).ToDatetime(UTC),
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
                self.answer.costs.by_node.get(one.node),
            )
            for one in staying(self.response)
        )

    @cached_property
    def growth(self) -> Sequence[PlannedGrowth]:
        """The node groups that grow, by name."""
        pods = self.answer.on_new_nodes
        return tuple(
            PlannedGrowth(
                one.node_group, one.current_size, one.new_size, tuple(pods[one.node_group]), one.price_per_hour or None
            )
            for one in self.response.scale_up.splits
        )

    @property
    def replacement(self) -> plan_pb2.ReplacementDecision | None:
        """Which nodes are replaced by cheaper ones; None = not asked for (`decisions`, or settings of it)."""
        return self.response.replacement if self.response.HasField("replacement") else None

    @property
    def unschedulable(self) -> Mapping[str, str]:
        """The pods that stay pending, as "namespace/name", with the reason in words."""
        return {pod: shortfall.detail for pod, shortfall in shortfalls(self.response.scale_up).items()}

    @property
    def node_count(self) -> int:
        """Number of nodes of the cluster."""
        return self.answer.node_count

    @property
    def cost_per_hour(self) -> float | None:
        """What all nodes with a price cost that are not being deleted; None = no price is known."""
        return self.answer.costs.total if self.answer.costs.known else None

    @property
    def saving_per_hour(self) -> float | None:
        """What the removable nodes cost; None = no price is known."""
        saved = self.answer.figures(plan_pb2.Decision.SCALE_DOWN).saved_per_hour
        return saved if self.answer.costs.known else None

    @property
    def saving_per_month(self) -> float | None:
        """The same for a month of 730 hours."""
        saving = self.saving_per_hour
        return None if saving is None else saving * HOURS_A_MONTH

    def as_dict(self) -> dict[str, Any]:
        """Return the whole answer as `trimtab plan -o json` prints it."""
        return plan_document(self.answer)

    def __repr__(self) -> str:
        """Return what `trimtab plan` prints."""
        return text_of(plan_page(self.answer))
