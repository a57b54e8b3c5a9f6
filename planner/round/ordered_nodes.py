"""Nodes that were ordered from the cloud and may be of no use: those that came since the order, on which no pod is and
none is planned."""

import numpy as np

from trimtab.planner.model.settings import SECOND_NS
from trimtab.planner.round.round import Round
from trimtab.planner.simulation.state import SimulationState
from trimtab.planner.snapshot.columns import FLAG_DAEMON, FLAG_MIRROR, Bool, Int64, Snapshot


def nodes_in_use(this: Round, state: SimulationState, leaving: Bool) -> Bool:
    """Return which nodes have pods other than those that belong to each node, or are being deleted. bool[N']. leaving :
    bool[N]."""
    pods = this.snapshot.pods
    counts = np.zeros(len(state.pod_node), bool)
    counts[: len(pods.flags)] = ((pods.flags & (FLAG_DAEMON | FLAG_MIRROR)) == 0) & ~pods.is_terminal()
    counts[len(pods.flags) : len(pods.flags) + len(this.evictions) + len(this.placeholders)] = True
    at = state.pod_node[counts]
    found = np.zeros(len(state.node_state), bool)
    found[: len(leaving)] = leaving
    found[at[at >= 0]] = True
    return found


def unused_since(snapshot: Snapshot, group: int, since_s: int, in_use: Bool) -> Int64:
    """Return the nodes of a group that were created since a time, Unix seconds, and are not in use : bool[N'],
    ascending."""
    nodes = snapshot.nodes
    since = (nodes.group == group) & (nodes.created_ns >= since_s * SECOND_NS)
    return np.flatnonzero(since & ~in_use[: len(nodes.name)])
