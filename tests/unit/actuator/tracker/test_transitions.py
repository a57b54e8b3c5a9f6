"""The table of transitions, and the tracker that follows it."""

import itertools
from typing import Any

import msgspec
import pytest

from trimtab.actuator.tracker import events as e
from trimtab.actuator.tracker import instructions as i
from trimtab.actuator.tracker.deletion_steps import EDGES, LATE, next_state
from trimtab.actuator.tracker.states import FINAL_STATES, NodeAnswer, PodRef, Reason, Retention, State
from trimtab.actuator.tracker.tracker import Tracker
from trimtab.actuator.tracker.transitions import ImpossibleEventError

POD = PodRef("default", "web-1", "uid-1", "ReplicaSet", "web", "uid-rs")
NODE_EVENTS: dict[type[e.Event], e.NodeEvent] = {
    type(event): event
    for event in (
        e.TaintRestored("n1"),
        e.NodeEmpty("n1"),
        e.DrainStarted("n1", (POD,)),
        e.PodsEvicted("n1", (POD,)),
        e.DrainProgressed("n1", 1),
        e.Drained("n1"),
        e.DeleteBegun("n1"),
        e.DeleteAccepted("n1"),
        e.InstanceGone("n1"),
        e.NodeGone("n1"),
        e.DeletionFailed("n1", Reason.FAILED_TO_EVICT_PODS, "late", ("default/web-1",)),
        e.CancelRequested("n1", "changed my mind"),
        e.RolledBack("n1"),
    )
}
# The shortest way into each state in progress.
PATHS: dict[State, list[e.Event]] = {
    State.PLANNED: [],
    State.TAINTED: [e.SetTainted("r1")],
    State.DRAINING: [e.SetTainted("r1"), e.DrainStarted("n1", (POD,))],
    State.DRAINED: [e.SetTainted("r1"), e.DrainStarted("n1", (POD,)), e.Drained("n1")],
    State.DELETING: [e.SetTainted("r1"), e.DrainStarted("n1", (POD,)), e.Drained("n1"), e.DeleteBegun("n1")],
    State.ROLLING_BACK: [e.SetTainted("r1"), e.CancelRequested("n1", "")],
}


def accepted(*nodes: str, request_id: str = "r1", drain: bool = True) -> e.SetAccepted:
    planned = tuple(e.PlannedNode(node, "g", drain) for node in nodes)
    return e.SetAccepted(request_id, "digest", planned, tuple(NodeAnswer(node, True) for node in nodes), 600.0)


def tracker_in(state: State) -> Tracker:
    tracker = Tracker()
    for event in (accepted("n1"), *PATHS[state]):
        tracker.handle(event, 1_000)
        tracker.check_invariants()
    assert tracker.data.deletions["n1"].state is state
    return tracker


def test_the_table_does_not_contradict_itself() -> None:
    edges = [edge[:2] for edge in EDGES]
    assert len(set(edges)) == len(edges)
    assert not {edge.source for edge in EDGES} & FINAL_STATES
    both = {(source, event) for source, events in LATE.items() for event in events}
    assert not both & {edge[:2] for edge in EDGES}


def test_every_edge_has_a_sentence() -> None:
    for edge in EDGES:
        assert edge.sentence.endswith("."), edge


@pytest.mark.parametrize(
    ("state", "event"),
    [pytest.param(s, t, id=f"{s.name}-{t.__name__}") for s, t in itertools.product(PATHS, NODE_EVENTS)],
)
def test_each_event_in_each_state_does_what_the_table_says(state: State, event: type[e.Event]) -> None:
    tracker = tracker_in(state)
    before = tracker.dump()
    edges = [edge for edge in EDGES if edge.source is state and edge.event is event]
    if edges:
        tracker.handle(NODE_EVENTS[event], 2_000)
        tracker.check_invariants()
        target = edges[0].target
        if target in FINAL_STATES:
            assert "n1" not in tracker.data.deletions
            ended = tracker.data.finished[-1].state
            assert ended in FINAL_STATES
            assert ended is target or event is e.RolledBack
        else:
            assert tracker.data.deletions["n1"].state is target
    elif event in LATE.get(state, frozenset()):
        assert tracker.handle(NODE_EVENTS[event], 2_000) == []
        assert tracker.data.deletions["n1"].state is state
        tracker.check_invariants()
    else:
        with pytest.raises(ImpossibleEventError, match=event.__name__):
            tracker.handle(NODE_EVENTS[event], 2_000)
        assert tracker.dump() == before


