"""The loop starts one wave at a time, and tells the planner how replacements ended."""

from typing import Any

import numpy as np
import pytest

from tests.builders.loop import plan_of, replacing_plan, replacing_setup
from tests.builders.places import add_place, move
from trimtab.clients.loop.events import StatusEvents, Subject
from trimtab.clients.loop.loop_clock import shift
from trimtab.clients.loop.replacing import note_outcomes, replacement_order
from trimtab.clients.loop.round_text import round_text
from trimtab.v1 import actuator_pb2, plan_pb2, reason_pb2

Stage, New, Leaving = (
    actuator_pb2.ReplacementStage,
    actuator_pb2.ReplacementNewNodeState,
    actuator_pb2.LeavingNodeState,
)
REPLACEMENT = plan_pb2.Decision.REPLACEMENT
HOUR_NS = 3600 * 10**9


def replacement(request_id: str = "r", stage: int = Stage.DONE, reason: int = 0, end_s: int = 100) -> Any:
    one = actuator_pb2.Replacement(request_id=request_id, stage=stage, reason=reason)  # type: ignore[arg-type]
    one.stage_time.FromSeconds(end_s)
    return one


def times(state: plan_pb2.ReplacementState, column: plan_pb2.NodeTimes) -> dict[str, int]:
    nodes, until = np.frombuffer(column.node, "<i4"), np.frombuffer(column.time_ns, "<i8")
    return {state.strings[index]: int(time) for index, time in zip(nodes, until, strict=True)}


def test_the_first_wave_is_started_with_its_least_saving_and_the_prices_of_alternatives() -> None:
    setup = replacing_setup(replacing_plan(waves=2), replace=True)
    setup.actuator.status.node_groups.add(id="t", price_per_hour=0.5)
    done = setup.run()
    (order,) = setup.actuator.replacing
    assert (order.request_id, order.plan_time.seconds, order.snapshot_version) == ("id-replace", 100, "s1")
    assert order.wave == setup.planner.answer.replacement.waves[0]
    assert order.min_saving_per_hour == pytest.approx(0.3)
    assert (dict(order.prices_per_hour), order.max_alternatives) == ({"t": 0.5}, 3)
    assert done.replaced == ["n1"]
    assert "n1 is being replaced" in round_text(done)


def test_replacements_are_asked_for_only_if_they_are_to_be_carried_out() -> None:
    setup = replacing_setup(replacing_plan())
    done = setup.run()
    assert list(setup.planner.requests[0].decisions) == [plan_pb2.Decision.SCALE_DOWN]
    assert setup.actuator.replacing == []
    assert done.replaced == []
    with_it = replacing_setup(replacing_plan(), replace=True)
    with_it.run()
    assert REPLACEMENT in with_it.planner.requests[0].decisions


def test_decided_but_not_to_be_carried_out_it_is_only_told() -> None:
    setup = replacing_setup(replacing_plan(), decisions=(REPLACEMENT,))
    done = setup.run()
    assert setup.actuator.replacing == []
    assert "1 node could be replaced by 1, which saves 0.60 an hour" in round_text(done)


def test_an_actuator_that_replaces_no_nodes_gets_no_wave_and_the_round_says_why() -> None:
    setup = replacing_setup(replacing_plan(), replace=True)
    setup.actuator.rpcs.remove("StartReplacement")
    done = setup.run()
    assert setup.actuator.replacing == []
    assert "--serve-externalgrpc" in "".join(done.notes)


def test_the_next_wave_waits_for_the_end_of_the_last_one() -> None:
    setup = replacing_setup(replacing_plan(), replace=True)
    setup.actuator.status.replacements.append(replacement(stage=Stage.WAITING))
    setup.run()
    assert REPLACEMENT not in setup.planner.requests[0].decisions
    assert setup.actuator.replacing == []
    setup.actuator.status.replacements[0].stage = Stage.DONE
    setup.run()
    assert REPLACEMENT in setup.planner.requests[1].decisions
    assert len(setup.actuator.replacing) == 1


@pytest.mark.parametrize("is_due", [True, False], ids=["due in this round", "in progress"])
def test_no_wave_is_started_beside_a_drain(is_due: bool) -> None:
    answer = replacing_plan()
    if is_due:
        answer.MergeFrom(plan_of(drain=["n9"]))
    setup = replacing_setup(answer, replace=True)
    if not is_due:
        setup.actuator.status.deletions.add(node="n9", drain=True)
    setup.run()
    assert setup.actuator.replacing == []


def test_no_wave_is_started_whose_nodes_are_to_take_pods_of_scale_down() -> None:
    answer = replacing_plan()
    answer.scale_down.unneeded.add(node="n9")
    add_place(answer.scale_down.places, "default/p", "n9", "n8")
    setup = replacing_setup(answer, replace=True)
    setup.run()
    assert len(setup.actuator.replacing) == 1
    move(answer.scale_down.places, {"default/p": "n1"})
    setup = replacing_setup(answer, replace=True)
    setup.run()
    assert setup.actuator.replacing == []


