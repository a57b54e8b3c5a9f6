"""The expanders that decide if the settings name none: the least total price where it can be known, else upstream's."""

from dataclasses import replace

import numpy as np

from trimtab.planner.model.settings import ScaleUpSettings
from trimtab.planner.placement.group_bounds import fresh_amounts
from trimtab.planner.placement.limits import Limits
from trimtab.planner.simulation.build import Simulation
from trimtab.planner.simulation.growth import NO_TEMPLATE_NODE, Growth
from trimtab.planner.snapshot.columns import NO_NODE, Bool, Float64, Int64
from trimtab.v1.plan_pb2 import Expander

BY_PRICE = (int(Expander.CHEAPEST_PLAN), int(Expander.RANDOM))


def with_default_expanders(
    settings: ScaleUpSettings, price: Float64, limits: Limits, simulation: Simulation, growth: Growth
) -> ScaleUpSettings:
    """Return the settings with CHEAPEST_PLAN if they name no expanders, and every group that may grow and would help a
    pod on no node has a price. price : float64[G], NaN = unknown. O(G), and O(pods + classes · G · R) if some group has
    none.
    """
    may_grow: Bool = limits.reasons == 0
    if settings.names_expanders or not (may_grow & ~np.isnan(price)).any():
        return settings
    unpriced = np.flatnonzero(may_grow & np.isnan(price))
    if len(unpriced) and _help(simulation, growth, unpriced).any():
        return settings
    return replace(settings, expanders=BY_PRICE)


def _help(simulation: Simulation, growth: Growth, groups: Int64) -> Bool:
    """Return which of groups : int64[M] have new nodes that some pod on no node fits by amounts and static predicates.
    bool[M]."""
    state, template_node = simulation.state, growth.template_node[groups]
    classes = np.unique(state.pod_class[state.pod_node == NO_NODE])
    free = fresh_amounts(simulation, growth)[groups]
    helps = np.zeros(len(groups), np.bool_)
    for at in np.flatnonzero(template_node != NO_TEMPLATE_NODE).tolist():
        admitted = state.blocked[classes, state.node_class[template_node[at]]] == 0
        helps[at] = (admitted & (state.resources.request[classes] <= free[at]).all(axis=1)).any()
    return helps
