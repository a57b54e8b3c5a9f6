"""The new nodes of a plan in cheaper groups; their number and their pods stay.

For plans with the fewest nodes, whose groups are chosen without regard to prices. Contract: the result is only a
proposal, to be carried out in the usual order (`trimtab.planner.scale_up.loop`) and compared like any plan
(`trimtab.planner.scale_up.preference`). A node stays in its topology domains. Pure.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.placement.group_bounds import fresh_amounts
from trimtab.planner.predicates.counters import shared_domains
from trimtab.planner.scale_up.plan import ScaleUpPlan
from trimtab.planner.scale_up.progress import PlanInProgress
from trimtab.planner.scale_up.repacking import RepackedNodes
from trimtab.planner.simulation.growth import NO_TEMPLATE_NODE
from trimtab.planner.snapshot.columns import Bool, Float64, Int64

AT_ONCE: Final = 1 << 22
"""Number of comparisons of nodes with groups for which there is memory at a time."""


class _Content(NamedTuple):
    """used : int64[M, R] amounts in use on each new node; node, of_class : int64[E] nodes, ascending, with the classes
    of their pods."""

    used: Int64
    node: Int64
    of_class: Int64


def in_cheaper_groups(plan: ScaleUpPlan) -> RepackedNodes | None:
    """Return the new nodes of a plan, each in the cheapest group that takes its pods by amounts and static predicates;
    None if that is the case already, or the limits do not allow them together.

    The nodes of the most expensive groups come first; groups of equal price are taken in their order. All-or-nothing
    groups and those of unknown price keep their nodes, and get no others. To be called while the simulation contains
    the plan's moves. O(M·G·R).
    """
    progress = plan.progress
    before = np.array(progress.group_of, np.int64)
    price = np.array([np.nan if group.zero_or_max else group.price_per_hour for group in progress.groups], np.float64)
    if not len(before) or np.isnan(price).all():
        return None
    found = _cheapest(progress, before, price)
    change = np.bincount(found, minlength=len(price)) - np.bincount(before, minlength=len(price))
    if (found == before).all() or not progress.limits.admit(change):
        return None
    return RepackedNodes(found.tolist(), progress.state.pod_node.astype(np.int32), progress.pods)


def _cheapest(progress: PlanInProgress, before: Int64, price: Float64) -> Int64:
    """Return the group of each new node. int64[M]. before : the present ones."""
    found, room = before.copy(), progress.limits.may_add.copy()
    by_price = np.argsort(price, kind="stable")
    for node, groups in _options(progress, before, price):
        free = by_price[groups[by_price] & (room[by_price] > 0)]
        if len(free):
            found[node] = free[0]
            room[free[0]] -= 1
            room[before[node]] += 1
    return found


def _options(progress: PlanInProgress, before: Int64, price: Float64) -> Iterator[tuple[int, Bool]]:
    """Yield nodes that have cheaper groups, the most expensive first, with these groups. bool[G]."""
    content, fresh = _content(progress, before), fresh_amounts(progress.packer.simulation, progress.packer.growth)
    domains = _domains(progress)
    order = np.argsort(-price[before], kind="stable")
    step = max(1, AT_ONCE // max(1, fresh.size))
    for first in range(0, len(order), step):
        nodes = order[first : first + step]
        may = price[None] < price[before[nodes]][:, None]
        may &= domains[None] == domains[before[nodes]][:, None]
        may &= (content.used[nodes][:, None] <= fresh[None]).all(axis=2)
        may &= _admitted(progress, content, nodes)
        for row in np.flatnonzero(may.any(axis=1)).tolist():
            yield int(nodes[row]), may[row]


def _content(progress: PlanInProgress, before: Int64) -> _Content:
    state = progress.state
    fresh = fresh_amounts(progress.packer.simulation, progress.packer.growth)
    opened = progress.opened
    number = np.full(len(state.node_state), -1, np.int64)
    number[opened] = np.arange(len(opened))
    placed = np.flatnonzero(state.pod_node >= 0)
    node = number[state.pod_node[placed]]
    classes = len(state.local_class)
    pairs = np.unique(node[node >= 0] * classes + state.pod_class[placed[node >= 0]])
    return _Content(fresh[before] - state.resources.free[opened], *np.divmod(pairs, classes))


def _admitted(progress: PlanInProgress, content: _Content, nodes: Int64) -> Bool:
    """Return which groups' static predicates admit all pods of nodes. bool[len(nodes), G]."""
    state, template_node = progress.state, progress.packer.growth.template_node
    has_template_node = template_node != NO_TEMPLATE_NODE
    node_class = state.node_class[np.where(has_template_node, template_node, 0)]
    out = np.repeat(has_template_node[None], len(nodes), axis=0)
    first, last = (np.searchsorted(content.node, nodes, side) for side in ("left", "right"))
    for row, (begin, end) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
        classes = content.of_class[begin:end]
        out[row] &= (state.blocked[classes] == 0).all(axis=0)[node_class]
    return out


def _domains(progress: PlanInProgress) -> Int64:
    """Return a number by group that is equal for groups whose nodes are in the same topology domains. int64[G]."""
    state, template_node = progress.state, progress.packer.growth.template_node
    at = np.where(template_node == NO_TEMPLATE_NODE, 0, template_node)
    columns = shared_domains(state.counters, at)
    rows = [np.ascontiguousarray(one).reshape(len(at), -1).view(np.uint8) for one in columns if one.size]
    numbers: dict[bytes, int] = {}
    table = np.concatenate(rows, axis=1) if rows else np.zeros((len(at), 0), np.uint8)
    return np.array([numbers.setdefault(row.tobytes(), len(numbers)) for row in table], np.int64)
