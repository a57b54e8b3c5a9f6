"""The table of a replacement's transitions, and the tracker that follows it."""

import itertools
from collections.abc import Sequence

import pytest

from trimtab.actuator.tracker import events as e
from trimtab.actuator.tracker import instructions as i
from trimtab.actuator.tracker.admission import (
    AdmissionFacts,
    DecisionTime,
    DeletionLimits,
    GroupSizeFacts,
    NodeFacts,
    NodeRequest,
    admit,
)
from trimtab.actuator.tracker.replacement_states import (
    FINAL_STAGES,
    DepartingNode,
    LeavingState,
    NewNodeState,
    ReplacementReason,
    TrackedReplacement,
    WantedNode,
    WaveStage,
)
from trimtab.actuator.tracker.replacement_transitions import (
    LATE_IN,
    WAVE_EDGES,
    WAVE_TABLE,
)
from trimtab.actuator.tracker.replacements import order_id
from trimtab.actuator.tracker.states import GroupGrowth, GrowthAnswer, GrowthReason, NodeAnswer, Reason
from trimtab.actuator.tracker.tracker import Tracker
from trimtab.actuator.tracker.transitions import ImpossibleEventError

R = "w1"
STAYS = e.StayReason("a", Reason.NODE_CHANGED, "other pods")


def accepted(request_id: str = R, min_saving: float = 0.0, alternatives: tuple[str, ...] = ()) -> e.ReplacementAccepted:
    """Two large nodes at 4 leave for two small ones at 1; "a" needs the first, "b" both."""
    new = tuple(WantedNode(f"s#{number}", "s", 1.0, alternatives) for number in range(2))
    leaving = (
        DepartingNode("a", "l", 4.0, True, needs=("s#0",)),
        DepartingNode("b", "l", 4.0, True, needs=("s#0", "s#1")),
    )
    prices = (("s", 1.0), ("t", 3.0), ("dear", 5.0))
    return e.ReplacementAccepted(request_id, "digest", new, leaving, 6.0, min_saving, 60.0, prices, 3)


def ordered(*names: str, group: str = "s") -> e.NodesOrdered:
    return e.NodesOrdered(R, names, (GroupGrowth(group, 0, len(names)),), ((group, ()),))


def answered(number: int = 1, group: str = "s", reason: int = 0) -> e.GrowthAnswered:
    return e.GrowthAnswered(f"wave/{R}/order/{number}", (GrowthAnswer(group, not reason, "no room", reason),))


def ready(*nodes: str, group: str = "s") -> e.NewNodesReady:
    return e.NewNodesReady(R, tuple(e.ReadyNode(group, node, f"cloud://{node}") for node in nodes))


def deletions(*nodes: str, kind: str = "drain", number: int = 1) -> e.SetAccepted:
    planned = tuple(e.PlannedNode(node, "l", kind == "drain") for node in nodes)
    answers = tuple(NodeAnswer(node, True) for node in nodes)
    return e.SetAccepted(f"wave/{R}/{kind}/{number}", "digest", planned, answers, 600.0)


def deleted(*nodes: str, kind: str = "drain", number: int = 1) -> list[e.Event]:
    """Return the events of deletions that succeed, from their taints on."""
    found: list[e.Event] = [e.SetTainted(f"wave/{R}/{kind}/{number}")]
    for node in nodes:
        steps = [e.DrainStarted(node, ()), e.Drained(node)] if kind == "drain" else [e.NodeEmpty(node)]
        found += [*steps, e.DeleteBegun(node), e.InstanceGone(node)]
    return found


def after(*events: e.Event, begin: e.ReplacementAccepted | None = None) -> Tracker:
    """Return a tracker after a replacement was accepted, and these events, one each second; check it after each."""
    tracker = Tracker()
    for number, event in enumerate((begin or accepted(), *events)):
        tracker.handle(event, 1_000 * (number + 1))
        tracker.check_invariants()
        assert Tracker.load(tracker.dump()).dump() == tracker.dump()
    return tracker


def the_one(tracker: Tracker) -> TrackedReplacement:
    return (*tracker.data.replacements.values(), *tracker.data.ended_replacements)[-1]


def states(tracker: Tracker) -> tuple[list[str], list[str]]:
    """Return the states of the new nodes and of those that leave."""
    one = the_one(tracker)
    return [node.state.name for node in one.ordered_nodes], [node.state.name for node in one.leaving]


WAITING = (e.LeavingMarked(R), ordered("s#0", "s#1"), answered())
DRAINING = (*WAITING, ready("n0", "n1"), e.DrainsAllowed(R, ()))
PATHS: dict[WaveStage, Sequence[e.Event]] = {
    WaveStage.PLANNED: (),
    WaveStage.ORDERING: (e.LeavingMarked(R),),
    WaveStage.WAITING: WAITING,
    WaveStage.DRAINING: DRAINING,
    WaveStage.ROLLING_BACK: (e.ReplacementCancelled(R, ""),),
}
KINDS = sorted({edge.event for edge in WAVE_EDGES}, key=lambda kind: kind.__name__)


