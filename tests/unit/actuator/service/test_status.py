"""The status: order, expiry, and the bytes that are kept from one status to the next."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from tests.builders.actuator import START_S, Stage, small_cluster
from trimtab.actuator.cloud.provider import CloudRefusedError
from trimtab.actuator.kube.cluster import hard_taint
from trimtab.actuator.service.metrics import Metrics
from trimtab.actuator.service.servicer import ActuatorServicer
from trimtab.actuator.service.status import StatusParts, StatusWriter, eviction_message, timestamp
from trimtab.actuator.tracker.events import (
    ClockJumped,
    DeleteAccepted,
    DeleteBegun,
    Event,
    InstanceGone,
    NodeEmpty,
    PlannedNode,
    PodsEvicted,
    SetAccepted,
    SetTainted,
)
from trimtab.actuator.tracker.states import NodeAnswer, PodRef, Retention, State
from trimtab.actuator.tracker.tracker import Tracker
from trimtab.clients.followed_status import FollowedStatus
from trimtab.clients.simulation.cluster.faults import Fault
from trimtab.common.kubernetes.names import HARD_TAINT_KEY
from trimtab.v1 import actuator_pb2, plan_pb2, snapshot_pb2


def pod(number: int) -> PodRef:
    return PodRef("default", f"web-{number % 7}", f"uid-{number}", "ReplicaSet", "web", "uid-rs")


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=30))
def test_recent_evictions_are_those_not_forgotten_sorted_by_time_then_pod(steps: list[tuple[int, bool]]) -> None:
    tracker, writer, now_ms = Tracker(Retention(evictions_s=5)), StatusWriter(), 10_000
    for number, (seconds, look) in enumerate(steps):
        now_ms += seconds * 1000
        tracker.handle(PodsEvicted("n1", (pod(number), pod(number + 1000))), now_ms)
        if look:
            now_ms += 500 * (seconds % 2)
            expected = [kept for kept in tracker.data.evictions.values() if kept.time_ms >= now_ms - 5000]
            expected.sort(key=lambda kept: (kept.time_ms, kept.pod.key, kept.pod.uid))
            status = writer.write(tracker, now_ms, True).message()
            assert list(status.recent_evictions) == [eviction_message(kept) for kept in expected]


def test_finished_deletions_can_be_left_out() -> None:
    stage = Stage(small_cluster())
    stage.start(stage.request("r", "n6", "n7", drain=False))
    stage.run()
    assert [d.node for d in stage.actuator.status(with_finished=True).message().finished] == ["n6", "n7"]
    assert not stage.actuator.status(with_finished=False).message().finished


def next_events(tracker: Tracker, node: str, number: int) -> list[Event]:
    """Return the next events of a node: its deletion starts, advances by a step, or ends."""
    if node not in tracker.data.deletions:
        request_id = f"r{number}"
        planned = (PlannedNode(node, "g", drain=False),)
        return [SetAccepted(request_id, "digest", planned, (NodeAnswer(node, True),), 60.0), SetTainted(request_id)]
    after: dict[State, Event] = {
        State.TAINTED: NodeEmpty(node),
        State.DRAINED: DeleteBegun(node),
        State.DELETING: DeleteAccepted(node),
        State.DELETED: InstanceGone(node),
    }
    state = tracker.data.deletions[node].state
    return [after.get(state, InstanceGone(node))]


STEPS = st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.integers(0, 40)), max_size=30)


@given(STEPS, st.booleans())
def test_changes_applied_to_a_status_are_the_later_status(
    steps: list[tuple[int, bool, int]], with_finished: bool
) -> None:
    tracker, writer, now_ms = Tracker(Retention(evictions_s=5, finished_s=7)), StatusWriter(), 10_000
    followed, base = FollowedStatus(), None
    for number, (seconds, look, what) in enumerate(steps):
        now_ms += seconds * 1000
        if what == 0:
            tracker.handle(ClockJumped(60_000), now_ms)
            now_ms += 60_000
        elif what % 4 == 0:
            tracker.handle(PodsEvicted("another", (pod(number), pod(number + 1000))), now_ms)
        else:
            for event in next_events(tracker, f"n{what % 4}", number):
                tracker.handle(event, now_ms)
        if look:
            written = writer.write(tracker, now_ms, with_finished, base=base)
            followed.apply(actuator_pb2.WatchStatusResponse.FromString(written.response))
            fresh = StatusWriter().write(tracker, now_ms, with_finished)
            assert followed.status() == fresh.message()
            assert writer.write(tracker, now_ms, with_finished).response == fresh.response
            base = written.parts


def test_changes_of_node_groups_are_sent_and_those_that_stay_are_not() -> None:
    stage, followed, sent = Stage(small_cluster()), FollowedStatus(), []
    stage.start(stage.request("r", "n0", "n1", "n6"))
    base: StatusParts | None = None
    while stage.time.step():
        with stage.looking():
            written = stage.actuator.status(True, base=base)
            whole = stage.actuator.status(True).message()
        response = actuator_pb2.WatchStatusResponse.FromString(written.response)
        followed.apply(response)
        assert followed.status() == whole
        sent.append(response)
        base = written.parts
    assert [response.HasField("change") for response in sent] == [False] + [True] * (len(sent) - 1)
    assert {len(response.change.node_groups) for response in sent[1:]} == {0, 1}
    assert len(followed.status().finished) == 3


def test_a_change_of_another_status_is_refused() -> None:
    followed = FollowedStatus()
    followed.apply(actuator_pb2.WatchStatusResponse(status=actuator_pb2.ActuatorStatus(revision=4)))
    change = actuator_pb2.StatusChange(base_revision=5, revision=6)
    with pytest.raises(ValueError, match="a change of revision 5 came after revision 4"):
        followed.apply(actuator_pb2.WatchStatusResponse(change=change))


def test_a_response_in_bytes_is_the_message() -> None:
    stage = Stage(small_cluster())
    stage.start(stage.request("r", "n0", "n6"))
    stage.run_for(3)
    with stage.looking():
        status = stage.actuator.status(with_finished=True)
    for kind in (actuator_pb2.GetStatusResponse, actuator_pb2.WatchStatusResponse):
        assert kind.FromString(status.response) == kind(status=status.message())
    assert status.revision == status.message().revision > 0


def test_a_group_tells_when_it_last_grew_shrank_and_failed() -> None:
    stage = Stage(small_cluster())
    split = plan_pb2.ScaleUpSplit(node_group="g", current_size=8, new_size=9)
    stage.actuator.growths.begin(actuator_pb2.ScaleUpRequest(request_id="grow", splits=[split]))
    stage.run_for(10)
    (group,) = stage.status().node_groups
    assert group.last_scale_up_time.seconds == START_S
    assert not group.HasField("last_deletion_time")
    stage.cluster.faults.add(Fault("delete_instances", error=CloudRefusedError("protected")))
    stage.start(stage.request("r", "n6", drain=False))
    stage.run()
    (group,) = stage.status().node_groups
    assert group.last_deletion_time.seconds == START_S + 10
    assert group.last_failure_time.seconds > START_S + 10


def test_a_group_whose_growth_fails_is_backed_off_for_longer_each_time_until_one_succeeds() -> None:
    stage = Stage(small_cluster())

    def grow(number: int, refused: bool) -> actuator_pb2.NodeGroupStatus:
        if refused:
            stage.cluster.faults.add(Fault("set_size", error=CloudRefusedError("no quota left"), times=1))
        split = plan_pb2.ScaleUpSplit(node_group="g", current_size=8, new_size=9)
        stage.actuator.growths.begin(actuator_pb2.ScaleUpRequest(request_id=f"grow-{number}", splits=[split]))
        stage.run_for(1)
        (group,) = stage.status().node_groups
        return group

    begun_s = START_S
    for number, backoff_s in enumerate((300, 600, 1200, 1800, 1800)):
        group = grow(number, refused=True)
        assert group.health == snapshot_pb2.NodeGroupHealth.BACKED_OFF
        assert group.backoff_until.seconds == begun_s + backoff_s
        assert "no quota left" in group.health_detail
        begun_s += 1
    group = grow(9, refused=False)
    assert group.health == snapshot_pb2.NodeGroupHealth.UNSPECIFIED
    assert not group.HasField("backoff_until")


def test_a_back_off_ends_and_a_size_that_had_changed_begins_none() -> None:
    stage = Stage(small_cluster())
    split = plan_pb2.ScaleUpSplit(node_group="g", current_size=7, new_size=9)
    stage.actuator.growths.begin(actuator_pb2.ScaleUpRequest(request_id="stale", splits=[split]))
    stage.run_for(1)
    (group,) = stage.status().node_groups
    assert group.health == snapshot_pb2.NodeGroupHealth.UNSPECIFIED
    stage.cluster.faults.add(Fault("set_size", error=CloudRefusedError("no quota left"), times=1))
    split.current_size = 8
    stage.actuator.growths.begin(actuator_pb2.ScaleUpRequest(request_id="refused", splits=[split]))
    stage.run_for(1)
    assert stage.status().node_groups[0].health == snapshot_pb2.NodeGroupHealth.BACKED_OFF
    stage.run_for(300)
    assert stage.status().node_groups[0].health == snapshot_pb2.NodeGroupHealth.UNSPECIFIED


def test_a_status_tells_node_groups_with_their_deletions() -> None:
    stage = Stage(small_cluster())
    stage.start(stage.request("r", "n0", "n6"))
    (group,) = stage.status().node_groups
    group.ClearField("template")
    assert group == actuator_pb2.NodeGroupStatus(
        id="g",
        min_size=0,
        max_size=18,
        target_size=8,
        instance_count=8,
        deletion_count=2,
        last_deletion_time=timestamp(int(START_S * 1000)),
    )


def test_nodes_with_an_unknown_taint_are_measured() -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider(metric_readers=[reader])
    stage = Stage(small_cluster())
    stage.actuator.metrics = metrics = Metrics(provider.get_meter("test"))
    metrics.watch(stage.actuator.processor)
    stage.cluster.add_taint("n1", hard_taint(0))
    stage.start(stage.request("r", "n0"))
    stage.actuator.start()
    assert points(reader, "unknown_taints") == {(): 1}
    stage.cluster.remove_taint("n1", HARD_TAINT_KEY)
    ActuatorServicer(stage.actuator).ApplyTaints(actuator_pb2.ApplyTaintsRequest(), None)  # type: ignore[arg-type]
    assert points(reader, "unknown_taints") == {(): 0}
    provider.shutdown()


def test_deletions_are_measured_by_kind_result_and_state() -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider(metric_readers=[reader])
    stage = Stage(small_cluster())
    metrics = Metrics(provider.get_meter("test"))
    metrics.watch(stage.actuator.processor)
    stage.start(stage.request("r", "n0"))
    stage.start(stage.request("e", "n6", drain=False))
    assert points(reader, "deletions_in_progress")["1m", "TAINTED"] == 2
    stage.time.now_s += 120
    assert points(reader, "deletions_in_progress")["1m", "TAINTED"] == 0
    assert points(reader, "deletions_in_progress")["10m", "TAINTED"] == 2
    stage.actuator.deletions.begin_cancel(["n0"], "")
    stage.run()
    assert points(reader, "scaled_down_nodes") == {("empty",): 1}
    assert points(reader, "failed_scale_downs") == {("drain", "CANCELLED"): 1}
    assert points(reader, "scale_down_duration") == {("empty",): 1}
    provider.shutdown()


def points(reader: InMemoryMetricReader, name: str) -> dict[tuple[object, ...], float]:
    """Return values (counts of a histogram) by label values, in the order of the labels' names."""
    data = reader.get_metrics_data()
    assert data is not None
    found = {}
    for resource in data.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                for point in metric.data.data_points if metric.name == name else ():
                    labels = tuple(value for _, value in sorted((point.attributes or {}).items()))
                    found[labels] = getattr(point, "value", None) or getattr(point, "count", 0)
    return found
