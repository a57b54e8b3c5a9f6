"""Requests without gRPC: bounds, stage times, cache."""

import math
import time
from types import SimpleNamespace

import pytest
from opentelemetry.metrics import NoOpMeterProvider

from trimtab.common.rpc.errors import Reason, ServiceError
from trimtab.planner.service import measurement
from trimtab.planner.service.measurement import Instruments, StopWatch
from trimtab.planner.service.request_handler import Caller, RequestHandler
from trimtab.planner.service.request_limits import Bounds
from trimtab.planner.service.session import CachedSnapshot
from trimtab.planner.service.warm_up import NOW_S, small_cluster
from trimtab.planner.snapshot.caches import SnapshotKey
from trimtab.planner.snapshot.columns import Snapshot
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2

METER = NoOpMeterProvider().get_meter("test")
PAYLOAD = small_cluster().SerializeToString()


def request() -> plan_pb2.PlanRequest:
    """Return a request for scale-down."""
    message = plan_pb2.PlanRequest(decisions=[plan_pb2.Decision.SCALE_DOWN])
    message.now.seconds = NOW_S
    return message


def handler() -> RequestHandler:
    """Return a handler with a cache that logs nothing."""
    return RequestHandler(METER, 1 << 20, log_decisions=False)


def test_a_simulation_without_time_still_says_something_of_every_node() -> None:
    answer = handler().plan(request(), PAYLOAD, Caller("", Bounds(simulate_until_s=0.0)))
    nodes = [one.node for one in answer.nodes]
    assert sorted(nodes) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("bounds", "reason"),
    [
        pytest.param(Bounds(deadline_s=0.0), Reason.DEADLINE_EXCEEDED, id="deadline passed"),
        pytest.param(Bounds(is_wanted=lambda: False), Reason.CANCELLED, id="caller gone"),
    ],
)
def test_no_stage_begins_when_the_caller_is_gone(bounds: Bounds, reason: int) -> None:
    with pytest.raises(ServiceError) as caught:
        handler().plan(request(), PAYLOAD, Caller("", bounds))
    assert caught.value.reason == reason


@pytest.mark.parametrize("remaining_s", [0.01, 1.0, 60.0])
def test_a_simulation_stops_before_the_deadline(remaining_s: float) -> None:
    before_s = time.monotonic()
    bounds = Bounds.within(remaining_s)
    assert 0 < bounds.deadline_s - bounds.simulate_until_s <= 2.0 + 1e-9
    assert before_s + remaining_s <= bounds.deadline_s <= time.monotonic() + remaining_s


def test_without_a_deadline_nothing_is_bounded() -> None:
    assert Bounds.within(None).deadline_s == math.inf
    assert Bounds.within(None).time_left()


def test_a_stage_inside_another_is_not_counted_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = iter([0.0, 1.0, 21.0, 22.0, 42.0, 43.0])
    monkeypatch.setattr(measurement, "time", SimpleNamespace(perf_counter=lambda: next(now_s)))
    watch = StopWatch(Bounds(), Instruments(METER))
    with watch.stage("outer"):
        with watch.stage("inner"):
            pass
        with watch.stage("inner"):
            pass
    assert list(watch.milliseconds().items()) == [("outer", 3_000.0), ("inner", 40_000.0)]


def test_compiling_is_a_stage_of_its_own_and_no_time_of_the_stage_that_needed_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = iter([0.0, 10.0, 30.0, 35.0, 35.0, 40.0])
    compiled_s = iter([5.0, 7.0, 22.0, 23.0, 23.0, 25.0])
    monkeypatch.setattr(measurement, "time", SimpleNamespace(perf_counter=lambda: next(now_s)))
    monkeypatch.setattr(measurement, "compile_seconds", lambda: next(compiled_s))
    watch = StopWatch(Bounds(), Instruments(METER))
    with watch.stage("outer"):
        with watch.stage("inner"):
            pass
        with watch.stage("inner"):
            pass
    # Of 40 s, 20 s are compiled: 2 s before the inner stage, 15 s in it, 3 s after it.
    assert watch.milliseconds() == {"outer": 15_000.0, "inner": 5_000.0, measurement.COMPILE: 20_000.0}


class ListKey(SnapshotKey[list[int]]):
    """The key of a list."""


def test_what_is_derived_from_a_snapshot_is_built_once() -> None:
    kept = CachedSnapshot(canonicalize(small_cluster()))
    built: list[int] = []

    def build(snapshot: Snapshot) -> list[int]:
        del snapshot
        built.append(1)
        return built

    before, key = kept.size(), ListKey()
    assert kept.get(key, kept.snapshot, build) is kept.get(key, kept.snapshot, build)
    assert built == [1]
    assert kept.size() > before


def test_settings_that_have_no_effect_are_noted() -> None:
    message = request()
    message.settings.node_groups["absent"].utilization_threshold = 0.1
    notes = list(handler().plan(message, PAYLOAD, Caller()).summary.notes)
    assert any("'absent'" in note for note in notes)