def test_the_table_does_not_contradict_itself() -> None:
    edges = [edge[:3] for edge in WAVE_EDGES]
    assert len(set(edges)) == len(edges)
    assert not {edge.source for edge in WAVE_EDGES} & FINAL_STAGES
    both = {(source, event) for source, events in LATE_IN.items() for event in events}
    assert not both & {edge[:2] for edge in WAVE_EDGES}


def test_every_edge_has_a_sentence() -> None:
    for edge in WAVE_EDGES:
        assert edge.sentence.endswith("."), edge


@pytest.mark.parametrize("stage", PATHS)
def test_the_shortest_way_into_each_stage(stage: WaveStage) -> None:
    assert the_one(after(*PATHS[stage])).stage is stage


@pytest.mark.parametrize(("stage", "kind"), list(itertools.product(WaveStage, KINDS)))
def test_an_event_that_the_table_does_not_have_is_impossible(stage: WaveStage, kind: type[e.Event]) -> None:
    event = next(one for one in EXAMPLES if type(one) is kind)
    known = {(edge.source, edge.event) for edge in WAVE_EDGES}
    if (stage, kind) in known:
        assert WAVE_TABLE.following(stage, event) == {edge.target for edge in WAVE_EDGES if edge[:2] == (stage, kind)}
    elif kind in LATE_IN.get(stage, frozenset()):
        assert not WAVE_TABLE.following(stage, event)
    else:
        with pytest.raises(ImpossibleEventError, match=kind.__name__):
            WAVE_TABLE.following(stage, event)


EXAMPLES: tuple[e.Event, ...] = (
    e.LeavingMarked(R),
    ordered("s#0"),
    answered(),
    ready("n0"),
    e.OrdersMissed(R, ("s#0",), ""),
    e.DrainsAllowed(R, ()),
    deletions("a"),
    e.LeavingStays(R, (STAYS,)),
    e.DrainsEnded(R),
    e.ReplacementFailed(R, ReplacementReason.SAVING_NOT_ACHIEVED, ""),
    e.ReplacementCancelled(R, ""),
    e.LeavingUnmarked(R),
    e.LoweringBegun(R, "s", 2, 0),
    e.LoweringEnded(R, "s", 2, ""),
    e.SurplusStays(R, (STAYS,)),
    e.OrdersLeft(R, ""),
    e.ReplacementEnded(R),
)


@pytest.mark.parametrize(("stage", "event"), list(itertools.product(PATHS, EXAMPLES)))
def test_an_event_is_handled_or_changes_nothing(stage: WaveStage, event: e.Event) -> None:
    tracker = after(*PATHS[stage])
    before = tracker.dump()
    try:
        tracker.handle(event, 99_000)
    except ImpossibleEventError:
        assert tracker.dump() == before
    tracker.check_invariants()


def test_nothing_leaves_a_final_stage() -> None:
    for stage, event in itertools.product(FINAL_STAGES, EXAMPLES):
        with pytest.raises(ImpossibleEventError):
            WAVE_TABLE.following(stage, event)


def test_nodes_are_marked_ordered_awaited_drained_and_then_it_is_done() -> None:
    tracker = after(*DRAINING, deletions("a", "b"), *deleted("a", "b"), e.DrainsEnded(R), e.LeavingUnmarked(R))
    assert states(tracker) == (["READY", "READY"], ["GONE", "GONE"])
    tracker.handle(e.ReplacementEnded(R), 99_000)
    one = the_one(tracker)
    assert (one.stage, one.achieved, one.reason) == (WaveStage.DONE, 6.0, 0)
    assert not tracker.data.replacements
    tracker.check_invariants()


def test_the_order_is_recorded_as_a_growth_before_the_cloud_is_asked() -> None:
    tracker = after(e.LeavingMarked(R))
    assert tracker.handle(ordered("s#0", "s#1"), 5_000) == [i.Grow("wave/w1/order/1", (GroupGrowth("s", 0, 2),), 5_000)]
    assert order_id(the_one(tracker)) == "wave/w1/order/1"
    assert i.Grow("wave/w1/order/1", (GroupGrowth("s", 0, 2),), 5_000) in tracker.resume()
    assert tracker.resume()[-1] == i.CarryOut(R)
    tracker.check_invariants()


def test_a_second_replacement_at_the_same_time_is_impossible() -> None:
    tracker = after()
    with pytest.raises(ImpossibleEventError, match="w1 is in progress"):
        tracker.handle(accepted("w2"), 2_000)


