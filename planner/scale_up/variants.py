"""Which plans are worth making besides the usual one, and which of two plans for the same pods is better.

The pods that take the existing room determine which ones are left for new nodes; no order is best for every cluster,
and the scheduler has its own. Also, the option that an expander rates highest may serve few pods, leaving others once a
limit is reached, or need more nodes; the cheapest one may make the whole plan more expensive. A few plans are made if
that costs little. The first row that applies says which is better:

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

from trimtab.planner.facts.nodes import group_prices
from trimtab.planner.model.tuning import WITHOUT_WORK
from trimtab.planner.new_nodes.demand_sets import NOBODY
from trimtab.planner.placement.waiting import USUAL, NodeOrder, PlacementOrder, PodOrder, priorities, unplaced
from trimtab.planner.scale_up.context import ScaleUpContext
from trimtab.planner.scale_up.plan import ScaleUpPlan, rating
from trimtab.planner.snapshot.columns import NO_NODE, Int32, Int64
from trimtab.v1.plan_pb2 import Expander
from trimtab.v1.reason_pb2 import NodeGroupReason

BY_GROUP: Final = (Expander.PRIORITY, Expander.HIGHEST_PRIORITY, Expander.BALANCED)
"""Expanders for which a node of one group is not as good as one of another."""


class Worth(NamedTuple):
    """The criteria by which plans are compared. waiting : priorities of pods without a place, highest first; growth :
    int64[G] new nodes; nodes : all of them; price_per_hour : of those whose price is known, unknown : how many others
    there are; expanders : those that made the choices."""

    waiting: tuple[int, ...]
    growth: Int64
    nodes: int
    price_per_hour: float
    unknown: int
    expanders: tuple[int, ...]


def worth(plan: ScaleUpPlan) -> Worth:
    """Return the criteria of a plan. To be called while the simulation contains the plan's moves."""
    progress, unplaced = plan.progress, plan.unplaced
    pods = np.concatenate([unplaced.pods, unplaced.placeholders])
    waiting = pods[progress.state.pod_node[pods] == NO_NODE]
    _, unknown, price, nodes = rating(plan)
    return Worth(
        waiting=tuple(np.sort(priorities(progress.packer.simulation, waiting))[::-1].tolist()),
        growth=np.bincount(np.array(progress.group_of, np.int64), minlength=len(progress.groups)),
        nodes=nodes,
        price_per_hour=price,
        unknown=unknown,
        expanders=plan.context.request.settings.expanders,
    )


def is_better(worth: Worth, other: Worth, expanders: tuple[int, ...]) -> bool:
    """Return whether one plan is better than the other. expanders : those that are configured."""
    return next(rule.is_better(worth, other) for rule in _RULES if rule.applies(worth, other, expanders))


class _Rule(NamedTuple):
    """A row of the table."""

    applies: Callable[[Worth, Worth, tuple[int, ...]], bool]
    is_better: Callable[[Worth, Worth], bool]


_RULES: Final = (
    _Rule(
        lambda worth, other, chain: (
            worth.waiting != other.waiting and chain[0] == Expander.PRICE and worth.expanders != chain
        ),
        lambda worth, other: worth.waiting < other.waiting and _price(worth) <= _price(other),
    ),
    _Rule(lambda worth, other, _: worth.waiting != other.waiting, lambda worth, other: worth.waiting < other.waiting),
    _Rule(
        lambda worth, other, _: bool((worth.growth <= other.growth).all()),
        lambda worth, other: worth.nodes < other.nodes,
    ),
    _Rule(lambda _worth, _other, chain: chain[0] in BY_GROUP, lambda _worth, _other: False),
    _Rule(
        lambda worth, other, chain: chain[0] == Expander.LEAST_NODES and worth.nodes != other.nodes,
        lambda worth, other: worth.nodes < other.nodes,
    ),
    _Rule(
        lambda worth, other, chain: chain[0] == Expander.LEAST_NODES and worth.expanders != chain == other.expanders,
        lambda _worth, _other: False,
    ),
    _Rule(
        lambda _worth, _other, chain: chain[0] == Expander.CHEAPEST_PLAN,
        lambda worth, other: (*_price(worth), worth.nodes) < (*_price(other), other.nodes),
    ),
    _Rule(lambda worth, other, _: bool(worth.unknown or other.unknown), lambda _worth, _other: False),
    _Rule(
        lambda _worth, _other, _given: True,
        lambda worth, other: (
            worth.nodes <= other.nodes
            and worth.price_per_hour <= other.price_per_hour
            and (worth.nodes, worth.price_per_hour) != (other.nodes, other.price_per_hour)
        ),
    ),
)


