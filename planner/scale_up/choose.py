"""The choice of one option, and the reasons for the others."""

from typing import NamedTuple

import numpy as np

from trimtab.planner.scale_up.context import Context
from trimtab.planner.scale_up.estimate import Estimate, as_options
from trimtab.planner.scale_up.expanders import chain
from trimtab.planner.scale_up.options import ChoiceState as Turn
from trimtab.planner.scale_up.options import Float64, Options
from trimtab.planner.snapshot.columns import Int64
from trimtab.v1.plan_pb2 import Expander
from trimtab.v1.reason_pb2 import NodeGroupReason


class Choice(NamedTuple):
    """options : the candidates; verdict : which one was chosen, and why not the others."""

    options: list[Estimate]
    verdict: chain.Verdict

    @property
    def chosen(self) -> Estimate | None:
        """The option that was chosen; None if the expanders exclude all."""
        return self.options[self.verdict.chosen] if self.verdict.chosen != chain.NONE else None


def choose(context: Context, number: int, added: Int64, options: list[Estimate]) -> Choice:
    """Choose by the expanders. number : of the choice; added : int64[G] nodes that the plan has added so far."""
    return Choice(options, _verdict(context, number, added, as_options(options)))


def rank(context: Context, number: int, added: Int64, options: Options) -> Int64:
    """Return the rows of options as the expanders rate them, best first. int64[O]; number, added : see `choose`."""
    return _verdict(context, number, added, options).order


def _verdict(context: Context, number: int, added: Int64, options: Options) -> chain.Verdict:
    turn = Turn(number, context.sizes + added)
    return chain.choose(context.expanders, turn, options, _expanders(context, options.group))


def _expanders(context: Context, groups: Int64) -> tuple[int, ...]:
    """Return the expanders to use; if CHEAPEST_PLAN is the only one, those nearest to it for the pods
    that it leaves.
    """
    price = context.expanders.groups.price_per_hour[groups]
    return nearest_to_cheapest(context.request.settings.expanders, price)


def nearest_to_cheapest(given: tuple[int, ...], price: Float64) -> tuple[int, ...]:
    """Return the expanders that choose among options, those nearest to CHEAPEST_PLAN if it is the only one.

    price : float64[O] of a node of each option, NaN = unknown.
    """
    if given != (Expander.CHEAPEST_PLAN, Expander.RANDOM):
        return given
    nearest = Expander.LEAST_NODES if np.isnan(price).any() else Expander.PRICE
    return (nearest, Expander.LEAST_WASTE, Expander.RANDOM)


def excluded(choice: Choice) -> dict[int, int]:
    """Return the groups that an expander excludes, with the reason."""
    out = np.isin(choice.verdict.reason, (NodeGroupReason.PRICE_UNKNOWN, NodeGroupReason.PRIORITY_INVALID))
    return {choice.options[row].group: int(choice.verdict.reason[row]) for row in np.flatnonzero(out).tolist()}