def test_a_group_that_the_cloud_refuses_is_followed_by_an_alternative_and_its_price() -> None:
    begin = accepted(alternatives=("t",))
    refused = answered(reason=GrowthReason.REFUSED)
    tracker = after(e.LeavingMarked(R), ordered("s#0", "s#1"), refused, begin=begin)
    one = the_one(tracker)
    assert one.stage is WaveStage.ORDERING
    assert [(node.node_group, node.price, node.failed) for node in one.new_nodes] == [("t", 3.0, ("s",))] * 2
    events = (ordered("s#0", "s#1", group="t"), answered(2, "t"), ready("n0", "n1", group="t"), e.DrainsAllowed(R, ()))
    for event in events:
        tracker.handle(event, 9_000)
        tracker.check_invariants()
    assert (one.stage, one.achieved) == (WaveStage.DRAINING, 2.0)


def test_a_refused_order_leaves_nodes_ordered_from_the_same_group_before_alone() -> None:
    new = (WantedNode("s#0", "s", 1.0), WantedNode("t#0", "t", 1.0, ("s",)))
    leaving = (DepartingNode("a", "l", 4.0, True, needs=("s#0", "t#0")),)
    begin = e.ReplacementAccepted(R, "digest", new, leaving, 2.0, 0.0, 60.0, (("s", 1.0), ("t", 1.0)))
    growths = (GroupGrowth("s", 0, 1), GroupGrowth("t", 0, 1))
    both = e.NodesOrdered(R, ("s#0", "t#0"), growths, (("s", ()), ("t", ())))
    refused = GrowthAnswer("t", False, "no room", GrowthReason.REFUSED)
    answers = e.GrowthAnswered(f"wave/{R}/order/1", (GrowthAnswer("s", True), refused))
    again = e.NodesOrdered(R, ("t#0",), (GroupGrowth("s", 1, 2),), (("s", ()),))
    tracker = after(e.LeavingMarked(R), both, answers, again, answered(2, reason=GrowthReason.REFUSED), begin=begin)
    assert states(tracker)[0] == ["ORDERED", "MISSING"]


def test_a_group_with_another_size_than_expected_is_ordered_from_again() -> None:
    tracker = after(e.LeavingMarked(R), ordered("s#0", "s#1"), answered(reason=GrowthReason.SIZE_CHANGED))
    assert the_one(tracker).stage is WaveStage.ORDERING
    assert states(tracker)[0] == ["TO_ORDER", "TO_ORDER"]


def test_drains_are_impossible_if_too_little_is_saved() -> None:
    tracker = after(*WAITING, ready("n0", "n1"), begin=accepted(min_saving=6.5))
    with pytest.raises(ImpossibleEventError, match="DrainsAllowed contradicts"):
        tracker.handle(e.DrainsAllowed(R, ()), 9_000)


def test_drains_are_impossible_while_a_node_is_awaited() -> None:
    tracker = after(*WAITING, ready("n0"))
    with pytest.raises(ImpossibleEventError, match="DrainsAllowed contradicts"):
        tracker.handle(e.DrainsAllowed(R, ()), 9_000)


def test_a_node_whose_pods_need_a_node_that_did_not_come_stays() -> None:
    missed = e.OrdersMissed(R, ("s#1",), "none in stock")
    tracker = after(*WAITING, ready("n0"), missed, e.DrainsAllowed(R, ()))
    assert states(tracker) == (["READY", "MISSING", "ORDERED"], ["WAITS", "STAYS"])
    one = the_one(tracker)
    assert (one.achieved, one.reason) == (3.0, ReplacementReason.NEW_NODES_MISSING)
    assert "s#1" in one.detail


def test_a_new_node_that_no_node_leaves_for_is_given_back_in_the_end() -> None:
    stays = e.StayReason("b", Reason.NODE_CHANGED, "other pods")
    tracker = after(*WAITING, ready("n0", "n1"), e.DrainsAllowed(R, (stays,)))
    assert states(tracker) == (["READY", "SURPLUS"], ["WAITS", "STAYS"])
    assert the_one(tracker).achieved == 3.0
    rest = [deletions("a"), *deleted("a"), e.DrainsEnded(R), e.LeavingUnmarked(R)]
    rest += [deletions("n1", kind="back", number=2), *deleted("n1", kind="back", number=2), e.ReplacementEnded(R)]
    for event in rest:
        tracker.handle(event, 9_000)
        tracker.check_invariants()
    assert states(tracker) == (["READY", "GIVEN_BACK"], ["GONE", "STAYS"])
    assert the_one(tracker).stage is WaveStage.DONE


