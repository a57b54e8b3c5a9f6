"""Unneeded nodes that do not go yet because slack would lack: new nodes are on their way for it, or others have to go
as well.

While slack is built up, a placeholder without room is counted on a new node. To take away a node like it in the same
moment would replace one by the other and evict pods for that. So nothing goes that could hold such a placeholder; what
is unneeded stays so, and its time runs on. A placeholder for which no new node comes (its node group is at its maximum,
a limit is reached) holds nothing back: it would do so for ever.

Slack is a share of the nodes that are there. A node that can go because less is asked for once all of the plan have
gone does not go with a few of them alone, while so much is still asked for that there is no room for it.
"""

import numpy as np

from planner.scale_down.context import Context
from planner.scale_down.search.fewer_placeholders import Besides
from planner.snapshot.columns import Bool, Int32


def awaited_by_slack(context: Context, nodes: Int32) -> Bool:
    """Return which of the unneeded nodes : int32[U], their pods moved, could hold a placeholder that is on a new node.

    bool[U]. Of a placeholder amounts and static predicates are asked. O(placeholders + kinds · U · R).
    """
    held = np.zeros(len(nodes), np.bool_)
    count = len(context.request.round.placeholders)
    if not count:
        return held
    simulation = context.request.round.simulation
    state = simulation.state
    waiting = state.pod_node[-count:] >= simulation.node_count
    for kind in np.unique(state.pod_class[-count:][waiting]).tolist():
        enough = (state.resources.free[nodes] >= state.resources.need[kind]).all(axis=1)
        held |= enough & (state.blocked[kind, state.node_class[nodes]] == 0)
    return held


def leaves_too_little(context: Context, going: Int32, besides: Besides) -> bool:
    """Say whether slack asks for more when `going` : int32 have gone than the whole plan leaves room for.

    Only where one of them goes because slack asks for less without all of the plan. O(N).
    """
    if not np.isin(going, besides.nodes).any():
        return False
    room = context.request.round.room
    return bool((np.diff(room.bounds) - besides.dropped < room.without(going)).any())