def _price(of: Worth) -> tuple[int, float]:
    """Return the price for comparison: nodes of unknown price first."""
    return of.unknown, of.price_per_hour


PLACEMENT_ORDERS: Final = (
    PlacementOrder(PodOrder.LARGEST_FIRST, NodeOrder.FULLEST_FIRST),
    PlacementOrder(PodOrder.SMALLEST_FIRST, NodeOrder.EMPTIEST_FIRST),
    PlacementOrder(PodOrder.LISTED, NodeOrder.LISTED),
    PlacementOrder(PodOrder.LISTED_BACKWARDS, NodeOrder.EMPTIEST_FIRST),
)
LIMITED: Final = (
    NodeGroupReason.MAX_SIZE_REACHED,
    NodeGroupReason.RESOURCE_LIMIT_REACHED,
    NodeGroupReason.MAX_NEW_NODES_REACHED,
    NodeGroupReason.NOT_WHOLE,
)
"""Reasons of groups that would help a pod if they might grow more."""
OTHERS_THAN_CHEAPEST: Final = (Expander.PRICE, Expander.LEAST_WASTE, Expander.MOST_PODS)
"""Expanders whose plans, made group by group, may cost less than that of CHEAPEST_PLAN where affinity or spread, of
which that knows little, decide."""
SHARED_LIMITS: Final = (NodeGroupReason.RESOURCE_LIMIT_REACHED, NodeGroupReason.MAX_NEW_NODES_REACHED)
"""Those for which a few large pods can use up what many small ones of all groups need."""


class Variant(NamedTuple):
    """Options of a plan. placement_order : in which waiting pods are placed where there is room; expanders : in order;
    fewest_nodes : a plan for all pods at once minimizes the number of nodes, not their price; held_back : int32 pods
    placed only once node groups have grown; by_priority : groups grow for the most important pods first;
    smallest_first : where nodes do not suffice for all pods, small ones may come first; new_domains : zones that groups
    could open count for topology spread; without : groups that get no node."""

    placement_order: PlacementOrder
    expanders: tuple[int, ...]
    fewest_nodes: bool = False
    held_back: Int32 = NOBODY
    by_priority: bool = False
    smallest_first: bool = False
    new_domains: bool = True
    without: tuple[int, ...] = ()


def usual(context: ScaleUpContext) -> Variant:
    """Return the options of the usual plan."""
    return Variant(USUAL, context.request.settings.expanders)


def variants(usual: ScaleUpPlan, *, too_many_nodes: bool) -> list[Variant]:
    """Return options of plans besides the usual one, given its result, as far as the budget allows.

    Pods that new nodes keep from all nodes give their room to others. If limits leave pods that are more important
    than others on new nodes, groups grow for these first. The room is also given to others if only some
    pods went to existing nodes, and pods are left or fewer nodes might suffice (too_many_nodes) or the price decides.
    Groups are chosen differently if there was more than one choice, or pods are left; if the price or the number of
    nodes decides, also as a whole.
    """
    return [
        *_without_lost_places(usual), *_by_priority(usual), *_as_a_whole(usual),
        *_otherwise(usual, too_many_nodes=too_many_nodes),
    ]  # fmt: skip


def _without_lost_places(usual: ScaleUpPlan) -> list[Variant]:
    """Return the plan in which pods that new nodes keep from existing ones, and that fit nowhere then, take no room
    from others; it is made for any number of pods."""
    existing = usual.unplaced.on_existing
    lost = unplaced(usual.progress.state, existing.pods)
    return [Variant(USUAL, usual.context.request.settings.expanders, held_back=lost)] if len(lost) else []


def _by_priority(usual: ScaleUpPlan) -> list[Variant]:
    """Return the plan in which groups grow for the most important pods first, if limits keep some of these waiting
    while less important ones get new nodes; it is made for any number of pods."""
    progress, limited = usual.progress, left_by(usual, LIMITED)
    if not len(limited) or not progress.group_of:
        return []
    served = progress.pods[np.isin(progress.nodes, progress.opened)]
    if not len(served):
        return []
    simulation = progress.packer.simulation
    if priorities(simulation, limited).max() <= priorities(simulation, served).min():
        return []
    return [Variant(USUAL, usual.context.request.settings.expanders, by_priority=True)]


