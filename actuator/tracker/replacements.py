"""The tracker's data of replacements: how events change them, and what is saved by the nodes that came.

Decides how a replacement continues: which group is ordered next, which nodes may leave, which new nodes serve nothing.
The work is done in steps by its stage (`trimtab.actuator.replacements`); deletions and growths that belong to it have
ids that begin with `WAVE`. Times are Unix milliseconds, prices those of one node for one hour.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from trimtab.actuator.tracker import events as e
from trimtab.actuator.tracker import instructions as i
from trimtab.actuator.tracker import replacement_transitions
from trimtab.actuator.tracker.groups import WAVE
from trimtab.actuator.tracker.replacement_states import (
    FINAL_STAGES,
    MOST_ORDERS,
    MOST_TRIES,
    LeavingNode,
    LeavingState,
    NewNode,
    NewNodeState,
    ReplacementReason,
    TrackedReplacement,
    WaveStage,
)
from trimtab.actuator.tracker.replacement_transitions import WAVE_TABLE, is_ordered, is_over
from trimtab.actuator.tracker.states import (
    Deletion,
    GrowthReason,
    GrowthRecord,
    Reason,
    State,
    TrackerData,
)
from trimtab.actuator.tracker.transitions import ImpossibleEventError

TOLERANCE = 1e-9
"""Differences of savings below this are those of adding floats."""


class Assessment(NamedTuple):
    """What would follow now: `leaving` : names of the nodes that may leave; `surplus` : names of the new nodes that
    serve none of them; `saving` : what is saved for one hour.
    """

    leaving: tuple[str, ...]
    surplus: tuple[str, ...]
    saving: float


def assess(replacement: TrackedReplacement, stays: Collection[str]) -> Assessment:
    """Return what would follow if the nodes `stays` stay: a node leaves if each new node that its pods need is ready.
    A new node that no node of the wave needs is for later waves: it is kept.
    """
    ready = {node.name for node in replacement.new_nodes if node.state is NewNodeState.READY}
    leaving = [
        one
        for one in replacement.leaving
        if one.state is not LeavingState.STAYS and one.plan.node not in stays and ready.issuperset(one.plan.needs)
    ]
    surplus = _surplus(replacement, leaving)
    kept = [node for node in replacement.new_nodes if node.name in ready and node.name not in surplus]
    saving = sum(one.plan.price for one in leaving) - sum(node.price for node in kept)
    return Assessment(tuple(one.plan.node for one in leaving), surplus, saving)


def participants(data: TrackerData) -> dict[str, str]:
    """Return the replacement in progress, by request id, of each node that takes part in it, by name."""
    return {
        node: replacement.request_id
        for replacement in data.replacements.values()
        for node in (
            *(one.plan.node for one in replacement.leaving),
            *(node.node for node in replacement.ordered_nodes if node.node),
        )
    }


def own_prefix(request_id: str) -> str:
    """Return the beginning of the ids of the deletions and growths of a replacement."""
    return f"{WAVE}{request_id}/"


def order_id(replacement: TrackedReplacement) -> str:
    """Return the id of the last order's growth."""
    return f"{own_prefix(replacement.request_id)}order/{replacement.order_count}"


def handle(data: TrackerData, event: e.ReplacementEvent, now_ms: int) -> list[i.Instruction]:
    """Apply an event of a replacement. Raises `ImpossibleEventError`, and changes nothing then."""
    if isinstance(event, e.ReplacementAccepted):
        return _accept(data, event, now_ms)
    replacement = data.replacements.get(event.request_id)
    if replacement is None:
        raise ImpossibleEventError(f"{type(event).__name__}: replacement {event.request_id} is not in progress")
    targets = WAVE_TABLE.following(replacement.stage, event)
    if not targets:
        return []
    if isinstance(event, e.NodesOrdered):
        return _order(data, replacement, event, now_ms)
    _check_possible(replacement, event)
    target = _apply(replacement, event)
    assert target in targets, f"{type(event).__name__} leads from {replacement.stage.name} to {target.name}"
    _move(data, replacement, target, now_ms)
    return []


