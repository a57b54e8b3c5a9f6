"""Scale-up as operators know it: events on the status, on the pods that it serves, and on pods that nothing helps."""

import pytest

from trimtab.clients.loop import growth_events
from trimtab.clients.loop.events import NORMAL, WARNING, Subject
from trimtab.clients.loop.growth_events import (
    NOT_TRIGGERED,
    SCALE_UP_FAILED,
    SCALED_UP,
    TRIGGERED,
    GrowthEvents,
)
from trimtab.clients.loop.rounds import RoundResult
from trimtab.places import places_of
from trimtab.v1 import plan_pb2

MAP = Subject("ConfigMap", "trimtab-status", "kube-system")


def growing() -> RoundResult:
    answer = plan_pb2.PlanResponse()
    for group in ("a", "b"):
        answer.scale_up.splits.add(node_group=group, current_size=1, new_size=3, max_size=10)
    places = [("shop/web-1", "", "a#0"), ("shop/web-2", "", "b#0")]
    answer.scale_up.places.CopyFrom(places_of(places))
    answer.scale_up.unschedulable.add(pods=["shop/huge"], detail="no group has 900 cores")
    return RoundResult(plan_pb2.PlanRequest(), answer, None, was_delta=False, grown=["a", "b"])


def told(events: GrowthEvents, done: RoundResult) -> list[tuple[str, str, str, str]]:
    return [(one.subject.kind, one.subject.name, one.type, one.reason) for one in events.of(done)]


def test_scale_up_is_reported_on_the_status_and_on_each_pod_that_it_serves() -> None:
    events = GrowthEvents(MAP).of(growing())
    assert [(one.subject.kind, one.subject.name, one.type, one.reason) for one in events] == [
        ("ConfigMap", "trimtab-status", NORMAL, SCALED_UP),
        ("ConfigMap", "trimtab-status", NORMAL, SCALED_UP),
        ("Pod", "web-1", NORMAL, TRIGGERED),
        ("Pod", "web-2", NORMAL, TRIGGERED),
        ("Pod", "huge", NORMAL, NOT_TRIGGERED),
    ]
    assert events[0].message == "Scale-up: setting group a size to 3 instead of 1 (max: 10)"
    assert events[3].message == "pod triggered scale-up: [{b 1->3 (max: 10)}]"
    assert events[4].message == "pod didn't trigger scale-up: no group has 900 cores"


def test_a_failed_scale_up_is_a_warning_without_events_on_its_pods() -> None:
    done = growing()
    done.grown, done.refused = ["b"], {"a": "REFUSED no quota left"}
    assert told(GrowthEvents(MAP), done)[:3] == [
        ("ConfigMap", "trimtab-status", WARNING, SCALE_UP_FAILED),
        ("ConfigMap", "trimtab-status", NORMAL, SCALED_UP),
        ("Pod", "web-2", NORMAL, TRIGGERED),
    ]


def test_growth_that_was_not_ordered_is_not_reported() -> None:
    done = growing()
    done.grown = []
    assert [reason for *_, reason in told(GrowthEvents(MAP), done)] == [NOT_TRIGGERED]


def test_why_nothing_helps_a_pod_is_reported_again_only_when_it_has_changed() -> None:
    events, done = GrowthEvents(MAP), growing()
    done.grown = []
    assert len(events.of(done)) == 1
    assert events.of(done) == []
    done.answer.scale_up.unschedulable[0].detail = "every group is at its maximum"
    assert len(events.of(done)) == 1
    del done.answer.scale_up.unschedulable[:]
    assert events.of(done) == []
    done.answer.scale_up.unschedulable.add(pods=["shop/huge"], detail="every group is at its maximum")
    assert len(events.of(done)) == 1


def test_a_round_tells_about_a_bounded_number_of_pods_and_the_next_about_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(growth_events, "MOST_PODS", 2)
    done = RoundResult(plan_pb2.PlanRequest(), plan_pb2.PlanResponse(), None, was_delta=False)
    for number in range(5):
        done.answer.scale_up.unschedulable.add(pods=[f"shop/p{number}"], detail="too large")
    events = GrowthEvents(MAP)
    seen = [[name for _, name, _, _ in told(events, done)] for _ in range(4)]
    assert seen == [["p0", "p1"], ["p2", "p3"], ["p4"], []]
