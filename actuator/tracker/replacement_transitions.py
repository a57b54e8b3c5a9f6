"""The only table of transitions of a replacement, and what the events of its roll-back change.

Decides which stages may follow a stage by an event; `trimtab.actuator.tracker.replacements` chooses among them. An
event that is in neither `WAVE_EDGES` nor `LATE_IN` is impossible.
"""

from typing import NamedTuple

from trimtab.actuator.tracker import events as e
from trimtab.actuator.tracker.deletion_steps import ImpossibleEventError
from trimtab.actuator.tracker.replacement_states import (
    FINAL_STAGES,
    NewNode,
    NewNodeState,
    SizeChange,
    TrackedReplacement,
    WaveStage,
)
from trimtab.actuator.tracker.states import Reason

_S = WaveStage
# Events that are harmless in a stage: a caller's, or of a task that saw an earlier one.
LATE_IN: dict[WaveStage, frozenset[type[e.Event]]] = {
    WaveStage.ROLLING_BACK: frozenset({e.ReplacementCancelled}),
}
_WAVE_TARGETS: dict[tuple[WaveStage, type[e.Event]], frozenset[WaveStage]] = {}
_UNFINISHED = (NewNodeState.TO_ORDER, NewNodeState.ORDERED, NewNodeState.SURPLUS)


class WaveEdge(NamedTuple):
    """In stage `source`, `event` may lead to `target`. `sentence` : when and why, for the documentation."""

    source: WaveStage
    event: type[e.Event]
    target: WaveStage
    sentence: str


WAVE_EDGES = (
    WaveEdge(_S.PLANNED, e.LeavingMarked, _S.ORDERING, "Few new pods come to the nodes that leave from now on."),
    WaveEdge(_S.PLANNED, e.LeavingMarked, _S.WAITING, "The wave has no new nodes."),
    WaveEdge(_S.PLANNED, e.ReplacementFailed, _S.ROLLING_BACK, "The soft taint was refused."),
    WaveEdge(_S.PLANNED, e.ReplacementCancelled, _S.ROLLING_BACK, "Nothing was ordered yet."),
    WaveEdge(_S.ORDERING, e.NodesOrdered, _S.ORDERING, "The order is recorded before the cloud is called."),
    WaveEdge(_S.ORDERING, e.GrowthAnswered, _S.WAITING, "The cloud has answered; nothing is to order."),
    WaveEdge(
        _S.ORDERING,
        e.GrowthAnswered,
        _S.ORDERING,
        "A group was refused, or had another size: an alternative, or the same group, is ordered.",
    ),
    WaveEdge(_S.ORDERING, e.OrdersMissed, _S.ORDERING, "A group has no room; an alternative is ordered."),
    WaveEdge(_S.ORDERING, e.OrdersMissed, _S.WAITING, "A group has no room, and nothing is to order."),
    WaveEdge(_S.ORDERING, e.ReplacementCancelled, _S.ROLLING_BACK, "Ordered nodes are given back."),
    WaveEdge(_S.WAITING, e.NewNodesReady, _S.WAITING, "Ordered nodes are ready."),
    WaveEdge(_S.WAITING, e.OrdersMissed, _S.ORDERING, "A group gives no node; an alternative is ordered."),
    WaveEdge(_S.WAITING, e.OrdersMissed, _S.WAITING, "A group gives no node, and no alternative is left."),
    WaveEdge(_S.WAITING, e.DrainsAllowed, _S.DRAINING, "The nodes that came save enough; the drains may begin."),
    WaveEdge(_S.WAITING, e.ReplacementFailed, _S.ROLLING_BACK, "The nodes that came save too little."),
    WaveEdge(_S.WAITING, e.ReplacementCancelled, _S.ROLLING_BACK, "No pod was evicted yet."),
    WaveEdge(_S.DRAINING, e.SetAccepted, _S.DRAINING, "Deletions begin, under the rules of all others."),
    WaveEdge(_S.DRAINING, e.LeavingStays, _S.DRAINING, "A node is not as the plan assumed: it stays."),
    WaveEdge(_S.DRAINING, e.ReplacementCancelled, _S.DRAINING, "Nodes whose deletion has not begun stay."),
    WaveEdge(_S.DRAINING, e.DrainsEnded, _S.ROLLING_BACK, "What was not needed is given back, if anything."),
    WaveEdge(_S.ROLLING_BACK, e.GrowthAnswered, _S.ROLLING_BACK, "An order was on its way."),
    WaveEdge(_S.ROLLING_BACK, e.LeavingUnmarked, _S.ROLLING_BACK, "The soft taints are removed."),
    WaveEdge(
        _S.ROLLING_BACK,
        e.LoweringBegun,
        _S.ROLLING_BACK,
        "The sizes are recorded before the cloud is called.",
    ),
    WaveEdge(_S.ROLLING_BACK, e.LoweringEnded, _S.ROLLING_BACK, "Nodes that have not started are given up."),
    WaveEdge(_S.ROLLING_BACK, e.NewNodesReady, _S.ROLLING_BACK, "A late node has come; it is given back."),
    WaveEdge(_S.ROLLING_BACK, e.OrdersLeft, _S.ROLLING_BACK, "A node has not come for too long."),
    WaveEdge(_S.ROLLING_BACK, e.SetAccepted, _S.ROLLING_BACK, "New nodes that serve nothing are deleted."),
    WaveEdge(_S.ROLLING_BACK, e.SurplusStays, _S.ROLLING_BACK, "A new node has got pods, or may not go."),
    WaveEdge(_S.ROLLING_BACK, e.ReplacementEnded, _S.DONE, "At least one node was replaced."),
    WaveEdge(_S.ROLLING_BACK, e.ReplacementEnded, _S.FAILED, "No node was replaced."),
    WaveEdge(_S.ROLLING_BACK, e.ReplacementEnded, _S.CANCELLED, "It was cancelled; no node was replaced."),
)


for _edge in WAVE_EDGES:
    _known = _WAVE_TARGETS.get((_edge.source, _edge.event), frozenset())
    _WAVE_TARGETS[_edge.source, _edge.event] = _known | {_edge.target}


def next_stages(stage: WaveStage, event: e.Event) -> frozenset[WaveStage]:
    """Return the stages that may follow; none = the event is late. Raises `ImpossibleEventError`."""
    targets = _WAVE_TARGETS.get((stage, type(event)))
    if targets is not None:
        return targets
    if type(event) in LATE_IN.get(stage, frozenset()):
        return frozenset()
    raise ImpossibleEventError(f"{type(event).__name__} cannot happen to a replacement that is {stage.name}")


def wave_table() -> str:
    """Return the table as text, one edge per line."""
    return "\n".join(
        f"{edge.source.name:13}{edge.event.__name__:21}{edge.target.name:13}{edge.sentence}" for edge in WAVE_EDGES
    )


def check_wave_table() -> None:
    """Raise AssertionError if the table contradicts itself."""
    edges = [(edge.source, edge.event, edge.target) for edge in WAVE_EDGES]
    assert len(set(edges)) == len(edges), "the same edge twice"
    assert not [edge for edge in WAVE_EDGES if edge.source in FINAL_STAGES], "an edge leaves a final stage"
    both = [(stage, event) for stage, events in LATE_IN.items() for event in events if (stage, event) in _WAVE_TARGETS]
    assert not both, f"both an edge and late: {both}"


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