def test_a_deletion_can_be_cancelled_in_the_states_that_the_table_names() -> None:
    named = {edge.source for edge in EDGES if edge.event is e.CancelRequested}
    assert {state for state in PATHS if tracker_in(state).cancellable("n1")} == named


@pytest.mark.parametrize("state", [pytest.param(state, id=state.name) for state in FINAL_STATES])
def test_nothing_leaves_a_final_state(state: State) -> None:
    for event in NODE_EVENTS.values():
        with pytest.raises(ImpossibleEventError):
            next_state(state, event)


def test_a_set_is_tainted_before_anything_else_happens() -> None:
    tracker = Tracker()
    assert tracker.handle(accepted("n2", "n1"), 0) == [i.WriteTaints("r1", ("n1", "n2"), ("", ""))]
    for event in (e.Drained("n1"), e.DeleteBegun("n1"), e.NodeEmpty("n2")):
        with pytest.raises(ImpossibleEventError):
            tracker.handle(event, 0)


def test_empty_nodes_are_instructed_before_drains() -> None:
    tracker = Tracker()
    nodes = (e.PlannedNode("a", "g", True), e.PlannedNode("b", "g", False))
    tracker.handle(e.SetAccepted("r1", "d", nodes, (), 600.0), 0)
    assert [type(step) for step in tracker.handle(e.SetTainted("r1"), 0)] == [i.CheckEmpty, i.Drain]


def test_one_node_without_taint_rolls_the_whole_set_back_and_changes_the_answers() -> None:
    tracker = Tracker()
    tracker.handle(accepted("n1", "n2"), 0)
    assert tracker.handle(e.SetFailed("r1", "n2", "forbidden"), 0) == [i.RollBack("n1", ""), i.RollBack("n2", "")]
    answers = {answer.node: answer.reason for answer in tracker.data.requests["r1"].answers}
    assert answers == {"n1": Reason.SET_ROLLED_BACK, "n2": Reason.FAILED_TO_MARK_TO_BE_DELETED}
    for node in ("n1", "n2"):
        tracker.handle(e.RolledBack(node), 0)
    assert {deletion.state for deletion in tracker.data.finished} == {State.FAILED}


def test_settling_a_set_twice_changes_nothing() -> None:
    tracker = tracker_in(State.DRAINING)
    assert tracker.handle(e.SetTainted("r1"), 0) == []
    assert tracker.handle(e.SetFailed("r1", "n1", "late"), 0) == []
    assert tracker.data.deletions["n1"].state is State.DRAINING


def test_a_node_in_progress_cannot_be_accepted_again() -> None:
    tracker = tracker_in(State.TAINTED)
    with pytest.raises(ImpossibleEventError, match="n1"):
        tracker.handle(accepted("n1", request_id="r2"), 0)


def test_an_eviction_is_remembered_whatever_the_result_of_the_deletion() -> None:
    tracker = tracker_in(State.ROLLING_BACK)
    tracker.handle(e.PodsEvicted("n1", (POD,)), 5)
    tracker.handle(e.RolledBack("n1"), 6)
    other = msgspec.structs.replace(POD, uid="uid-2")
    tracker.handle(e.PodsEvicted("n1", (other,)), 7)
    assert [(uid, kept.time_ms) for uid, kept in tracker.data.evictions.items()] == [("uid-1", 5), ("uid-2", 7)]


