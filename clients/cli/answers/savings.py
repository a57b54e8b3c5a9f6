"""The figures of a plan: nodes and money now, after it, and what it saves. Growth counts as well as removal, so that
"now" less what is saved is "after".
"""

from typing import NamedTuple

from trimtab.clients.cli.answers.answer import PlanAnswer
from trimtab.clients.cli.prices import group_rates
from trimtab.clients.cli.rates import DEFAULT_RATES
from trimtab.prices import HOURS_A_MONTH


class Savings(NamedTuple):
    """Figures of one plan. Prices per hour, of the nodes whose price is known; without_price : number of the others.

    assumption : clause about assumed prices, "" = nothing is assumed; currency : "" = not told
    """

    nodes: int
    removed: int
    added: int
    now: float
    after: float
    without_price: int
    assumption: str
    currency: str

    @property
    def saved_a_month(self) -> float:
        """What the plan saves in a month; negative if it costs more than it saves."""
        return (self.now - self.after) * HOURS_A_MONTH


def savings_of(answer: PlanAnswer) -> Savings:
    """Return the figures of an answered plan."""
    response, costs = answer.response, answer.costs
    going = [one.node for one in response.scale_down.unneeded]
    splits = response.scale_up.splits
    more = response.scale_up.price_per_hour
    if not costs.known and splits:
        # Known and assumed prices are never added.
        rates = group_rates(answer.view, DEFAULT_RATES)
        more = sum(rates.get(one.node_group, 0.0) * (one.new_size - one.current_size) for one in splits)
    return Savings(
        nodes=len(answer.view.nodes),
        removed=len(going),
        added=sum(one.new_size - one.current_size for one in splits),
        now=costs.total,
        after=costs.total - costs.of(going) + more,
        without_price=costs.unknown_count,
        assumption=costs.assumption,
        currency=costs.currency,
    )