def note_accepted(data: TrackerData, event: e.SetAccepted) -> None:
    """Note that deletions of a replacement begin. Raises `ImpossibleEventError` before anything is changed."""
    replacement = _owner(data, event.request_id)
    if replacement is None:
        return
    WAVE_TABLE.following(replacement.stage, event)
    if replacement.stage is WaveStage.DRAINING:
        possible = {one.plan.node for one in replacement.leaving if one.state is LeavingState.WAITS}
    else:
        possible = {node.node for node in replacement.ordered_nodes if node.state is NewNodeState.SURPLUS}
    wrong = [planned.node for planned in event.nodes if planned.node not in possible]
    if wrong:
        raise ImpossibleEventError(f"{', '.join(wrong)}: not to be deleted by {replacement.request_id} now")
    for planned in event.nodes:
        for one in replacement.leaving:
            if one.plan.node == planned.node:
                one.state, one.tries = LeavingState.IN_DELETION, one.tries + 1
    replacement.deletion_count += 1


def note_ended(data: TrackerData, deletion: Deletion) -> None:
    """Note that a deletion has ended, if it belongs to a replacement."""
    replacement = _owner(data, deletion.request_id)
    if replacement is None:
        return
    is_gone = deletion.state is State.DELETED
    for one in replacement.leaving:
        if one.plan.node == deletion.node and one.state is LeavingState.IN_DELETION:
            again = deletion.reason == Reason.SET_ROLLED_BACK and one.tries < MOST_TRIES
            one.state = LeavingState.GONE if is_gone else LeavingState.WAITS if again else LeavingState.STAYS
            one.reason, one.detail = (0, "") if is_gone or again else (deletion.reason, deletion.detail)
    for node in replacement.ordered_nodes:
        if node.node == deletion.node and node.state is NewNodeState.SURPLUS:
            node.state = NewNodeState.GIVEN_BACK if is_gone else NewNodeState.STAYS
            node.detail = "" if is_gone else deletion.detail


def note_answered(data: TrackerData, event: e.GrowthAnswered, now_ms: int) -> None:
    """Note the cloud's answer to an order of a replacement."""
    replacement = _owner(data, event.request_id)
    if replacement is None or not replacement.order_open or event.request_id != order_id(replacement):
        return
    targets = WAVE_TABLE.following(replacement.stage, event)
    replacement.order_open, replacement.ordered_ms = False, now_ms
    for answer in event.answers:
        if answer.accepted:
            continue
        names = replacement.order_names
        for node in [one for one in replacement.new_nodes if one.name in names and is_ordered(one, answer.node_group)]:
            if answer.reason == GrowthReason.SIZE_CHANGED and replacement.order_count < MOST_ORDERS:
                node.state = NewNodeState.TO_ORDER
            else:
                _next_group(replacement, node, answer.detail, was_ordered=False)
    if replacement.stage is WaveStage.ROLLING_BACK:
        _drop_orders(replacement)
        return
    target = _ordering_or_waiting(replacement)
    assert target in targets
    _move(data, replacement, target, now_ms)


def resume(data: TrackerData) -> list[i.Instruction]:
    """Return the instructions after a restart."""
    return [i.CarryOut(request_id) for request_id in sorted(data.replacements)]


def move_times(data: TrackerData, by_ms: int) -> None:
    """Shift all times of replacements."""
    for replacement in (*data.replacements.values(), *data.ended_replacements):
        replacement.start_ms += by_ms
        replacement.stage_ms += by_ms
        for name in ("ordered_ms", "deadline_ms"):
            if getattr(replacement, name):
                setattr(replacement, name, getattr(replacement, name) + by_ms)


def latest_ms(data: TrackerData) -> int:
    """Return the latest stored time of replacements that has passed; 0 = none."""
    return max((0, *(replacement.stage_ms for replacement in (*data.replacements.values(), *data.ended_replacements))))


