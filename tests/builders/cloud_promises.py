"""The guarantees of every cloud provider, each as a function of a cloud with the groups of `tests.builders.clouds`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from tests.builders.clouds import NO_NODES, World
from tests.builders.recorder import Recorder
from trimtab.actuator.cloud.provider import (
    CloudProvider,
    CloudRefusedError,
    GroupOptions,
    InstanceState,
    NodeGroupView,
    SizeChangedError,
)
from trimtab.actuator.runner.deleter import GroupDeleter
from trimtab.actuator.settings import DeleteSettings, WorkSettings
from trimtab.actuator.tracker import events as e
from trimtab.actuator.tracker.instructions import DeleteInstance

STARTED = frozenset({InstanceState.CREATING, InstanceState.RUNNING})


def view(cloud: CloudProvider, group: str = "g") -> NodeGroupView:
    cloud.refresh()
    return next(one for one in cloud.node_groups() if one.id == group)


def target(cloud: CloudProvider, group: str = "g") -> int:
    return view(cloud, group).target_size


def running(cloud: CloudProvider, group: str = "g") -> list[str]:
    cloud.refresh()
    return [one.id for one in cloud.instances([group])[group] if one.state is InstanceState.RUNNING]


def state(cloud: CloudProvider, instance: str, group: str = "g") -> InstanceState:
    cloud.refresh()
    return cloud.instance_states(group, [instance])[instance]


def groups_are_listed_by_id_with_their_sizes(world: World) -> None:
    assert list(world.cloud.node_groups()) == [NodeGroupView("g", 1, 6, 3, 3), NodeGroupView("h", 0, 2, 0, 0)]
    assert world.cloud.gpu_label


def instances_of_several_groups_are_listed_by_id_and_know_their_group(world: World) -> None:
    found = world.cloud.instances(["g", "h", "nowhere"])
    ids = [one.id for one in found["g"]]
    assert (len(ids), ids, found["h"], found["nowhere"]) == (3, sorted(set(ids)), [], [])
    assert {one.state for one in found["g"]} == {InstanceState.RUNNING}
    assert {one.error for one in found["g"]} == {None}
    assert world.cloud.groups_of([ids[1], "never-seen", ids[0]]) == {ids[0]: "g", ids[1]: "g"}


def a_group_grows_once_for_each_token(world: World) -> None:
    for _ in range(2):
        world.cloud.set_size("g", 3, 5, "token")
        assert target(world.cloud) == 5
    assert world.cloud.was_set("g", 5, "token")
    assert not world.cloud.was_set("g", 6, "other")


def instances_are_listed_before_they_run(world: World) -> None:
    before = set(running(world.cloud))
    world.cloud.set_size("g", 3, 5, "token")
    world.cloud.refresh()
    listed = world.cloud.instances(["g"])["g"]
    assert len(listed) == 5
    assert {one.state for one in listed} <= STARTED
    world.settle()
    after = running(world.cloud)
    assert len(after) == 5
    assert before < set(after)


def instances_that_have_not_started_know_their_group_and_can_be_deleted(world: World) -> None:
    before = {one.id for one in world.cloud.instances(["g"])["g"]}
    world.cloud.set_size("g", 3, 5, "token")
    world.cloud.refresh()
    new = sorted({one.id for one in world.cloud.instances(["g"])["g"]} - before)
    assert world.cloud.groups_of(new) == dict.fromkeys(new, "g")
    assert len(new) == 2
    assert world.cloud.delete_instances("g", new) == {}
    assert target(world.cloud) == 3


def a_growth_from_another_size_beyond_the_maximum_or_of_no_group_is_refused(world: World) -> None:
    with pytest.raises(SizeChangedError, match="has size 3, not 4 as expected"):
        world.cloud.set_size("g", 4, 5, "a")
    with pytest.raises(CloudRefusedError, match="size 7 exceeds the maximum 6"):
        world.cloud.set_size("g", 3, 7, "b")
    with pytest.raises(CloudRefusedError, match="nowhere"):
        world.cloud.set_size("nowhere", 0, 1, "c")
    assert target(world.cloud) == 3


def a_deletion_lowers_the_target_in_the_same_step_and_once(world: World) -> None:
    victim = running(world.cloud)[1]
    for _ in range(3):
        assert world.cloud.delete_instances("g", [victim]) == {}
        assert target(world.cloud) == 2
    assert state(world.cloud, victim) in (InstanceState.DELETING, InstanceState.GONE)
    world.settle()
    # If a cloud only lists what exists, a single read could return an older list, and so could several of one moment.
    for _ in range(3):
        found = state(world.cloud, victim)
        world.settle()
    assert found is InstanceState.GONE
    assert victim not in running(world.cloud)
    assert view(world.cloud) == NodeGroupView("g", 1, 6, 2, 2)


def an_instance_that_was_deleted_is_not_replaced_nor_deleted_again(world: World) -> None:
    victim = running(world.cloud)[0]
    world.cloud.delete_instances("g", [victim])
    world.settle()
    assert world.cloud.delete_instances("g", [victim]) == {}
    world.settle()
    assert view(world.cloud) == NodeGroupView("g", 1, 6, 2, 2)


def what_is_not_in_the_group_is_unknown_and_refused(world: World) -> None:
    (known, *_) = running(world.cloud)
    assert state(world.cloud, "never-seen") is InstanceState.UNKNOWN
    failed = world.cloud.delete_instances("g", ["never-seen"])
    assert isinstance(failed["never-seen"], CloudRefusedError)
    failed = world.cloud.delete_instances("h", [known])
    assert isinstance(failed[known], CloudRefusedError)
    assert (target(world.cloud), target(world.cloud, "h"), len(running(world.cloud))) == (3, 0, 3)


def of_several_deletions_the_possible_ones_are_made(world: World) -> None:
    victim = running(world.cloud)[2]
    failed = world.cloud.delete_instances("g", ["never-seen", victim])
    assert list(failed) == ["never-seen"]
    assert target(world.cloud) == 2


def no_deletion_goes_below_the_minimum(world: World) -> None:
    ids = running(world.cloud)
    failed = world.cloud.delete_instances("g", ids)
    assert [type(error) for error in failed.values()] == [CloudRefusedError]
    assert target(world.cloud) == 1
    world.settle()
    assert len(running(world.cloud)) == 1


def a_target_is_not_lowered_below_what_runs(world: World) -> None:
    with pytest.raises(CloudRefusedError, match="3 instances"):
        world.cloud.decrease_target("g", 3, 2)
    with pytest.raises(SizeChangedError, match="has size 3, not 5 as expected"):
        world.cloud.decrease_target("g", 5, 4)
    with pytest.raises(CloudRefusedError, match="nowhere"):
        world.cloud.decrease_target("nowhere", 1, 0)
    world.cloud.decrease_target("g", 4, 3)
    assert (target(world.cloud), len(running(world.cloud))) == (3, 3)


def a_template_has_the_resources_of_a_new_node(world: World) -> None:
    template = world.cloud.template("g")
    assert template is not None
    assert template.capacity["cpu"] == template.allocatable["cpu"] == "8"
    assert template.labels["pool"] == "a"
    assert [(taint.key, taint.value, taint.effect) for taint in template.taints] == [("team", "web", "NoSchedule")]
    small = world.cloud.template("h")
    assert small is not None
    assert small.capacity["cpu"] == "4"
    assert world.cloud.template("nowhere") is None


def prices_and_options_are_those_of_the_group(world: World) -> None:
    assert world.cloud.price_per_hour("g") == 0.4
    assert world.cloud.price_per_hour("nowhere") is None
    assert world.cloud.options("g").scale_down_unneeded_s == 420.0
    assert world.cloud.options("g").scale_down_unready_s is None
    assert world.cloud.options("nowhere") == GroupOptions()


def a_healthy_group_has_no_failed_activity(world: World) -> None:
    assert [one for one in world.cloud.activities("g") if one.failed] == []


CALL_S = 0.15
"""Time of each call behind a slow cloud; one of ours makes up to ten of them."""


def what_a_slow_cloud_is_asked_for_is_done_once(world: World) -> None:
    (victim, *_) = running(world.cloud)
    world.slow(CALL_S)
    for _ in range(2):
        world.cloud.set_size("g", 3, 5, "token")
        assert target(world.cloud) == 5
    world.slow(0.0)
    world.settle()
    world.slow(CALL_S)
    for _ in range(2):
        assert world.cloud.delete_instances("g", [victim]) == {}
        assert target(world.cloud) == 4
    assert state(world.cloud, victim) in (InstanceState.DELETING, InstanceState.GONE)


def a_deletion_in_a_slow_cloud_is_given_up_in_time(world: World) -> None:
    (victim, *_) = running(world.cloud)
    world.slow(CALL_S)
    # Whatever the cloud does, the instance remains.
    cloud: Any = Staying(world.cloud)
    recorder, delete = StepRecorder(), DeleteSettings(timeout_s=2.0, poll_s=0.01, retry_s=0.01, repeat_s=0.5)
    deleter = GroupDeleter("g", NO_NODES, cloud, recorder, WorkSettings(delete=delete))
    deleter.want(DeleteInstance("n1", "g", victim, ""))
    while deleter.step() is not None:
        recorder.steps += 1
    assert [type(event) for event in recorder.events] == [e.DeleteAccepted, e.DeletionFailed]
    late_ms = recorder.steady_ms() - delete.timeout_s * 1_000
    assert 0 <= late_ms <= StepRecorder.STEP_MS
    world.slow(0.0)
    assert target(world.cloud) == 2, "it was requested once"


class StepRecorder(Recorder):
    """Records events by a clock of steps, a quarter of a second each: real calls take longer on a busy machine."""

    STEP_MS = 250
    steps = 0

    def steady_ms(self) -> int:
        return self.STEP_MS * self.steps


class Staying:
    """A cloud whose instances stay."""

    def __init__(self, cloud: CloudProvider) -> None:
        self._cloud = cloud
        self.delete_instances, self.forget = cloud.delete_instances, cloud.forget

    def instance_states(self, group: str, instances: Sequence[str]) -> Mapping[str, InstanceState]:
        self._cloud.refresh()
        self._cloud.instance_states(group, instances)
        return dict.fromkeys(instances, InstanceState.RUNNING)


PROMISES: tuple[Callable[[World], None], ...] = (
    groups_are_listed_by_id_with_their_sizes,
    instances_of_several_groups_are_listed_by_id_and_know_their_group,
    a_group_grows_once_for_each_token,
    instances_are_listed_before_they_run,
    instances_that_have_not_started_know_their_group_and_can_be_deleted,
    a_growth_from_another_size_beyond_the_maximum_or_of_no_group_is_refused,
    a_deletion_lowers_the_target_in_the_same_step_and_once,
    an_instance_that_was_deleted_is_not_replaced_nor_deleted_again,
    what_is_not_in_the_group_is_unknown_and_refused,
    of_several_deletions_the_possible_ones_are_made,
    no_deletion_goes_below_the_minimum,
    a_target_is_not_lowered_below_what_runs,
    a_template_has_the_resources_of_a_new_node,
    prices_and_options_are_those_of_the_group,
    a_healthy_group_has_no_failed_activity,
    what_a_slow_cloud_is_asked_for_is_done_once,
    a_deletion_in_a_slow_cloud_is_given_up_in_time,
)
