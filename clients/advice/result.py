"""The advice as values: what commands print, pages show and programs read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from trimtab.clients.advice.changes import AdvisedChange
from trimtab.prices import HOURS_A_MONTH, behind_amount

MOST_PLANS: Final = 300
"""Plans that are made by default: on 1,000 nodes they take less than ten seconds."""


class Blocker(StrEnum):
    """The kinds of blockers that can be lifted."""

    SWITCHED_OFF = "SWITCHED_OFF"
    UTILIZATION = "UTILIZATION"
    BUDGET = "BUDGET"
    SEVERAL_BUDGETS = "SEVERAL_BUDGETS"
    LOCAL_STORAGE = "LOCAL_STORAGE"
    NOT_SAFE_TO_EVICT = "NOT_SAFE_TO_EVICT"
    NO_CONTROLLER = "NO_CONTROLLER"
    CUSTOM_CONTROLLER = "CUSTOM_CONTROLLER"
    SYSTEM_POD = "SYSTEM_POD"
    FEW_REPLICAS = "FEW_REPLICAS"
    JOB = "JOB"
    GROUP_MINIMUM = "GROUP_MINIMUM"
    CLUSTER_MINIMUM = "CLUSTER_MINIMUM"
    ANTI_AFFINITY = "ANTI_AFFINITY"
    TOPOLOGY_SPREAD = "TOPOLOGY_SPREAD"
    NODE_ANNOTATION = "NODE_ANNOTATION"
    CONSOLIDATION = "CONSOLIDATION"
    NODE_BUDGET = "NODE_BUDGET"
    DO_NOT_DISRUPT = "DO_NOT_DISRUPT"
    UNREADY_NODES = "UNREADY_NODES"
    SMALL_SAVINGS = "SMALL_SAVINGS"
    BALANCE = "BALANCE"
    REQUESTS = "REQUESTS"
    SEVERAL = "SEVERAL"
    """Several kinds together."""


@dataclass(frozen=True)
class Advice:
    """What one change, or several together, would free.

    kind : the blocker that it lifts; condition : the change as a clause that follows "if"; changes : the lines to
    change; nodes : those that can go with the change and not without it, sorted; staying : those that can go only
    without it, because others go instead, sorted; saving_per_hour : what the plan with the change saves beyond the base
    plan, None = no price is known; steps : values of the same line that each free more than the one before, () = no
    other value frees more than the first.
    """

    kind: Blocker
    condition: str
    changes: tuple[AdvisedChange, ...]
    nodes: tuple[str, ...]
    staying: tuple[str, ...] = ()
    saving_per_hour: float | None = None
    steps: tuple["Advice", ...] = ()

    @property
    def node_count(self) -> int:
        """How many more nodes can go; 0 or less where others go instead that save more."""
        return len(self.nodes) - len(self.staying)

    @property
    def saving_per_month(self) -> float | None:
        """The same for a month; None = no price is known."""
        return None if self.saving_per_hour is None else self.saving_per_hour * HOURS_A_MONTH

    @property
    def sentence(self) -> str:
        """The change, and how many more nodes could go; or what other ones, as many or fewer, save beyond these."""
        return self.sentence_in("")

    def sentence_in(self, currency: str) -> str:
        """Return the same, with the currency of money."""
        month, named = self.saving_per_month, behind_amount(currency)
        if month is not None and month > 0 and self.node_count <= 0:
            fewer = f", {-self.node_count:,} fewer," if self.node_count else ""
            return f"If {self.condition}, other nodes{fewer} could go that save {month:,.0f}{named} a month more."
        money = f" ({month:,.0f}{named} a month)" if month is not None else ""
        nodes = "1 more node" if self.node_count == 1 else f"{self.node_count:,} more nodes"
        return f"If {self.condition}, {nodes}{money} could go."

    @property
    def lines(self) -> list[str]:
        """The lines to change; a field that the command of another line already changes has none."""
        commanded = {change.object for change in self.changes if change.command}
        return [change.line for change in self.changes if change.command or change.object not in commanded]

    def document(self) -> dict[str, Any]:
        """Return the advice for programs."""
        return {
            "kind": self.kind.value,
            "sentence": self.sentence,
            "nodeCount": self.node_count,
            "savingPerHour": self.saving_per_hour,
            "savingPerMonth": self.saving_per_month,
            "nodes": list(self.nodes),
            "staying": list(self.staying),
            "changes": [change.document() for change in self.changes],
            "steps": [
                {"after": step.changes[0].after, "nodeCount": step.node_count, "savingPerHour": step.saving_per_hour}
                for step in self.steps
            ],
        }


@dataclass(frozen=True)
class AdviceReport:
    """All advice on one plan.

    base_nodes : those that can go without any change, sorted; advice : the most valuable first, by money where prices
    are known, then by nodes; together : the two or three that free most together, if that is more than the best single
    one frees, else None; plan_count : plans that were made; left_out_count : blockers that were not tried, because of
    the bound on plans.
    """

    base_nodes: tuple[str, ...]
    advice: tuple[Advice, ...]
    together: Advice | None = None
    plan_count: int = 0
    left_out_count: int = 0

    def document(self) -> dict[str, Any]:
        """Return the advice for programs."""
        return {
            "baseNodeCount": len(self.base_nodes),
            "advice": [one.document() for one in self.advice],
            "together": self.together.document() if self.together else None,
            "planCount": self.plan_count,
            "leftOutCount": self.left_out_count,
        }


def saving_of(nodes: Sequence[str], staying: Sequence[str], prices: Mapping[str, float]) -> float | None:
    """Return what nodes save per hour instead of others; a node without price counts as 0. None = no price is known."""
    if not prices:
        return None
    return sum(prices.get(node, 0.0) for node in nodes) - sum(prices.get(node, 0.0) for node in staying)