def forget(data: TrackerData, before_ms: int) -> None:
    """Drop replacements that ended before a time."""
    while data.ended_replacements and data.ended_replacements[0].stage_ms < before_ms:
        data.ended_replacements.pop(0)


def _accept(data: TrackerData, event: e.ReplacementAccepted, now_ms: int) -> list[i.Instruction]:
    if data.replacements:
        raise ImpossibleEventError(f"replacement {event.request_id}: {', '.join(data.replacements)} is in progress")
    data.epoch = max(data.epoch, event.epoch)
    data.ended_replacements = [one for one in data.ended_replacements if one.request_id != event.request_id]
    data.replacements[event.request_id] = TrackedReplacement(
        request_id=event.request_id,
        digest=event.digest,
        start_ms=now_ms,
        stage_ms=now_ms,
        planned_saving=event.planned_saving,
        min_saving=event.min_saving,
        ready_timeout_s=event.ready_timeout_s,
        prices=dict(event.prices),
        new_nodes=[NewNode(one.name, one.node_group, one.price, one.alternatives) for one in event.new_nodes],
        leaving=[LeavingNode(one) for one in event.leaving],
    )
    return [i.CarryOut(event.request_id)]


def _order(
    data: TrackerData, replacement: TrackedReplacement, event: e.NodesOrdered, now_ms: int
) -> list[i.Instruction]:
    """Record a growth for the order, and instruct it."""
    named = {node.name: node for node in replacement.new_nodes}
    wrong = [name for name in event.names if name not in named or named[name].state is not NewNodeState.TO_ORDER]
    if wrong or replacement.order_open or not event.names:
        raise ImpossibleEventError(f"{replacement.request_id}: {', '.join(wrong) or 'nothing'} is to be ordered now")
    for name in event.names:
        named[name].state = NewNodeState.ORDERED
    for group, instances in event.members:
        replacement.members.setdefault(group, instances)
    replacement.order_count += 1
    replacement.order_names, replacement.order_open = event.names, True
    growth = order_id(replacement)
    data.growths[growth] = GrowthRecord(growth, replacement.digest, now_ms, event.growths)
    return [i.Grow(growth, event.growths, now_ms)]


def _check_possible(replacement: TrackedReplacement, event: e.ReplacementEvent) -> None:
    """Raise `ImpossibleEventError` if the data contradict an event."""
    match event:
        case e.DrainsAllowed(stays=stays):
            found = assess(replacement, {one.node for one in stays})
            is_enough = found.saving >= replacement.min_saving - TOLERANCE
            possible = bool(found.leaving) and is_enough and not _has(replacement, NewNodeState.ORDERED)
        case e.DrainsEnded():
            open_states = (LeavingState.WAITS, LeavingState.IN_DELETION)
            possible = not any(one.state in open_states for one in replacement.leaving)
        case e.ReplacementEnded():
            possible = is_over(replacement)
        case e.LoweringBegun(node_group=group):
            possible = group not in (*replacement.lowering, *replacement.lowered) and not replacement.order_open
        case e.LoweringEnded(node_group=group):
            possible = group not in replacement.lowered
        case _:
            possible = True
    if not possible:
        raise ImpossibleEventError(f"{type(event).__name__} contradicts replacement {replacement.request_id}")


