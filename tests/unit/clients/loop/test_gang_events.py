"""Gangs that wait, as operators see them: events on their PodGroups, and figures."""

from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from trimtab.clients.loop.events import NORMAL, WARNING
from trimtab.clients.loop.gang_events import GETS_NODES, USELESS, WAITS, WHOLE, GangEvents
from trimtab.clients.loop.rounds import RoundResult
from trimtab.common.kubernetes.registry import VOLCANO_POD_GROUP
from trimtab.v1 import plan_pb2, reason_pb2

Reason = reason_pb2.GangReason
WHY = "2 of 8 pods that it needs have no place: gpu-a would help and is at the maximum size"


def waits(**more: Any) -> plan_pb2.GangResult:
    return plan_pb2.GangResult(
        group="ml/train", min_count=8, reason=Reason.MAX_SIZE_REACHED, detail=WHY, lacking_count=2, **more
    )


def placed(**more: Any) -> plan_pb2.GangResult:
    return plan_pb2.GangResult(group="ml/train", min_count=8, placed_count=8, **more)


def at(seconds: int, *gangs: plan_pb2.GangResult, grown: tuple[str, ...] = ()) -> RoundResult:
    answer, request = plan_pb2.PlanResponse(), plan_pb2.PlanRequest()
    request.now.seconds = seconds
    answer.scale_up.SetInParent()
    answer.scale_up.gangs.extend(gangs)
    return RoundResult(request, answer, None, was_delta=False, grown=list(grown))


def told(events: GangEvents, done: RoundResult) -> list[tuple[str, str]]:
    return [(one.type, one.reason) for one in events.of(done)]


def test_what_a_gang_lacks_is_a_warning_on_its_pod_group_until_that_changes() -> None:
    events = GangEvents()
    (event,) = events.of(at(0, waits()))
    assert (event.subject.kind, event.subject.namespace, event.subject.name) == ("PodGroup", "ml", "train")
    assert (event.type, event.reason, event.message) == (WARNING, WAITS, f"{WHY} (MAX_SIZE_REACHED)")
    assert told(events, at(10, waits())) == []
    other = waits()
    other.detail = "1 of 8 pods that it needs have no place"
    assert told(events, at(20, other)) == [(WARNING, WAITS)]


def test_nodes_for_a_gang_and_its_completion_are_told_with_the_time_that_it_took() -> None:
    events = GangEvents()
    assert told(events, at(0, waits())) == [(WARNING, WAITS)]
    assert told(events, at(10, placed(on_new_nodes_count=8), grown=("gpu-a",))) == [(NORMAL, GETS_NODES)]
    assert told(events, at(20, placed())) == []
    (event,) = events.of(at(95))
    assert (event.type, event.reason) == (NORMAL, WHOLE)
    assert event.message == "the gang is whole, 95 s after it was first seen"
    assert told(events, at(100)) == []


def test_a_gang_whose_minimum_runs_is_whole_while_pods_beyond_it_wait() -> None:
    events = GangEvents()
    told(events, at(0, waits()))
    running = plan_pb2.GangResult(group="ml/train", min_count=8, bound_count=8, detail="2 pods beyond its minimum")
    assert told(events, at(30, running)) == [(NORMAL, WHOLE)]
    assert told(events, at(40, running)) == []


def test_a_gang_that_is_deleted_before_it_gets_places_is_not_told_to_be_whole() -> None:
    events = GangEvents()
    told(events, at(0, waits()))
    assert told(events, at(10)) == []


def test_growth_that_the_cloud_refuses_is_not_told_to_the_gang() -> None:
    assert told(GangEvents(), at(0, placed(on_new_nodes_count=8))) == []


def test_nodes_that_came_for_nothing_are_named() -> None:
    useless = waits(release={"nodes": ["n1", "n2"], "upcoming": {"gpu-a": 3}})
    first, second = GangEvents().of(at(0, useless))
    assert (first.reason, second.type, second.reason) == (WAITS, WARNING, USELESS)
    assert second.message.endswith("to be removed: n1, n2; still to come: 3 of gpu-a")


def test_events_are_about_the_object_that_exists() -> None:
    uids = {(VOLCANO_POD_GROUP, "ml", "train"): "v-1"}
    (event,) = GangEvents(uid_of=lambda *key: uids.get(key, "")).of(at(0, waits()))
    assert (event.subject.kind, event.subject.uid) == (VOLCANO_POD_GROUP, "v-1")
    assert GangEvents(uid_of=lambda *_: "").of(at(0, waits())) == []


def test_a_failed_scale_up_ends_no_wait() -> None:
    events = GangEvents()
    told(events, at(0, placed()))
    failed = at(10)
    failed.answer.ClearField("scale_up")
    assert told(events, failed) == []
    assert told(events, at(20)) == [(NORMAL, WHOLE)]


def test_waiting_gangs_and_their_time_are_figures() -> None:
    reader = InMemoryMetricReader()
    events = GangEvents(MeterProvider([reader]).get_meter("test"))
    events.of(at(0, waits()))
    assert figures(reader)["trimtab_waiting_gangs"]["MAX_SIZE_REACHED"] == 1
    events.of(at(10, placed()))
    events.of(at(40))
    found = figures(reader)
    assert found["trimtab_waiting_gangs"]["MAX_SIZE_REACHED"] == 0
    assert found["trimtab_time_to_full_gang"][""] == 40


def figures(reader: InMemoryMetricReader) -> dict[str, dict[str, float]]:
    """Return the figures by name and reason; of a histogram, the sum."""
    data = reader.get_metrics_data()
    assert data is not None
    found: dict[str, dict[str, float]] = {}
    for one in data.resource_metrics[0].scope_metrics[0].metrics:
        for point in one.data.data_points:
            value: Any = getattr(point, "value", None)
            key = str((point.attributes or {}).get("reason", ""))
            found.setdefault(one.name, {})[key] = point.sum if value is None else value  # type: ignore[union-attr]
    return found
