"""Failed activities of the cloud put a group into back-off at once, and durably."""

from collections.abc import Sequence

from tests.builders.actuator import START_S, Stage, small_cluster
from trimtab.actuator.cloud.provider import Activity
from trimtab.actuator.node_groups.loop import ActivityWatcher
from trimtab.actuator.node_groups.reconciler import NodeGroupReconciler
from trimtab.actuator.settings import BackoffPolicy
from trimtab.clients.simulation.cloud.provider import MemoryCloud
from trimtab.v1 import actuator_pb2, plan_pb2, snapshot_pb2


class Cloud(MemoryCloud):
    """The simulated cluster's cloud, with activities set by a test."""

    failed: Sequence[Activity] = ()

    def activities(self, group: str) -> Sequence[Activity]:
        return self.failed


def grow(stage: Stage, request_id: str, size: int) -> None:
    split = plan_pb2.ScaleUpSplit(node_group="g", current_size=size, new_size=size + 1)
    stage.actuator.growths.begin(actuator_pb2.ScaleUpRequest(request_id=request_id, splits=[split]))
    stage.run()


def failure(number: int, start_ms: int = 0) -> Activity:
    return Activity(f"a{number}", "g", True, start_ms, f"no capacity, {number}")


def staged(backoff: BackoffPolicy = BackoffPolicy.EXPONENTIAL) -> tuple[Stage, Cloud, ActivityWatcher]:
    stage = Stage(small_cluster())
    cloud = Cloud(stage.cluster)
    return stage, cloud, ActivityWatcher(stage.actuator.processor, cloud, backoff)


def backoff_s(stage: Stage) -> float | None:
    """Return the remaining back-off of the group; None = it is healthy."""
    (group,) = stage.status().node_groups
    if group.health != snapshot_pb2.NodeGroupHealth.BACKED_OFF:
        return None
    return group.backoff_until.seconds - stage.time.now_s


def test_a_failed_activity_of_a_group_that_grows_backs_it_off_at_once_and_over_a_restart() -> None:
    stage, cloud, watch = staged()
    grow(stage, "r1", 8)
    assert backoff_s(stage) is None
    cloud.failed = [failure(1)]
    for _ in range(3):
        watch.step()
    left_s = backoff_s(stage)
    assert left_s is not None
    assert 295 <= left_s <= 300
    stage.boot()
    assert backoff_s(stage) == left_s
    (group,) = stage.status().node_groups
    assert group.health_detail == "no capacity, 1"


def test_a_group_that_does_not_grow_is_not_backed_off_and_old_failures_do_not_count() -> None:
    stage, cloud, watch = staged()
    cloud.failed = [failure(1)]
    watch.step()
    assert backoff_s(stage) is None
    grow(stage, "r1", 8)
    cloud.failed = [failure(2, int((START_S - 3600) * 1000))]
    watch.step()
    assert backoff_s(stage) is None


def test_the_pause_doubles_with_the_next_growth_that_fails_not_with_each_instance() -> None:
    stage, cloud, watch = staged()
    grow(stage, "r1", 8)
    cloud.failed = [failure(3), failure(2), failure(1)]
    watch.step()
    first_s = backoff_s(stage)
    assert first_s is not None
    assert first_s <= 300
    stage.time.now_s += 400
    assert backoff_s(stage) is None
    grow(stage, "r2", 9)
    cloud.failed = [failure(4)]
    watch.step()
    second_s = backoff_s(stage)
    assert second_s is not None
    assert 595 <= second_s <= 600


def test_until_a_node_joins_a_failed_activity_leaves_one_requested_and_is_reported_once() -> None:
    stage, cloud, watch = staged(BackoffPolicy.UNTIL_JOINED)
    reconciler = NodeGroupReconciler(
        stage.actuator.processor, stage.cluster, cloud, stage.settings.groups, stage.settings.present_limits
    )
    split = plan_pb2.ScaleUpSplit(node_group="g", current_size=8, new_size=12)
    stage.actuator.growths.begin(actuator_pb2.ScaleUpRequest(request_id="r", splits=[split]))
    stage.run_for(1)
    cloud.failed = [failure(2), failure(1)]
    for _ in range(3):
        watch.step()
        reconciler.step()
    (group,) = stage.status().node_groups
    assert (group.health, group.target_size) == (snapshot_pb2.NodeGroupHealth.BACKED_OFF, 9)
    assert (group.HasField("backoff_until"), group.health_detail) == (False, "no capacity, 1")
    stage.run_for(30)
    reconciler.step()
    watch.step()
    (group,) = stage.status().node_groups
    assert group.health == snapshot_pb2.NodeGroupHealth.UNSPECIFIED
    assert len(stage.cluster.state.nodes) == 9
