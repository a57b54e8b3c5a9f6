"""The roll-back of a replacement, in the tracker's data: ordered nodes that have not started are given up, new nodes
that serve nothing go again. Decides when it is over.
"""

from trimtab.actuator.tracker import events as e
from trimtab.actuator.tracker.replacement_states import NewNode, NewNodeState, SizeChange, TrackedReplacement
from trimtab.actuator.tracker.states import Reason

_UNFINISHED = (NewNodeState.TO_ORDER, NewNodeState.ORDERED, NewNodeState.SURPLUS)


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