def _apply(replacement: TrackedReplacement, event: e.ReplacementEvent) -> WaveStage:
    """Write the event's content into the replacement; return the next stage."""
    match event:
        case e.OrdersMissed():
            _miss(replacement, event)
            return _ordering_or_waiting(replacement)
        case e.LeavingMarked():
            return _ordering_or_waiting(replacement)
        case e.DrainsAllowed(stays=stays):
            _allow(replacement, stays)
            return WaveStage.DRAINING
        case e.DrainsEnded():
            _tidy(replacement)
            return WaveStage.ROLLING_BACK
        case e.ReplacementFailed(reason=reason, detail=detail, stays=stays):
            _keep_leaving(replacement, stays)
            _undo(replacement, reason, detail)
            return WaveStage.ROLLING_BACK
        case e.ReplacementCancelled(detail=detail):
            return _cancel(replacement, detail)
        case e.ReplacementEnded():
            return _end(replacement)
        case e.NewNodesReady(nodes=nodes):
            _note_ready(replacement, nodes)
        case e.LeavingStays(nodes=nodes):
            _keep_leaving(replacement, nodes)
            replacement.reason = replacement.reason or ReplacementReason.LEAVING_NODES_STAY
            replacement.detail = replacement.detail or "".join(f"{node.node}: {node.detail}" for node in nodes[:1])
        case _:
            replacement_transitions.apply(replacement, event)
    return replacement.stage


def _move(data: TrackerData, replacement: TrackedReplacement, target: WaveStage, now_ms: int) -> None:
    if target is replacement.stage:
        return
    if target is WaveStage.WAITING:
        replacement.deadline_ms = now_ms + int(replacement.ready_timeout_s * 1000)
    replacement.stage, replacement.stage_ms = target, now_ms
    if target in FINAL_STAGES:
        del data.replacements[replacement.request_id]
        replacement.members = {}
        data.ended_replacements.append(replacement)


def _ordering_or_waiting(replacement: TrackedReplacement) -> WaveStage:
    is_open = replacement.order_open or _has(replacement, NewNodeState.TO_ORDER)
    return WaveStage.ORDERING if is_open else WaveStage.WAITING


def _next_group(replacement: TrackedReplacement, node: NewNode, detail: str, was_ordered: bool) -> None:
    """Order a node from its next alternative, in place; without one it is missing. `was_ordered` : the cloud has
    accepted its order, so that it may still come.
    """
    if was_ordered:
        late = NewNode(node.name, node.node_group, node.price, (), state=NewNodeState.ORDERED, detail=detail)
        replacement.abandoned.append(late)
    node.failed, node.detail, node.node, node.provider_id = (*node.failed, node.node_group), detail, "", ""
    if node.alternatives and replacement.order_count < MOST_ORDERS:
        node.node_group, node.alternatives = node.alternatives[0], node.alternatives[1:]
        node.price = replacement.prices[node.node_group]
        node.state = NewNodeState.TO_ORDER
    else:
        node.state = NewNodeState.MISSING


def _miss(replacement: TrackedReplacement, event: e.OrdersMissed) -> None:
    for node in [new_node for new_node in replacement.new_nodes if new_node.name in event.names]:
        _next_group(replacement, node, event.detail, node.state is NewNodeState.ORDERED)


def _note_ready(replacement: TrackedReplacement, ready: Iterable[e.ReadyNode]) -> None:
    """Note ready nodes for the orders from their groups; in a roll-back they are to go again."""
    is_late = replacement.stage is WaveStage.ROLLING_BACK
    for entry in ready:
        waiting = [one for one in replacement.ordered_nodes if is_ordered(one, entry.node_group)]
        if waiting:
            waiting[0].state = NewNodeState.SURPLUS if is_late else NewNodeState.READY
            waiting[0].node, waiting[0].provider_id = entry.node, entry.provider_id


def _allow(replacement: TrackedReplacement, stays: Sequence[e.StayReason]) -> None:
    """Note which nodes leave, which new ones serve nothing, and what is saved."""
    found = assess(replacement, {one.node for one in stays})
    _keep_leaving(replacement, stays)
    ready = {node.name for node in replacement.new_nodes if node.state is NewNodeState.READY}
    for one in replacement.leaving:
        if one.state is LeavingState.WAITS and one.plan.node not in found.leaving:
            lacking = ", ".join(sorted(set(one.plan.needs) - ready))
            one.state, one.detail = LeavingState.STAYS, f"its pods have no place without {lacking}"
            replacement.reason, replacement.detail = (
                ReplacementReason.NEW_NODES_MISSING,
                f"{one.plan.node}: {one.detail}",
            )
    if stays:
        replacement.reason = ReplacementReason.LEAVING_NODES_STAY
        replacement.detail = f"{stays[0].node}: {stays[0].detail}"
    _mark_surplus(replacement, found.surplus)
    replacement.achieved = found.saving


