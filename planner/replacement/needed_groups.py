"""The node groups of which a plan may need new nodes: those for which no other group is at least as good. Pure."""

import numpy as np

from trimtab.planner.cheapest.dominance import alike, undominated
from trimtab.planner.placement.group_bounds import fresh_amounts
from trimtab.planner.placement.packing import Packer
from trimtab.planner.predicates import counters
from trimtab.planner.replacement.survey import ReplacementContext
from trimtab.planner.simulation.growth import NO_TEMPLATE_NODE
from trimtab.planner.snapshot.columns import Bool, Int64


def needed_groups(context: ReplacementContext, packed: Packer) -> Bool:
    """Return the groups that may grow without those for which another admits the same pods, has no less of anything,
    costs no more, and may grow by as many nodes as a plan has. bool[G]. Groups whose nodes differ for pods that depend
    on where others are, such as those of two zones, are kept beside each other.
    """
    simulation, growth = packed.simulation, packed.growth
    found: Bool = context.usable & (growth.template_node != NO_TEMPLATE_NODE)
    groups = np.flatnonzero(found)
    moving = context.pods.of(context.candidates)
    none, settings = np.zeros(len(found), np.int64), context.request.settings
    limits = context.limits.after(none, none, settings.max_waves)
    may_add = limits.may_add[groups]
    most = min(settings.max_surge_nodes * settings.max_waves, len(moving), limits.nodes_left)
    capacity = np.maximum(fresh_amounts(simulation, growth)[groups], 0)
    kind = _kinds(packed, groups, np.unique(simulation.state.pod_class[moving]))
    found[groups] = False
    found[groups[undominated(context.group_price[groups], capacity, kind, may_add >= most)]] = True
    return found


def _kinds(packed: Packer, groups: Int64, classes: Int64) -> Int64:
    """Return a number for each group, the same for those whose new nodes admit the same pods. int64[len(groups)]."""
    state, nodes = packed.simulation.state, packed.growth.template_node[groups]
    known, of = np.unique(state.node_class[nodes], return_inverse=True)
    blocked = alike(state.blocked[classes][:, known].T != 0)[of.reshape(-1)]
    columns = [blocked, _residents(packed, nodes), *counters.own_limits(state.counters, nodes)]
    if not state.local_class[classes].all():
        columns += counters.shared_domains(state.counters, nodes)
    if not len(groups):
        return groups
    as_bytes = [np.ascontiguousarray(one).reshape(len(groups), -1).view(np.uint8) for one in columns if one.size]
    return alike(np.concatenate(as_bytes, axis=1))


def _residents(packed: Packer, nodes: Int64) -> Int64:
    """Return a number for each node, the same for those with the same DaemonSet pods. int64[len(nodes)]."""
    virtual, numbers = packed.simulation.state.virtual, dict[bytes, int]()
    offsets = virtual.resident_offsets
    return np.array(
        [
            numbers.setdefault(np.sort(virtual.resident[offsets[node] : offsets[node + 1]]).tobytes(), len(numbers))
            for node in nodes.tolist()
        ],
        np.int64,
    )
