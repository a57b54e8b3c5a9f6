"""Which of two plans for the same pods is better (`trimtab.planner.scale_up.variants`).

A plan that leaves more pods, or more important ones, is worse. But if the price decides, groups that the configured
expanders would not have chosen may serve more pods only at no higher price. Otherwise, the better plan is the one that
needs fewer nodes of some groups and no more of any; and, if expanders do not depend on the group, fewer nodes at no
higher price, or as many at a lower one. If the number of nodes decides, fewer nodes are better at any price, and of
as many those that the configured expanders chose. Decides nothing else.
"""

from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.placement.waiting import priorities
from trimtab.planner.scale_up.report.finding import Finding, rating
from trimtab.planner.simulation.state import NOWHERE
from trimtab.planner.snapshot.columns import Int64
from trimtab.v1.plan_pb2 import Expander

BY_GROUP: Final = (Expander.PRIORITY, Expander.HIGHEST_PRIORITY, Expander.BALANCED)
"""Expanders for which a node of one group is not as good as one of another."""


class Worth(NamedTuple):
    """The criteria by which plans are compared. left : priorities of pods without a place, highest first; growth :
    int64[G] new nodes; nodes : all of them; price_per_hour : of those whose price is known, unknown : how many others
    there are; expanders : those that made the choices."""

    left: tuple[int, ...]
    growth: Int64
    nodes: int
    price_per_hour: float
    unknown: int
    expanders: tuple[int, ...]


def worth(finding: Finding) -> Worth:
    """Return the criteria of a plan. To be called while the simulation contains the plan's moves."""
    growing, unserved = finding.growing, finding.unserved
    pods = np.concatenate([unserved.pods, unserved.placeholders])
    left = pods[growing.state.pod_node[pods] == NOWHERE]
    _, unknown, price, nodes = rating(finding)
    return Worth(
        left=tuple(np.sort(priorities(growing.within.simulation, left))[::-1].tolist()),
        growth=np.bincount(np.array(growing.group_of, np.int64), minlength=len(growing.groups)),
        nodes=nodes,
        price_per_hour=price,
        unknown=unknown,
        expanders=finding.context.request.settings.expanders,
    )


def is_better(one: Worth, other: Worth, expanders: tuple[int, ...]) -> bool:
    """Return whether one plan is better than the other. expanders : those that are configured."""
    if one.left != other.left:
        chosen_as_configured = expanders[0] != Expander.PRICE or one.expanders == expanders
        return one.left < other.left and (chosen_as_configured or _price(one) <= _price(other))
    if (one.growth <= other.growth).all():
        return one.nodes < other.nodes
    if expanders[0] in BY_GROUP:
        return False
    if expanders[0] == Expander.LEAST_NODES:
        if one.nodes != other.nodes:
            return one.nodes < other.nodes
        if one.expanders != expanders and other.expanders == expanders:
            # Groups chosen one after the other are balanced.
            return False
    if expanders[0] == Expander.CHEAPEST_PLAN:
        return (*_price(one), one.nodes) < (*_price(other), other.nodes)
    if one.unknown or other.unknown:
        return False
    no_more = one.nodes <= other.nodes and one.price_per_hour <= other.price_per_hour
    return no_more and (one.nodes, one.price_per_hour) != (other.nodes, other.price_per_hour)


def _price(of: Worth) -> tuple[int, float]:
    """Return the price for comparison: nodes of unknown price first."""
    return of.unknown, of.price_per_hour
