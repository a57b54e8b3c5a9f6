"""The only table of transitions of a replacement, and what the events of its roll-back change.

Decides which stages may follow a stage by an event; `trimtab.actuator.tracker.replacements` chooses among them.
"""

from typing import Final

from trimtab.actuator.tracker import events as e
from trimtab.actuator.tracker.replacement_states import (
    NewNode,
    NewNodeState,
    SizeChange,
    TrackedReplacement,
    WaveStage,
)
from trimtab.actuator.tracker.states import Reason
from trimtab.actuator.tracker.transitions import Edge, TransitionTable

_S = WaveStage
LATE_IN: dict[WaveStage, frozenset[type[e.Event]]] = {
    WaveStage.ROLLING_BACK: frozenset({e.ReplacementCancelled}),
}
_UNFINISHED = (NewNodeState.TO_ORDER, NewNodeState.ORDERED, NewNodeState.SURPLUS)


WAVE_EDGES: Final[tuple[Edge[WaveStage], ...]] = (
    Edge(_S.PLANNED, e.LeavingMarked, _S.ORDERING, "Few new pods come to the nodes that leave from now on."),
    Edge(_S.PLANNED, e.LeavingMarked, _S.WAITING, "The wave has no new nodes."),
    Edge(_S.PLANNED, e.ReplacementFailed, _S.ROLLING_BACK, "The soft taint was refused."),
    Edge(_S.PLANNED, e.ReplacementCancelled, _S.ROLLING_BACK, "Nothing was ordered yet."),
    Edge(_S.ORDERING, e.NodesOrdered, _S.ORDERING, "The order is recorded before the cloud is called."),
    Edge(_S.ORDERING, e.GrowthAnswered, _S.WAITING, "The cloud has answered; no node needs to be ordered."),
    Edge(
        _S.ORDERING,
        e.GrowthAnswered,
        _S.ORDERING,
        "A group was refused, or had another size: an alternative, or the same group, is ordered.",
    ),
    Edge(_S.ORDERING, e.OrdersMissed, _S.ORDERING, "A group has no room; an alternative is ordered."),
    Edge(_S.ORDERING, e.OrdersMissed, _S.WAITING, "A group has no room, and no node needs to be ordered."),
    Edge(_S.ORDERING, e.ReplacementCancelled, _S.ROLLING_BACK, "Ordered nodes are given back."),
    Edge(_S.WAITING, e.NewNodesReady, _S.WAITING, "Ordered nodes are ready."),
    Edge(_S.WAITING, e.OrdersMissed, _S.ORDERING, "A group gives no node; an alternative is ordered."),
    Edge(_S.WAITING, e.OrdersMissed, _S.WAITING, "A group gives no node, and no alternative is left."),
    Edge(_S.WAITING, e.DrainsAllowed, _S.DRAINING, "The nodes that came save enough; the drains may begin."),
    Edge(_S.WAITING, e.ReplacementFailed, _S.ROLLING_BACK, "The nodes that came save too little."),
    Edge(_S.WAITING, e.ReplacementCancelled, _S.ROLLING_BACK, "No pod was evicted yet."),
    Edge(_S.DRAINING, e.SetAccepted, _S.DRAINING, "Deletions begin, under the rules of all others."),
    Edge(_S.DRAINING, e.LeavingStays, _S.DRAINING, "A node is not as the plan assumed: it stays."),
    Edge(_S.DRAINING, e.ReplacementCancelled, _S.DRAINING, "Nodes whose deletion has not begun stay."),
    Edge(_S.DRAINING, e.DrainsEnded, _S.ROLLING_BACK, "What was not needed is given back, if anything."),
    Edge(_S.ROLLING_BACK, e.GrowthAnswered, _S.ROLLING_BACK, "An order was on its way."),
    Edge(_S.ROLLING_BACK, e.LeavingUnmarked, _S.ROLLING_BACK, "The soft taints are removed."),
    Edge(
        _S.ROLLING_BACK,
        e.LoweringBegun,
        _S.ROLLING_BACK,
        "The sizes are recorded before the cloud is called.",
    ),
    Edge(_S.ROLLING_BACK, e.LoweringEnded, _S.ROLLING_BACK, "Nodes that have not started are given up."),
    Edge(_S.ROLLING_BACK, e.NewNodesReady, _S.ROLLING_BACK, "A late node has come; it is given back."),
    Edge(_S.ROLLING_BACK, e.OrdersLeft, _S.ROLLING_BACK, "A node has not come for too long."),
    Edge(_S.ROLLING_BACK, e.SetAccepted, _S.ROLLING_BACK, "New nodes that serve nothing are deleted."),
    Edge(_S.ROLLING_BACK, e.SurplusStays, _S.ROLLING_BACK, "A new node has got pods, or may not go."),
    Edge(_S.ROLLING_BACK, e.ReplacementEnded, _S.DONE, "At least one node was replaced."),
    Edge(_S.ROLLING_BACK, e.ReplacementEnded, _S.FAILED, "No node was replaced."),
    Edge(_S.ROLLING_BACK, e.ReplacementEnded, _S.CANCELLED, "It was cancelled; no node was replaced."),
)


WAVE_TABLE: Final = TransitionTable("a replacement", WAVE_EDGES, LATE_IN)


def is_over(replacement: TrackedReplacement) -> bool:
    """Return whether a roll-back has nothing left to do."""
    has_unfinished = any(node.state in _UNFINISHED for node in replacement.ordered_nodes)
    return replacement.unmarked and not replacement.order_open and not replacement.lowering and not has_unfinished


def is_ordered(node: NewNode, group: str) -> bool:
    """Return whether a node was ordered from a group and has neither come nor been given up."""
    return node.node_group == group and node.state is NewNodeState.ORDERED


def apply(replacement: TrackedReplacement, event: e.ReplacementEvent) -> None:
    """Write an event of the roll-back into the replacement."""
    match event:
        case e.LeavingUnmarked():
            replacement.unmarked = True
        case e.LoweringBegun(node_group=group, expected=expected, wanted=wanted):
            replacement.lowering[group] = SizeChange(expected, wanted)
        case e.LoweringEnded(node_group=group, given_up_count=count, detail=detail):
            replacement.lowering.pop(group, None)
            replacement.lowered = (*replacement.lowered, group)
            _give_up([node for node in replacement.ordered_nodes if is_ordered(node, group)][:count], detail)
        case e.OrdersLeft(detail=detail):
            _give_up([node for node in replacement.ordered_nodes if node.state is NewNodeState.ORDERED], detail)
        case e.SurplusStays(nodes=nodes):
            entries = {entry.node: entry for entry in nodes}
            for node in replacement.ordered_nodes:
                if node.node in entries and node.state is NewNodeState.SURPLUS:
                    _keep(node, entries[node.node])
        case _:
            raise AssertionError(f"{type(event).__name__} is not an event of a roll-back")


def _give_up(nodes: list[NewNode], detail: str) -> None:
    for node in nodes:
        node.state, node.detail = NewNodeState.MISSING, detail or node.detail


def _keep(node: NewNode, entry: e.StayReason) -> None:
    node.state = NewNodeState.GIVEN_BACK if entry.reason == Reason.NODE_NOT_FOUND else NewNodeState.STAYS
    node.detail = entry.detail
