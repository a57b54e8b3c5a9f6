"""Input and output of the cheapest plan, in numbers.

Symbols: C pod classes, G node groups, R resources, Z zones, B batches of equal nodes, E entries of batches.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.model.execution import UNLIMITED as NO_LIMITS
from trimtab.planner.model.execution import RequestLimits
from trimtab.planner.model.settings.scale_up import USUAL, SearchBudgets
from trimtab.planner.snapshot.columns import Bool, Float64, Int32, Int64

UNLIMITED: Final = 1 << 40
"""Stands for no limit, in `most`, `per_node` and `zone_most`."""
NO_ZONE: Final = -1


class Problem(NamedTuple):
    """Pods that need new nodes, and the nodes that can be had.

    demand    : int64[C, R]  what one pod of a class takes, >= 0, in the resource's unit
    pods      : int64[C]     pods of the class that need a place
    allowed   : bool[C, G]   a node of the group takes pods of the class at all
    capacity  : int64[G, R]  what a new node of the group has for pods, DaemonSets and reserves taken off
    price     : float64[G]   price of a node an hour, >= 0; NaN = unknown. A group without price is used only for pods
                             that no group with a price takes (any more); among such groups the fewest nodes win
    max_nodes : int64[G]     nodes that may be added
    per_node  : int64[C]     pods of the class that one node takes
    zone      : int32[G]     zone of the group's nodes, NO_ZONE = in none that counts
    zone_most : int64[C, Z]  pods of the class that may be planned in a zone; a zone without column limits nothing
    """

    demand: Int64
    pods: Int64
    allowed: Bool
    capacity: Int64
    price: Float64
    max_nodes: Int64
    per_node: Int64
    zone: Int32
    zone_most: Int64


class PlanBounds(NamedTuple):
    """Bounds on trying plans, besides those of work. limits : raises the errors that end the request; time_left : False
    once no other plan should be tried, None = no such bound; search : see `SearchBudgets`.
    """

    limits: RequestLimits = NO_LIMITS
    time_left: Callable[[], bool] | None = None
    search: SearchBudgets = USUAL

    def may_go_on(self) -> bool:
        """Return whether another plan may be tried."""
        self.limits.check()
        return self.time_left is None or self.time_left()


class Plan(NamedTuple):
    """Nodes to add, in batches of nodes with equal content.

    group   : int32[B]    ascending
    nodes   : int64[B]    > 0
    offsets : int64[B+1]  entries of each batch in class and pods
    classes : int32[E]    ascending within a batch
    pods    : int64[E]    > 0, pods of the class on each node of the batch
    unplaced : int64[C]    pods without a place
    price   : the nodes' total price an hour, those without price left out
    """

    group: Int32
    nodes: Int64
    offsets: Int64
    classes: Int32
    pods: Int64
    unplaced: Int64
    price: float


def problem(demand: Int64, pods: Int64, allowed: Bool, capacity: Int64, price: Float64) -> Problem:
    """Return a problem without limits and zones, to which they can be added with `_replace`."""
    groups, classes = len(capacity), len(demand)
    return Problem(
        demand, pods, allowed, capacity, price,
        np.full(groups, UNLIMITED), np.full(classes, UNLIMITED),
        np.full(groups, NO_ZONE, np.int32), np.full((classes, 0), UNLIMITED),
    )  # fmt: skip


def with_node_limit(whole: Problem, classes: Bool, limit: int) -> Problem:
    """Return the problem with a limit of pods of several classes, taken together, on one node.

    For pods with anti-affinity to each other, or spread over host names. classes : bool[C]. It adds one resource.
    """
    demand = np.concatenate([whole.demand, classes.astype(np.int64)[:, None]], axis=1)
    capacity = np.concatenate([whole.capacity, np.full((len(whole.capacity), 1), limit, np.int64)], axis=1)
    return whole._replace(demand=demand, capacity=capacity)
