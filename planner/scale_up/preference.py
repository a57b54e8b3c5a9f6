"""Which of two plans for the same pods is better (`trimtab.planner.scale_up.variants`).

The first row that applies decides:

    first configured expander, and the plans                       a plan is better if
    -------------------------------------------------------------  -----------------------------------------------------
    PRICE; other pods are left, groups not chosen as configured    it leaves fewer or less important pods for no more
    any; other pods are left                                       it leaves fewer or less important pods
    any; no group gets more nodes than in the other plan           it has fewer nodes
    PRIORITY, HIGHEST_PRIORITY, BALANCED                           never: nodes of one group are not as good as others
    LEAST_NODES; numbers of nodes differ                           it has fewer nodes
    LEAST_NODES; only the other's groups are chosen as configured  never: those are balanced
    CHEAPEST_PLAN                                                  fewer of unknown price; cheaper; fewer nodes
    any; some price is unknown                                     never
    any                                                            fewer nodes or a lower price, and neither is higher
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.placement.waiting import priorities
from trimtab.planner.scale_up.plan import ScaleUpPlan, rating
from trimtab.planner.snapshot.columns import NO_NODE, Int64
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


def worth(plan: ScaleUpPlan) -> Worth:
    """Return the criteria of a plan. To be called while the simulation contains the plan's moves."""
    progress, unplaced = plan.progress, plan.unplaced
    pods = np.concatenate([unplaced.pods, unplaced.placeholders])
    left = pods[progress.state.pod_node[pods] == NO_NODE]
    _, unknown, price, nodes = rating(plan)
    return Worth(
        left=tuple(np.sort(priorities(progress.packer.simulation, left))[::-1].tolist()),
        growth=np.bincount(np.array(progress.group_of, np.int64), minlength=len(progress.groups)),
        nodes=nodes,
        price_per_hour=price,
        unknown=unknown,
        expanders=plan.context.request.settings.expanders,
    )


def is_better(one: Worth, other: Worth, expanders: tuple[int, ...]) -> bool:
    """Return whether one plan is better than the other. expanders : those that are configured."""
    return next(rule.is_better(one, other) for rule in _RULES if rule.applies(one, other, expanders))


class _Rule(NamedTuple):
    """A row of the table."""

    applies: Callable[[Worth, Worth, tuple[int, ...]], bool]
    is_better: Callable[[Worth, Worth], bool]


_RULES: Final = (
    _Rule(
        lambda one, other, given: one.left != other.left and given[0] == Expander.PRICE and one.expanders != given,
        lambda one, other: one.left < other.left and _price(one) <= _price(other),
    ),
    _Rule(lambda one, other, _: one.left != other.left, lambda one, other: one.left < other.left),
    _Rule(lambda one, other, _: bool((one.growth <= other.growth).all()), lambda one, other: one.nodes < other.nodes),
    _Rule(lambda _one, _other, given: given[0] in BY_GROUP, lambda _one, _other: False),
    _Rule(
        lambda one, other, given: given[0] == Expander.LEAST_NODES and one.nodes != other.nodes,
        lambda one, other: one.nodes < other.nodes,
    ),
    _Rule(
        lambda one, other, given: given[0] == Expander.LEAST_NODES and one.expanders != given == other.expanders,
        lambda _one, _other: False,
    ),
    _Rule(
        lambda _one, _other, given: given[0] == Expander.CHEAPEST_PLAN,
        lambda one, other: (*_price(one), one.nodes) < (*_price(other), other.nodes),
    ),
    _Rule(lambda one, other, _: bool(one.unknown or other.unknown), lambda _one, _other: False),
    _Rule(
        lambda _one, _other, _given: True,
        lambda one, other: (
            one.nodes <= other.nodes
            and one.price_per_hour <= other.price_per_hour
            and (one.nodes, one.price_per_hour) != (other.nodes, other.price_per_hour)
        ),
    ),
)


def _price(of: Worth) -> tuple[int, float]:
    """Return the price for comparison: nodes of unknown price first."""
    return of.unknown, of.price_per_hour
