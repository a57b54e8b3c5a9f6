"""The figures of a plan: nodes and money now, after it, and what it saves. Growth and replacement count as well as
removal, so that "now" less what is saved is "after".
"""

from typing import NamedTuple

from trimtab.clients.cli.answers.answer import PlanAnswer
from trimtab.clients.cli.answers.costs import DEFAULT_ASSUMPTION
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
    more, assumption = response.scale_up.price_per_hour, costs.assumption
    if is_growth_assumed(answer):
        more, assumption = assumed_growth(answer), DEFAULT_ASSUMPTION
    waves = response.replacement.waves
    return Savings(
        nodes=len(answer.view.nodes),
        removed=len(going) + sum(len(wave.leaving) for wave in waves),
        added=sum(one.new_size - one.current_size for one in splits) + sum(len(wave.new_nodes) for wave in waves),
        now=costs.total,
        after=costs.total - costs.of(going) + more - sum(wave.saving_per_hour for wave in waves),
        without_price=costs.unknown_count,
        assumption=assumption,
        currency=costs.currency,
    )


def is_growth_assumed(answer: PlanAnswer) -> bool:
    """Return whether new nodes can only be shown at assumed prices: known and assumed ones are never added. Without
    nodes, prices of the groups that grow are known ones.
    """
    splits = answer.response.scale_up.splits
    if answer.view.nodes:
        return bool(splits) and not answer.costs.known
    return bool(splits) and not any(one.HasField("price_per_hour") for one in splits)


def assumed_growth(answer: PlanAnswer) -> float:
    """Return what the new nodes cost an hour at assumed rates; a group of which nothing is known counts as 0."""
    rates = group_rates(answer.view, DEFAULT_RATES)
    splits = answer.response.scale_up.splits
    return sum(rates.get(one.node_group, 0.0) * (one.new_size - one.current_size) for one in splits)