def test_a_refusal_is_told() -> None:
    setup = replacing_setup(replacing_plan(), replace=True)
    setup.actuator.replacement_answer = actuator_pb2.StartReplacementResponse(
        reason=reason_pb2.ReplacementReason.LEAVING_NODE_REFUSED, detail="n1: NODE_CHANGED"
    )
    done = setup.run()
    assert done.refused == {"replacement": "LEAVING_NODE_REFUSED n1: NODE_CHANGED"}
    assert "no replacement: LEAVING_NODE_REFUSED" in round_text(done)


def test_a_wave_that_costs_until_later_ones_must_not_cost_more_than_planned() -> None:
    answer = replacing_plan(waves=2, saving=-0.2)
    order = replacement_order(plan_pb2.PlanRequest(), answer, {})
    assert order.min_saving_per_hour == pytest.approx(-0.2)


def test_groups_without_nodes_are_avoided_and_new_nodes_stay_until_they_are_paid_for() -> None:
    done = replacement()
    done.new_nodes.add(node_group="t", node="new-1", state=New.READY, failed_node_groups=["s"])
    done.new_nodes.add(node_group="u", node="new-2", state=New.GIVEN_BACK)
    state = plan_pb2.ReplacementState()
    note_outcomes(state, [done], plan_pb2.ReplacementSettings())
    end_ns = 100 * 10**9
    assert times(state, state.avoided_groups) == {"s": end_ns + HOUR_NS, "u": end_ns + HOUR_NS}
    assert times(state, state.paid_back) == {"new-1": end_ns + 24 * HOUR_NS}
    settings = plan_pb2.ReplacementSettings()
    settings.avoid_time.FromSeconds(7200)
    note_outcomes(state, [done], settings)
    assert times(state, state.avoided_groups) == {"s": end_ns + 2 * HOUR_NS, "u": end_ns + 2 * HOUR_NS}
    assert list(state.strings).count("s") == 1


def test_a_cancelled_replacement_is_not_held_against_its_groups() -> None:
    cancelled = replacement(stage=Stage.CANCELLED, reason=reason_pb2.ReplacementReason.REPLACEMENT_CANCELLED)
    cancelled.new_nodes.add(node_group="s", node="new", state=New.GIVEN_BACK)
    state = plan_pb2.ReplacementState()
    note_outcomes(state, [cancelled], plan_pb2.ReplacementSettings())
    assert state == plan_pb2.ReplacementState()


def test_the_planner_is_told_once_with_its_next_request() -> None:
    setup = replacing_setup(plan_of(), replace=True)
    ended = replacement()
    ended.new_nodes.add(node_group="s", node="new", state=New.READY)
    setup.actuator.status.replacements.append(ended)
    setup.run()
    assert not setup.planner.requests[0].HasField("state"), "there is no state yet"
    setup.run()
    told = setup.planner.requests[1].state
    assert times(told.replacement, told.replacement.paid_back) == {"new": 100 * 10**9 + 24 * HOUR_NS}
    setup.run()
    assert not setup.planner.requests[2].HasField("state"), "the planner has its own state again"


def test_a_step_of_the_clock_moves_the_times_of_replacements() -> None:
    state = plan_pb2.PlanState()
    done = replacement()
    done.new_nodes.add(node_group="s", node="new", state=New.READY, failed_node_groups=["t"])
    note_outcomes(state.replacement, [done], plan_pb2.ReplacementSettings())
    before = times(state.replacement, state.replacement.paid_back)["new"]
    shift(state, 60.0)
    assert times(state.replacement, state.replacement.paid_back)["new"] == before + 60 * 10**9


def test_each_stage_is_an_event_once() -> None:
    events = StatusEvents(Subject("ConfigMap", "trimtab-status", "kube-system"))
    status = actuator_pb2.ActuatorStatus()
    assert events.of(status) == []
    one = status.replacements.add(request_id="r", stage=Stage.WAITING)
    one.new_nodes.add(node_group="s")
    one.leaving.add(node="n1", state=Leaving.WAITS)
    assert [event.message for event in events.of(status)] == ["Replacement: 1 new nodes of s in place of n1"]
    assert events.of(status) == []
    one.stage = Stage.DRAINING
    assert [(event.subject.name, event.reason) for event in events.of(status)] == [("n1", "Replacement")]
    one.stage, one.leaving[0].state, one.achieved_saving_per_hour = Stage.DONE, Leaving.GONE, 0.5
    assert [event.message for event in events.of(status)] == ["Replacement: n1 replaced, 0.5 an hour saved"]
    failed = status.replacements.add(request_id="q", stage=Stage.FAILED, detail="no capacity")
    failed.reason = reason_pb2.ReplacementReason.NEW_NODES_MISSING
    failed.leaving.add(node="n2")
    (event,) = events.of(status)
    assert (event.type, event.reason) == ("Warning", "ReplacementFailed")
    assert event.message == "Replacement of n2 rolled back: NEW_NODES_MISSING no capacity"