def _tidy(replacement: TrackedReplacement) -> None:
    """Note which new nodes serve nothing, now that all drains have ended."""
    gone = [one for one in replacement.leaving if one.state is LeavingState.GONE]
    if not gone:
        _undo(replacement, ReplacementReason.LEAVING_NODES_STAY, "no node could be deleted")
        return
    _mark_surplus(replacement, _surplus(replacement, gone))
    replacement.achieved = _saved(replacement, (NewNodeState.READY, NewNodeState.STAYS))
    _drop_orders(replacement)


def _undo(replacement: TrackedReplacement, reason: int, detail: str) -> None:
    """Roll everything back: no node leaves, every new node is to go again. An earlier reason stays."""
    if replacement.reason == 0 or reason != ReplacementReason.LEAVING_NODES_STAY:
        replacement.reason, replacement.detail = reason, detail
    for one in replacement.leaving:
        if one.state is LeavingState.WAITS:
            one.state, one.detail = LeavingState.STAYS, detail
    _mark_surplus(replacement, [node.name for node in replacement.new_nodes])
    _drop_orders(replacement)
    replacement.achieved = None


def _cancel(replacement: TrackedReplacement, detail: str) -> WaveStage:
    if replacement.stage is not WaveStage.DRAINING:
        _undo(replacement, ReplacementReason.REPLACEMENT_CANCELLED, detail)
        return WaveStage.ROLLING_BACK
    for one in replacement.leaving:
        if one.state is LeavingState.WAITS:
            one.state, one.reason, one.detail = LeavingState.STAYS, Reason.CANCELLED, detail
    replacement.reason, replacement.detail = ReplacementReason.REPLACEMENT_CANCELLED, detail
    return WaveStage.DRAINING


def _end(replacement: TrackedReplacement) -> WaveStage:
    """Return the final stage."""
    if any(one.state is LeavingState.GONE for one in replacement.leaving):
        replacement.achieved = _saved(replacement, (NewNodeState.READY, NewNodeState.STAYS))
        return WaveStage.DONE
    is_cancelled = replacement.reason == ReplacementReason.REPLACEMENT_CANCELLED
    return WaveStage.CANCELLED if is_cancelled else WaveStage.FAILED


def _saved(replacement: TrackedReplacement, states: Collection[NewNodeState]) -> float:
    """Return the price of the nodes that are gone without that of the new nodes in these states."""
    gone = sum(one.plan.price for one in replacement.leaving if one.state is LeavingState.GONE)
    return gone - sum(node.price for node in replacement.ordered_nodes if node.state in states)


def _surplus(replacement: TrackedReplacement, leaving: Sequence[LeavingNode]) -> tuple[str, ...]:
    """Return the ready new nodes that serve none of these nodes, but others of the wave; all, if nothing leaves."""
    served = {name for one in leaving for name in one.plan.needs}
    wanted = {name for one in replacement.leaving for name in one.plan.needs}
    return tuple(
        node.name
        for node in replacement.new_nodes
        if node.state is NewNodeState.READY and node.name not in served and (node.name in wanted or not leaving)
    )


def _mark_surplus(replacement: TrackedReplacement, names: Collection[str]) -> None:
    for node in replacement.new_nodes:
        if node.name in names and node.state is NewNodeState.READY:
            node.state = NewNodeState.SURPLUS


def _drop_orders(replacement: TrackedReplacement) -> None:
    """Order nothing more; what was ordered is given up, or given back when it comes."""
    for node in replacement.new_nodes:
        if node.state is NewNodeState.TO_ORDER:
            node.state = NewNodeState.MISSING


