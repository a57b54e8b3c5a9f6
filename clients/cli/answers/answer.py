"""The input of renderers: the answer, and the request that it answers."""

from dataclasses import dataclass
from functools import cached_property

from trimtab.v1 import plan_pb2

from clients.cli.answers.costs import Costs
from clients.cli.cluster_view import ClusterView
from clients.cli.prices import Prices


@dataclass(frozen=True)
class Answer:
    """One answered request. `settings` and `now_ns` (Unix nanoseconds) are the request's; `verbose` shows all rows;
    `prices` are those of a file, None = none is given.
    """

    response: plan_pb2.PlanResponse
    view: ClusterView
    settings: plan_pb2.PlanSettings
    now_ns: int
    verbose: bool = False
    prices: Prices | None = None

    @cached_property
    def costs(self) -> Costs:
        """The costs of nodes."""
        return Costs(self.view, self.prices)