def test_a_pod_is_kept_in_memory_once_though_many_events_tell_of_it() -> None:
    tracker = Tracker()
    pods = (POD, msgspec.structs.replace(POD, name="web-2", uid="uid-2"))
    evictions = [e.PodsEvicted("n1", (pod,)) for pod in pods]
    for event in (accepted("n1"), e.SetTainted("r1"), e.DrainStarted("n1", pods), *evictions):
        # As read from the store: every string in it is a new object.
        tracker.handle(e.decode(e.encode(event)), 1)
    for one in (tracker, Tracker.load(tracker.dump())):
        (deletion,) = one.data.deletions.values()
        for uid, eviction in one.data.evictions.items():
            assert eviction.pod is deletion.pods[eviction.pod.uid]
            assert uid is eviction.pod.uid
            assert eviction.node is deletion.node
        first, second = deletion.pods.values()
        assert first.owner_uid is second.owner_uid
    assert Tracker.load(tracker.dump()).dump() == tracker.dump()


@pytest.mark.parametrize(
    ("after_s", "evictions", "finished", "requests"),
    [
        pytest.param(9, 1, 1, 1, id="all is remembered within its time"),
        pytest.param(11, 0, 1, 1, id="evictions are forgotten first"),
        pytest.param(21, 0, 0, 1, id="results later"),
        pytest.param(301, 0, 0, 0, id="answers, which a repeated request gets, after five minutes"),
    ],
)
def test_finished_work_is_dropped_in_time(after_s: int, evictions: int, finished: int, requests: int) -> None:
    tracker = Tracker(Retention(finished_s=20, evictions_s=10))
    for event in (accepted("n1"), *PATHS[State.DELETING], e.PodsEvicted("n9", (POD,)), e.InstanceGone("n1")):
        tracker.handle(event, 0)
    tracker.handle(accepted(request_id="later"), after_s * 1000)
    memory = tracker.data
    assert (len(memory.evictions), len(memory.finished), len(memory.requests) - 1) == (evictions, finished, requests)


@pytest.mark.parametrize(
    ("state", "instruction"),
    [
        pytest.param(State.PLANNED, i.WriteTaints, id="planned"),
        pytest.param(State.TAINTED, i.Drain, id="tainted"),
        pytest.param(State.DRAINING, i.Drain, id="draining"),
        pytest.param(State.DRAINED, i.BeginDelete, id="drained"),
        pytest.param(State.DELETING, i.DeleteInstance, id="deleting"),
        pytest.param(State.ROLLING_BACK, i.RollBack, id="rolling back"),
    ],
)
def test_after_a_restart_each_state_asks_for_its_instruction(state: State, instruction: type[Any]) -> None:
    tracker = Tracker.load(tracker_in(state).dump())
    assert [type(step) for step in tracker.resume()] == [instruction]


def test_a_continued_drain_knows_its_deadline_and_its_pods() -> None:
    tracker = tracker_in(State.DRAINING)
    (step,) = Tracker.load(tracker.dump()).resume()
    assert step == i.Drain("n1", 600.0, 1_000 + 600_000, None, (POD,), frozenset())


@pytest.mark.parametrize("event", [pytest.param(event, id=kind.__name__) for kind, event in NODE_EVENTS.items()])
def test_an_event_is_read_as_it_was_written(event: e.Event) -> None:
    assert e.decode(e.encode(event)) == event


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(b"{}", id="no tag"),
        pytest.param(b'{"event":"from_the_future"}', id="unknown tag"),
        pytest.param(b'{"event":"drained"}', id="field missing"),
        pytest.param(b'{"event":"drained","node":5}', id="wrong type"),
        pytest.param(b"\x00", id="no JSON"),
    ],
)
def test_a_broken_event_is_refused(payload: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        e.decode(payload)


def test_a_scale_up_is_requested_until_it_is_answered() -> None:
    from trimtab.actuator.tracker.states import GroupGrowth, GrowthAnswer

    tracker = Tracker()
    growths = (GroupGrowth("g", 1, 3),)
    assert tracker.handle(e.GrowthRequested("r1", "d", growths), 7) == [i.Grow("r1", growths, 7)]
    assert tracker.resume() == [i.Grow("r1", growths, 7)]
    with pytest.raises(ImpossibleEventError):
        tracker.handle(e.GrowthRequested("r1", "d", growths), 0)
    tracker.handle(e.GrowthAnswered("r1", (GrowthAnswer("g", True),)), 0)
    assert tracker.resume() == []
