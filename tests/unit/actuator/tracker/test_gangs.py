"""Nodes from which a gang moves whole: their drains begin together, or all are rolled back."""

from hypothesis import given
from hypothesis import strategies as st

from trimtab.actuator.tracker import events as e
from trimtab.actuator.tracker import instructions as i
from trimtab.actuator.tracker.states import NodeAnswer, PodRef, Reason, State
from trimtab.actuator.tracker.tracker import Tracker
from trimtab.actuator.tracker.transitions import ImpossibleEventError

NODES = ("a", "b", "c")


def pods(node: str) -> tuple[PodRef, ...]:
    return (PodRef("default", f"p-{node}", f"uid-{node}"),)


def tainted(*alone: str) -> Tracker:
    """Return a tracker with three nodes of a gang, and others, all tainted."""
    tracker = Tracker()
    planned = [e.PlannedNode(node, "g", True, gang="ns/gang") for node in NODES]
    planned += [e.PlannedNode(node, "g", True) for node in alone]
    answers = tuple(NodeAnswer(one.node, True) for one in planned)
    tracker.handle(e.SetAccepted("r", "d", tuple(planned), answers, 60.0), 1)
    found = tracker.handle(e.SetTainted("r"), 2)
    waits = {one.node: one.waits_for_gang for one in found if isinstance(one, i.Drain)}
    assert waits == dict.fromkeys(NODES, True) | dict.fromkeys(alone, False)
    return tracker


def begin(tracker: Tracker, *nodes: str) -> list[i.Instruction]:
    found: list[i.Instruction] = []
    for node in nodes:
        found = tracker.handle(e.DrainStarted(node, pods(node)), 3)
        tracker.check_invariants()
    return found


def states(tracker: Tracker) -> dict[str, tuple[State, int]]:
    every = (*tracker.data.finished, *tracker.data.deletions.values())
    return {one.node: (one.state, one.reason) for one in every}


def test_pods_are_evicted_once_the_drains_of_all_nodes_have_begun() -> None:
    tracker = tainted("x")
    assert begin(tracker, "a", "x", "b") == []
    assert begin(tracker, "c") == [i.EvictPods(node) for node in NODES]


def test_drains_wait_for_their_gang_also_after_a_restart_and_no_longer_than_before_it() -> None:
    for begun, waits in ((("a",), True), (NODES, False)):
        tracker = tainted("x")
        begin(tracker, *begun)
        drains = [one for one in Tracker.load(tracker.dump()).resume() if isinstance(one, i.Drain)]
        assert {one.node: one.waits_for_gang for one in drains} == {"x": False} | dict.fromkeys(NODES, waits)


def test_more_pods_of_a_node_do_not_end_the_wait() -> None:
    tracker = tainted()
    begin(tracker, "a", "b")
    assert tracker.handle(e.DrainStarted("a", pods("later")), 4) == []


def test_a_node_that_cannot_begin_keeps_its_whole_gang() -> None:
    tracker = tainted("x")
    begin(tracker, "a")
    found = tracker.handle(e.DeletionFailed("b", Reason.NODE_CHANGED, "a pod came"), 4)
    tracker.check_invariants()
    assert [(type(one), one.node) for one in found if isinstance(one, i.RollBack)] == [
        (i.RollBack, node) for node in NODES
    ]
    stays = (State.ROLLING_BACK, Reason.GANG_STAYS)
    other = (State.ROLLING_BACK, Reason.NODE_CHANGED)
    assert states(tracker) == {"x": (State.TAINTED, 0), "a": stays, "b": other, "c": stays}
    assert tracker.data.deletions["c"].detail == ("gang ns/gang moves whole or not at all, and b stays: a pod came")
    for node in NODES:
        tracker.handle(e.RolledBack(node), 5)
    assert {state for state, _ in states(tracker).values()} == {State.FAILED, State.TAINTED}


def test_a_node_that_vanishes_before_the_gang_has_begun_keeps_the_others() -> None:
    tracker = tainted()
    begin(tracker, "a", "b")
    tracker.handle(e.NodeGone("c"), 4)
    tracker.check_invariants()
    stays = (State.ROLLING_BACK, Reason.GANG_STAYS)
    assert states(tracker) == {"a": stays, "b": stays, "c": (State.FAILED, Reason.NODE_GONE)}


def test_to_cancel_one_node_before_the_gang_has_begun_cancels_all() -> None:
    tracker = tainted()
    begin(tracker, "a")
    tracker.handle(e.CancelRequested("a", "changed my mind"), 4)
    tracker.check_invariants()
    assert set(states(tracker).values()) == {(State.ROLLING_BACK, Reason.CANCELLED)}
    assert all(tracker.is_cancelled(node) for node in NODES)


def test_once_the_gang_has_begun_each_node_ends_by_itself() -> None:
    tracker = tainted()
    begin(tracker, *NODES)
    found = tracker.handle(e.DeletionFailed("b", Reason.FAILED_TO_EVICT_PODS, "late"), 4)
    tracker.check_invariants()
    assert [type(one) for one in found] == [i.RollBack]
    tracker.handle(e.CancelRequested("c", "no"), 5)
    assert states(tracker)["a"] == (State.DRAINING, 0)


def test_a_taint_that_cannot_be_written_keeps_the_gang() -> None:
    tracker = Tracker()
    planned = tuple(e.PlannedNode(node, "g", True, gang="ns/gang") for node in NODES)
    tracker.handle(e.SetAccepted("r", "d", planned, tuple(NodeAnswer(node, True) for node in NODES), 60.0), 1)
    tracker.handle(e.SetFailed("r", "b", "forbidden"), 2)
    tracker.check_invariants()
    assert {state for state, _ in states(tracker).values()} == {State.ROLLING_BACK}


MOVES = st.sampled_from(
    [
        lambda node: e.DrainStarted(node, pods(node)),
        lambda node: e.PodsEvicted(node, pods(node)),
        e.Drained,
        e.DeleteBegun,
        e.InstanceGone,
        e.NodeGone,
        e.RolledBack,
        e.TaintRestored,
        lambda node: e.DeletionFailed(node, Reason.NODE_CHANGED, "changed"),
        lambda node: e.CancelRequested(node, "no"),
    ]
)

WITHOUT_EVICTIONS = (e.DrainStarted, e.CancelRequested, e.NodeGone, e.DeletionFailed, e.RolledBack)


@given(st.lists(st.tuples(st.sampled_from((*NODES, "x")), MOVES), max_size=40))
def test_a_gang_begins_whole_or_rolls_back_whole_whatever_happens(moves: list) -> None:  # type: ignore[type-arg]
    """What really happens: no pod of a node is evicted before the instruction to do so."""
    tracker, may_evict = tainted("x"), {"x"}
    for step, (node, make) in enumerate(moves):
        event = make(node)
        if node not in may_evict and not isinstance(event, WITHOUT_EVICTIONS):
            continue
        try:
            found = tracker.handle(event, 10 + step)
        except ImpossibleEventError:
            continue
        tracker.check_invariants()
        may_evict |= {one.node for one in found if isinstance(one, i.EvictPods)}
    gang = {node: state for node, (state, _) in states(tracker).items() if node != "x"}
    if not may_evict & {*NODES}:
        taken_back = {State.ROLLING_BACK, State.FAILED, State.CANCELLED}
        assert {*gang.values()} <= taken_back or {*gang.values()} <= {State.TAINTED, State.DRAINING}
    assert may_evict in ({"x"}, {"x", *NODES})
    assert Tracker.load(tracker.dump()).dump() == tracker.dump()