def without_a_group(plan: ScaleUpPlan, variant: Variant) -> list[Variant]:
    """Return a plan's variant without one more of its groups, for each of them.

    A group more can make the cheapest plan dearer, as another search is made: once by two fifths. Only where the price
    decides and all pods have a place, as far as the budget allows.
    """
    groups = sorted(set(plan.progress.group_of))
    if plan.context.compared_by != Expander.CHEAPEST_PLAN or len(plan.refusals.pods) or len(groups) < 2:
        return []
    waiting = len(plan.unplaced.waiting) + len(plan.unplaced.placeholders)
    affordable = _affordable(plan, waiting) // WITHOUT_WORK
    return [variant._replace(without=(*variant.without, group)) for group in groups[:affordable]]


def _affordable(plan: ScaleUpPlan, waiting: int) -> int:
    """Return how many more plans for a number of waiting pods the budget pays for."""
    work = waiting * (len(plan.unplaced.where.order) + len(plan.progress.groups))
    return plan.context.request.settings.search.variant_work // max(work, 1)


def left_by(usual: ScaleUpPlan, reasons: tuple[int, ...]) -> Int32:
    """Return the pods left that one more node of some group would take, if it were not for these reasons. int32."""
    refusals = usual.refusals
    limited = np.isin(refusals.reason, reasons).sum(axis=1, dtype=np.int64)
    pods: Int32 = refusals.pods[limited[refusals.kind] > 0]
    return pods


def _as_a_whole(usual: ScaleUpPlan) -> list[Variant]:
    """Return the plan for all pods at once with the fewest nodes, if their number decides; it is made for any number
    of pods."""
    expanders = usual.context.request.settings.expanders
    many = usual.context.request.settings.search.compares and (
        len(usual.progress.group_of) > 1 or len(usual.refusals.pods)
    )
    if expanders[0] != Expander.LEAST_NODES or Expander.CHEAPEST_PLAN in expanders or not many:
        return []
    return [Variant(USUAL, (Expander.CHEAPEST_PLAN, *expanders), fewest_nodes=True)]


def _otherwise(usual: ScaleUpPlan, *, too_many_nodes: bool) -> list[Variant]:
    """Return the other variants, as many as the budget pays for.

    With other expanders only if the settings name none, or the search may replace those.
    """
    unplaced, progress = usual.unplaced, usual.progress
    left_count = len(unplaced.waiting) + len(unplaced.placeholders)
    waiting = len(unplaced.pods) + len(unplaced.placeholders)
    settings, some_left = usual.context.request.settings, bool(len(usual.refusals.pods))
    expanders = settings.expanders
    affordable = _affordable(usual, waiting)
    if not left_count or not affordable:
        return []
    by_price = expanders[0] in (Expander.PRICE, Expander.CHEAPEST_PLAN)
    others = [
        Variant(placement_order, expanders)
        for placement_order in PLACEMENT_ORDERS
        if left_count < waiting and (some_left or too_many_nodes or by_price)
    ]
    if progress.group_of and len(left_by(usual, SHARED_LIMITS)):
        others += [Variant(USUAL, expanders, by_priority=by, smallest_first=True) for by in (False, True)]
    price = group_prices(progress.groups)
    is_priced, grows = not np.isnan(price).any(), bool(progress.group_of)
    may_replace = grows and (settings.search.other_expanders or not settings.names_expanders)
    if may_replace and (len(usual.history.choices) > 1 or some_left):
        others += [Variant(USUAL, chain) for chain in serving_most(expanders, prices_known=is_priced)]
    if grows and is_priced and expanders[0] == Expander.CHEAPEST_PLAN:
        others += [Variant(USUAL, (code, Expander.RANDOM)) for code in OTHERS_THAN_CHEAPEST]
    if may_replace and is_priced and expanders[0] == Expander.PRICE:
        others.append(Variant(USUAL, (Expander.CHEAPEST_PLAN, Expander.RANDOM)))
    return others[:affordable]


def serving_most(expanders: tuple[int, ...], *, prices_known: bool) -> list[tuple[int, ...]]:
    """Return expanders with MOST_PODS as early as allowed, none if that would change which groups may grow.

    Expanders that depend on the group come before it, and those that exclude groups must not come after it.
    """
    first = 1 if expanders[0] in BY_GROUP else 0
    excluding = {*BY_GROUP, Expander.CHEAPEST_PLAN} | (set() if prices_known else {Expander.PRICE})
    if expanders[first] == Expander.MOST_PODS or excluding & set(expanders[first:]):
        return []
    rest = tuple(code for code in expanders[first:] if code != Expander.MOST_PODS)
    return [(*expanders[:first], Expander.MOST_PODS, *rest)]
