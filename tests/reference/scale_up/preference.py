"""Naive reference for `trimtab.planner.scale_up.variants`: plans as lists of nodes and of pods."""

from collections import Counter
from typing import NamedTuple

from trimtab.v1.plan_pb2 import Expander

BY_GROUP = {Expander.PRIORITY, Expander.HIGHEST_PRIORITY, Expander.BALANCED}


class PlannedNode(NamedTuple):
    """A new node. price : None = unknown."""

    group: int
    price: float | None


class WholePlan(NamedTuple):
    """nodes : new ones; left : priorities of pods without a place; expanders : those that chose."""

    nodes: list[PlannedNode]
    left: list[int]
    expanders: tuple[int, ...]


def is_better(one: WholePlan, other: WholePlan, expanders: tuple[int, ...]) -> bool:
    """Return whether one plan is better than the other. expanders : the configured ones."""
    here, there = sorted(one.left, reverse=True), sorted(other.left, reverse=True)
    if here != there:
        # The most important pod in which they differ decides; the plan that leaves fewer is better.
        for mine, its in zip(here, there, strict=False):
            if mine != its:
                return mine < its and may_cost_more(one, other, expanders)
        return len(here) < len(there) and may_cost_more(one, other, expanders)
    mine, its = (Counter(node.group for node in plan.nodes) for plan in (one, other))
    if all(mine[group] <= its[group] for group in mine):
        return any(mine[group] < its[group] for group in its)
    if expanders[0] in BY_GROUP:
        return False
    if expanders[0] == Expander.LEAST_NODES:
        if len(one.nodes) != len(other.nodes):
            return len(one.nodes) < len(other.nodes)
        if other.expanders == expanders != one.expanders:
            return False
    return costs_less(one, other, expanders)


def costs_less(one: WholePlan, other: WholePlan, expanders: tuple[int, ...]) -> bool:
    """Return whether a plan with nodes of other groups is better by price and number of nodes."""
    cost, costs = price(one), price(other)
    if expanders[0] == Expander.CHEAPEST_PLAN:
        if unknown(one) != unknown(other):
            return unknown(one) < unknown(other)
        return cost < costs or (cost == costs and len(one.nodes) < len(other.nodes))
    if unknown(one) or unknown(other) or cost > costs or len(one.nodes) > len(other.nodes):
        return False
    return cost < costs or len(one.nodes) < len(other.nodes)


def may_cost_more(one: WholePlan, other: WholePlan, expanders: tuple[int, ...]) -> bool:
    """Return whether the first plan, which leaves fewer pods, is not too expensive for that."""
    if expanders[0] != Expander.PRICE or one.expanders == expanders:
        return True
    return unknown(one) < unknown(other) or (unknown(one) == unknown(other) and price(one) <= price(other))


def unknown(plan: WholePlan) -> int:
    """Return the number of nodes without a price."""
    return sum(node.price is None for node in plan.nodes)


def price(plan: WholePlan) -> float:
    """Return the total cost of the nodes with a known price."""
    return sum(node.price for node in plan.nodes if node.price is not None)
