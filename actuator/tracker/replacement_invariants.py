"""What must hold of the data of replacements at any time. Decides nothing."""

from trimtab.actuator.tracker.replacement_rollback import is_over
from trimtab.actuator.tracker.replacement_states import (
    FINAL_STAGES,
    LeavingState,
    NewNodeState,
    TrackedReplacement,
    WaveStage,
)
from trimtab.actuator.tracker.replacements import TOLERANCE, order_id, own_prefix
from trimtab.actuator.tracker.states import TrackerData


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
