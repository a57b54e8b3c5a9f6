"""Unneeded nodes that do not go yet because slack would lack room: new nodes are coming for it, or other nodes have to
go first. While slack is built up, a placeholder without room is counted on a new node. Removing a similar node at the
same time would only replace one by the other and evict pods. So no node goes that could hold such a placeholder;
unneeded nodes stay unneeded and their timers continue. A placeholder for which no new node comes (its node group is at
its maximum, a limit is reached) keeps no node, as it would do so forever. Slack is a share of the existing nodes. A
node that can go because slack requests less after the whole plan does not go with only a few of the plan's nodes, while
there is too little room for what slack still requests.
"""

import numpy as np

from trimtab.planner.scale_down.context import ScaleDownContext
from trimtab.planner.scale_down.search.fewer_placeholders import SlackDependentNodes
from trimtab.planner.snapshot.columns import Bool, Int32


def awaited_by_slack(context: ScaleDownContext, nodes: Int32) -> Bool:
    """Return which of the unneeded nodes : int32[U], their pods moved, could hold a placeholder that is on a new node.

    bool[U]. For a placeholder, only amounts and static predicates are checked. O(placeholders + kinds · U · R).
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


def leaves_too_little(context: ScaleDownContext, going: Int32, slack_dependent: SlackDependentNodes) -> bool:
    """Return whether slack, once `going` : int32 are gone, requests more than the whole plan leaves room for.

    Only checked if one of them goes because slack requests less without the whole plan. O(N).
    """
    if not np.isin(going, slack_dependent.nodes).any():
        return False
    room = context.request.round.room
    return bool((np.diff(room.bounds) - slack_dependent.dropped < room.demand.without(going)).any())