def test_a_roll_back_ends_only_when_nothing_is_left() -> None:
    tracker = after(*WAITING, ready("n0"), e.ReplacementCancelled(R, "an operator"))
    assert states(tracker) == (["SURPLUS", "ORDERED"], ["STAYS", "STAYS"])
    rest: list[e.Event] = [
        e.LeavingUnmarked(R),
        e.LoweringBegun(R, "s", 2, 1),
        e.LoweringEnded(R, "s", 1, "given up"),
        e.SurplusStays(R, (e.StayReason("n0", Reason.NODE_CHANGED, "a pod has come"),)),
    ]
    for event in rest:
        with pytest.raises(ImpossibleEventError):
            tracker.handle(e.ReplacementEnded(R), 9_000)
        tracker.handle(event, 9_000)
        tracker.check_invariants()
    tracker.handle(e.ReplacementEnded(R), 9_000)
    assert states(tracker) == (["STAYS", "MISSING"], ["STAYS", "STAYS"])
    assert (the_one(tracker).stage, the_one(tracker).achieved) == (WaveStage.CANCELLED, None)


def test_an_order_on_its_way_is_awaited_by_the_roll_back() -> None:
    tracker = after(e.LeavingMarked(R), ordered("s#0", "s#1"), e.ReplacementCancelled(R, ""), e.LeavingUnmarked(R))
    with pytest.raises(ImpossibleEventError):
        tracker.handle(e.LoweringBegun(R, "s", 2, 0), 9_000)
    tracker.handle(answered(reason=GrowthReason.REFUSED), 9_000)
    tracker.check_invariants()
    tracker.handle(e.ReplacementEnded(R), 9_000)
    assert states(tracker) == (["MISSING", "MISSING"], ["STAYS", "STAYS"])


def test_a_node_whose_deletion_fails_stays_and_tells_why() -> None:
    tracker = after(*DRAINING, deletions("a", "b"), e.SetTainted(f"wave/{R}/drain/1"))
    late = e.DeletionFailed("a", Reason.FAILED_TO_EVICT_PODS, "late", ("default/web",))
    for event in (late, e.RolledBack("a"), *deleted("b")[1:], e.DrainsEnded(R)):
        tracker.handle(event, 9_000)
        tracker.check_invariants()
    assert states(tracker)[1] == ["STAYS", "GONE"]
    assert the_one(tracker).leaving[0].reason == Reason.FAILED_TO_EVICT_PODS
    assert the_one(tracker).achieved == 2.0


def test_a_node_is_tried_again_if_another_one_of_its_set_was_not_tainted() -> None:
    tracker = after(*DRAINING, deletions("a", "b"), e.SetFailed(f"wave/{R}/drain/1", "b", "forbidden"))
    for node in ("a", "b"):
        tracker.handle(e.RolledBack(node), 9_000)
        tracker.check_invariants()
    assert states(tracker)[1] == ["WAITS", "STAYS"]


def test_times_shift_with_the_clock_and_ended_replacements_are_forgotten() -> None:
    tracker = after(*WAITING)
    deadline_ms, stage_ms = the_one(tracker).deadline_ms, the_one(tracker).stage_ms
    assert deadline_ms == stage_ms + 60_000
    tracker.handle(e.ClockJumped(5_000), 9_000)
    assert (the_one(tracker).deadline_ms, the_one(tracker).stage_ms) == (deadline_ms + 5_000, stage_ms + 5_000)
    ended = after(e.ReplacementCancelled(R, ""), e.LeavingUnmarked(R), e.ReplacementEnded(R))
    ended.handle(e.TimeNoted(), 3_600_000)
    assert ended.data.ended_replacements
    ended.handle(e.TimeNoted(), 3_700_000)
    assert not ended.data.ended_replacements


@pytest.mark.parametrize("node", ["a", "n0"])
def test_others_may_not_delete_a_node_that_takes_part(node: str) -> None:
    tracker = after(*WAITING, ready("n0", "n1"))
    facts = AdmissionFacts({node: NodeFacts("l", ())}, {"l": GroupSizeFacts(0, 5)}, frozenset())
    limits, moment = DeletionLimits(10, 10, 300.0), DecisionTime(9_000)
    (answer,) = admit(tracker.data, [NodeRequest(node, False)], facts, limits, moment).answers
    assert (answer.accepted, answer.reason) == (False, Reason.ALREADY_IN_PROGRESS)
    assert R in answer.detail
    assert admit(tracker.data, [NodeRequest(node, False)], facts, limits, moment, R).nodes


def test_every_state_of_a_message_has_its_number() -> None:
    from trimtab.v1 import actuator_pb2

    for ours, theirs in (
        (WaveStage, actuator_pb2.ReplacementStage),
        (NewNodeState, actuator_pb2.ReplacementNewNodeState),
        (LeavingState, actuator_pb2.LeavingNodeState),
    ):
        assert {one.name: int(one) for one in ours} == {name: n for name, n in theirs.Code.items() if n}
