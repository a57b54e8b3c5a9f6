"""The input of renderers: the answer, and the request that it answers."""

from dataclasses import dataclass
from functools import cached_property

from trimtab.clients.advice import AdviceReport
from trimtab.clients.cli.answers.costs import Costs
from trimtab.clients.cli.prices import Prices
from trimtab.clients.cli.usage import ClusterUsage
from trimtab.clients.cluster_view import ClusterView
from trimtab.places import moves_by_node, on_new_nodes
from trimtab.v1 import plan_pb2


@dataclass(frozen=True)
class PlanAnswer:
    """One answered request. `settings` and `now_ns` (Unix nanoseconds) are the request's; `verbose` shows all rows;
    `prices` are those of a file, None = none is given; `usage` is what pods use, None = not known; `advice` is
    what to change, None = not looked for. `response` : the
    planner's; `view` : the snapshot that it is about.
    """

    response: plan_pb2.PlanResponse
    view: ClusterView
    settings: plan_pb2.PlanSettings
    now_ns: int
    verbose: bool = False
    prices: Prices | None = None
    usage: ClusterUsage | None = None
    advice: AdviceReport | None = None

    @cached_property
    def costs(self) -> Costs:
        """The costs of nodes."""
        return Costs(self.response, self.view, self.prices)

    @cached_property
    def moves(self) -> dict[str, dict[str, str]]:
        """Where the pods of each unneeded node would go."""
        return moves_by_node(self.response.scale_down.places)

    @cached_property
    def on_new_nodes(self) -> dict[str, list[str]]:
        """The pods and placeholders for which each node group grows."""
        return on_new_nodes(self.response.scale_up)

    @property
    def summary(self) -> plan_pb2.PlanSummary:
        """Nodes and money of the plan."""
        return self.response.summary

    @property
    def node_count(self) -> int:
        """Number of nodes, those included that are being deleted."""
        return self.summary.now.node_count + self.summary.leaving_node_count

    def figures(self, decision: "plan_pb2.Decision.Code.ValueType") -> plan_pb2.DecisionFigures:
        """Return what one decision changes; nothing if it was not requested."""
        found = (one for one in self.summary.decisions if one.decision == decision)
        return next(found, plan_pb2.DecisionFigures(decision=decision, after=self.summary.now))
