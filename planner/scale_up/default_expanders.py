"""The expanders that decide if the settings name none: the least total price where it can be known, else upstream's."""

from dataclasses import replace

import numpy as np

from trimtab.planner.placement.group_bounds import fresh_amounts
from trimtab.planner.scale_up.limits import Limits
from trimtab.planner.scale_up.request import ScaleUpRequest
from trimtab.planner.simulation.growth import NO_TEMPLATE_NODE
from trimtab.planner.simulation.state import NOWHERE
from trimtab.planner.snapshot.columns import Bool, Int64
from trimtab.v1.plan_pb2 import Expander

BY_PRICE = (int(Expander.CHEAPEST_PLAN), int(Expander.RANDOM))


def with_default_expanders(request: ScaleUpRequest, limits: Limits) -> ScaleUpRequest:
    """Return the request with CHEAPEST_PLAN if its settings name no expanders, and every group that may grow and would
    help a pod on no node has a price. O(G), and O(pods + classes · G · R) if some group has none.
    """
    settings, groups = request.settings, request.snapshot.groups
    price = np.array([group.price_per_hour for group in groups], np.float64)
    may_grow: Bool = limits.reasons == 0
    if settings.names_expanders or not (may_grow & ~np.isnan(price)).any():
        return request
    unpriced = np.flatnonzero(may_grow & np.isnan(price))
    if len(unpriced) and _help(request, unpriced).any():
        return request
    return request._replace(settings=replace(settings, expanders=BY_PRICE))


def _help(request: ScaleUpRequest, groups: Int64) -> Bool:
    """Return which of groups : int64[M] have new nodes that some pod on no node fits by amounts and static predicates.
    bool[M]."""
    simulation, growth = request.round.simulation, request.growth
    state, template_node = simulation.state, growth.template_node[groups]
    classes = np.unique(state.pod_class[state.pod_node == NOWHERE])
    free = fresh_amounts(simulation, growth)[groups]
    helps = np.zeros(len(groups), np.bool_)
    for at in np.flatnonzero(template_node != NO_TEMPLATE_NODE).tolist():
        admitted = state.blocked[classes, state.node_class[template_node[at]]] == 0
        helps[at] = (admitted & (state.resources.request[classes] <= free[at]).all(axis=1)).any()
    return helps