def _keep_leaving(replacement: TrackedReplacement, stays: Iterable[e.StayReason]) -> None:
    reasons = {one.node: one for one in stays}
    for one in replacement.leaving:
        entry = reasons.get(one.plan.node)
        if entry is not None and one.state is LeavingState.WAITS:
            one.state, one.reason, one.detail = LeavingState.STAYS, entry.reason, entry.detail


def _has(replacement: TrackedReplacement, state: NewNodeState) -> bool:
    return any(node.state is state for node in replacement.new_nodes)


def _owner(data: TrackerData, request_id: str) -> TrackedReplacement | None:
    """Return the replacement in progress to which a growth or deletion belongs."""
    owners = (one for one in data.replacements.values() if request_id.startswith(own_prefix(one.request_id)))
    return next(owners, None)


def check(data: TrackerData) -> None:
    """Raise AssertionError if the data of replacements contradict themselves or those of deletions."""
    assert len(data.replacements) <= 1, "two replacements in progress"
    for request_id, replacement in data.replacements.items():
        assert replacement.request_id == request_id
        assert replacement.stage not in FINAL_STAGES, f"{request_id}: {replacement.stage.name} but in progress"
        _check_deletions(data, replacement)
    for replacement in data.ended_replacements:
        assert replacement.stage in FINAL_STAGES, f"{replacement.request_id}: {replacement.stage.name} but ended"
        assert is_over(replacement), f"{replacement.request_id}: ended with work left"
    for replacement in (*data.replacements.values(), *data.ended_replacements):
        _check_one(replacement)


def _check_deletions(data: TrackerData, replacement: TrackedReplacement) -> None:
    name, prefix = replacement.request_id, own_prefix(replacement.request_id)
    own = {node for node, deletion in data.deletions.items() if deletion.request_id.startswith(prefix)}
    leaving = {one.plan.node for one in replacement.leaving if one.state is LeavingState.IN_DELETION}
    surplus = {node.node for node in replacement.ordered_nodes if node.state is NewNodeState.SURPLUS}
    assert leaving <= own <= leaving | surplus, f"{name}: deletions {own}, but leaving {leaving}, surplus {surplus}"
    assert not leaving or replacement.stage is WaveStage.DRAINING, f"{name}: drains in {replacement.stage.name}"
    assert own <= leaving or replacement.stage is WaveStage.ROLLING_BACK, f"{name}: gives back too early"
    growth = data.growths.get(order_id(replacement))
    is_open = growth is not None and growth.answers is None
    assert replacement.order_open == is_open, f"{name}: its order is open, or its growth is"


def _check_one(replacement: TrackedReplacement) -> None:
    name, stage = replacement.request_id, replacement.stage
    states = {one.state for one in replacement.leaving}
    new = [node.state for node in replacement.ordered_nodes]
    assert stage is not WaveStage.WAITING or NewNodeState.TO_ORDER not in new, f"{name}: waits with nodes to order"
    if stage is WaveStage.DRAINING:
        assert replacement.achieved is not None, f"{name}: drains without a saving"
        assert replacement.achieved >= replacement.min_saving - TOLERANCE, f"{name}: drains for too little"
    if stage is WaveStage.ROLLING_BACK or stage in FINAL_STAGES:
        assert not states & {LeavingState.WAITS, LeavingState.IN_DELETION}, f"{name}: nodes still leave"
    if stage in FINAL_STAGES:
        assert (stage is WaveStage.DONE) == (LeavingState.GONE in states), f"{name}: {stage.name} with {states}"
    ready = [node.provider_id for node in replacement.ordered_nodes if node.state is NewNodeState.READY]
    assert all(ready), f"{name}: a ready node without provider id"
    assert len(set(ready)) == len(ready), f"{name}: a node serves twice"
    assert LeavingState.GONE not in states or stage in (WaveStage.DRAINING, WaveStage.ROLLING_BACK, WaveStage.DONE)
