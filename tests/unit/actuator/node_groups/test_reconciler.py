"""Groups whose nodes do not join enter back-off, instances that never register are deleted, each once and in time."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from tests.builders.actuator import SETTINGS
from tests.builders.node_group_controllers import GROUPS, PROVISION_S, ReconcilerStage
from trimtab.actuator.cloud.provider import CloudRefusedError, GroupOptions, Instance, InstanceError
from trimtab.actuator.kube.cluster import TaintView
from trimtab.actuator.node_groups.reconciler import _ObservedGroups
from trimtab.actuator.settings import BackoffPolicy
from trimtab.actuator.tracker import events as e
from trimtab.clients.simulation.cluster.faults import Fault


def test_nodes_that_join_in_time_back_nothing_off() -> None:
    stage = ReconcilerStage()
    stage.grow("r", 2, by=3)
    stage.look_for(2 * PROVISION_S)
    assert not stage.is_backed_off
    assert (stage.target("g"), len(stage.cluster.state.nodes)) == (5, 5)
    assert stage.actuator.processor.read(lambda tracker, _: tracker.data.awaited) == {}


def test_a_scale_up_without_nodes_leaves_one_requested_and_waits_for_it_indefinitely() -> None:
    stage = ReconcilerStage(out="g")
    stage.grow("r", 2, by=3)
    stage.look_for(PROVISION_S - 20)
    assert (stage.is_backed_off, stage.target("g")) == (False, 5)
    stage.look_for(40)
    assert (stage.is_backed_off, stage.target("g")) == (True, 3)
    assert not stage.group.HasField("backoff_until")
    assert stage.group.health_detail == "3 of 5 nodes have not joined within 420 s"
    stage.look_for(8 * 3600)
    assert (stage.is_backed_off, stage.target("g")) == (True, 3)


@pytest.mark.parametrize(("option", "waited_s"), [("20m", 1200), ("soon", PROVISION_S)])
def test_an_option_of_the_group_counts_if_it_can_be_read(option: str, waited_s: float) -> None:
    stage = ReconcilerStage(out="g", option=option)
    stage.grow("r", 2, by=3)
    stage.look_for(waited_s - 20)
    assert not stage.is_backed_off
    stage.look_for(40)
    assert stage.is_backed_off


def test_a_check_that_fails_in_an_unforeseen_way_is_not_the_last_one() -> None:
    stage = ReconcilerStage(out="g")
    watch, calls = stage.actuator.node_group_loop(), []

    def fails(group: str) -> GroupOptions:
        calls.append(group)
        raise KeyError(group)

    stage.cloud.options = fails  # type: ignore[method-assign]
    stage.grow("r", 2)
    for _ in range(60):
        stage.run_for(10)
        watch.step()
    assert len(calls) > 1


def test_the_node_that_joins_ends_the_back_off_over_restarts() -> None:
    stage = ReconcilerStage(out="g")
    stage.grow("r", 2, by=3)
    stage.look_for(PROVISION_S + 20)
    stage.restart()
    assert stage.is_backed_off
    (late,) = [one for one in stage.cluster.state.instances.values() if one.start_due_ms and not one.gone_due_ms]
    late.start_due_ms = int(stage.time.now_s * 1000) + 1000
    stage.cluster.state.put_instance(late)
    stage.look_for(60)
    assert (stage.is_backed_off, stage.target("g"), len(stage.cluster.state.nodes)) == (False, 3, 3)


def test_a_target_that_somebody_lowers_ends_the_back_off() -> None:
    stage = ReconcilerStage(out="g")
    stage.grow("r", 2)
    stage.look_for(PROVISION_S + 20)
    assert stage.is_backed_off
    stage.cloud.decrease_target("g", 3, 2)
    stage.look_for(20)
    assert not stage.is_backed_off


def test_a_target_that_another_client_raised_is_reconciled_too() -> None:
    stage = ReconcilerStage(out="g")
    stage.cloud.set_size("g", 2, 6, "by hand")
    stage.look_for(PROVISION_S + 30)
    assert (stage.is_backed_off, stage.target("g")) == (True, 3)


def test_existing_nodes_and_the_minimum_are_never_dropped() -> None:
    stage = ReconcilerStage(out="g", count=2, least=2)
    stage.cloud.set_size("g", 2, 8, "token")
    stage.look_for(PROVISION_S + 30)
    assert (stage.target("g"), len(stage.cluster.state.nodes)) == (3, 2)


def test_a_later_scale_up_restarts_the_wait() -> None:
    stage = ReconcilerStage(out="g")
    stage.grow("r1", 2)
    stage.look_for(PROVISION_S - 60)
    stage.grow("r2", 3)
    stage.look_for(PROVISION_S - 60)
    assert (stage.is_backed_off, stage.target("g")) == (False, 4)
    stage.look_for(90)
    assert stage.is_backed_off


def test_with_timed_back_off_the_pause_doubles_and_no_further_node_is_requested() -> None:
    stage = ReconcilerStage(out="g", backoff=BackoffPolicy.EXPONENTIAL)
    pauses = []
    for number in range(5):
        stage.grow(f"r{number}", 2, by=2)
        stage.look_for(PROVISION_S + 20)
        assert (stage.is_backed_off, stage.target("g")) == (True, 2)
        began_s = stage.time.now_s
        while stage.is_backed_off:
            stage.look_for(10)
        pauses.append(round((stage.time.now_s - began_s) / 300))
    assert pauses == [1, 2, 4, 6, 6]
    stage.look_for(3 * 3600)
    stage.grow("later", 2, by=2)
    stage.look_for(PROVISION_S + 20)
    assert stage.group.backoff_until.seconds - stage.time.now_s <= 300


def test_a_change_of_the_strategy_ends_indefinite_waits() -> None:
    stage = ReconcilerStage(out="g")
    stage.grow("r", 2)
    stage.look_for(PROVISION_S + 20)
    stage.settings = replace(SETTINGS, groups=replace(GROUPS, backoff=BackoffPolicy.EXPONENTIAL))
    stage.restart()
    stage.look_for(20)
    assert not stage.is_backed_off


@pytest.mark.parametrize("key", ["example.org/checks-pending", "startup-taint.cluster-autoscaler.kubernetes.io/cni"])
def test_a_node_with_a_taint_of_its_start_has_not_joined(key: str) -> None:
    stage = ReconcilerStage()
    stage.grow("r", 2)
    stage.run_for(5)
    new = stage.new_node()
    stage.cluster.add_taint(new, TaintView(key, "", "NoSchedule"))
    stage.look_for(PROVISION_S + 20)
    assert (stage.is_backed_off, stage.target("g")) == (True, 3)
    stage.cluster.remove_taint(new, key)
    stage.look_for(20)
    assert not stage.is_backed_off


def test_a_node_that_was_ready_once_has_joined_for_good() -> None:
    stage = ReconcilerStage()
    stage.look_for(20)
    stage.cluster.add_taint("n1", TaintView("example.org/checks", "", "NoSchedule"))
    stage.look_for(2 * PROVISION_S)
    assert not stage.is_backed_off


def test_an_instance_that_never_registers_is_deleted_once() -> None:
    stage = ReconcilerStage(count=6)
    stage.look_for(20)
    lost = stage.lose("n3")
    stage.look_for(PROVISION_S - 20)
    assert stage.target("g") == 6
    stage.restart()
    stage.look_for(120)
    stage.run()
    assert (stage.target("g"), stage.noted("deleted")) == (5, ["n3"])
    assert stage.finished() == {"test://n3": ("DELETED", "UNSPECIFIED")}
    assert lost not in {one.provider_id for one in stage.cluster.state.instances.values()}
    stage.look_for(2 * PROVISION_S)
    assert stage.noted("deleted") == ["n3"]


def test_an_instance_that_registers_late_but_in_time_stays() -> None:
    stage = ReconcilerStage(count=6)
    with stage.looking():
        before = stage.cluster.state.nodes["n3"].node
    stage.lose("n3")
    stage.look_for(PROVISION_S - 60)
    with stage.cluster.transaction() as state:
        state.put_node(before)
    stage.look_for(2 * PROVISION_S)
    assert (stage.target("g"), stage.noted("deleted")) == (6, [])


def test_the_minimum_keeps_instances_that_never_register() -> None:
    stage = ReconcilerStage(count=6, least=6)
    stage.lose("n3")
    stage.look_for(2 * PROVISION_S)
    assert stage.target("g") == 6


def test_if_most_instances_have_no_node_none_is_deleted() -> None:
    stage = ReconcilerStage(count=6)
    for number in range(5):
        stage.lose(f"n{number}")
    stage.look_for(2 * PROVISION_S)
    assert stage.noted("deleted") == []


def test_in_a_group_that_is_backed_off_another_instance_takes_the_place_of_one_that_never_registered() -> None:
    stage = ReconcilerStage(count=6)
    stage.look_for(20)
    stage.grow("r", 6)
    stage.run_for(4)
    new = stage.new_node()
    stage.lose(new)
    stage.look_for(PROVISION_S + 30)
    assert stage.noted("deleted") == [new]
    stage.look_for(60)
    assert (stage.is_backed_off, stage.target("g"), len(stage.cluster.state.nodes)) == (False, 7, 7)


def fail_starts(stage: ReconcilerStage, count: int) -> list[str]:
    """Have the cloud report the starting instances requested first as failed; return their ids."""
    read = stage.cloud.instances
    with stage.looking():
        starting = [one.provider_id for one in stage.cluster.state.instances.values() if one.start_due_ms]
    failed = starting[:count]

    def instances(groups: Sequence[str]) -> Mapping[str, Sequence[Instance]]:
        error = InstanceError("StartFailed", "no capacity", out_of_resources=True)
        return {
            group: [one._replace(error=error) if one.id in failed else one for one in members]
            for group, members in read(groups).items()
        }

    stage.cloud.instances = instances  # type: ignore[method-assign]
    return failed


@pytest.mark.parametrize("backoff", BackoffPolicy)
def test_of_a_growth_that_another_autoscaler_requested_only_failed_instances_end(backoff: BackoffPolicy) -> None:
    stage = ReconcilerStage(out="g", backoff=backoff, sized_by_caller=True)
    stage.grow("r", 2, by=12)
    failed = fail_starts(stage, 3)
    stage.look_for(PROVISION_S - 20)
    assert (stage.target("g"), stage.noted("deleted")) == (14, [])
    stage.look_for(60)
    assert stage.is_backed_off
    stage.look_for(2 * PROVISION_S)
    with stage.looking():
        left = {one.provider_id for one in stage.cluster.state.instances.values()}
    assert (stage.target("g"), len(left)) == (11, 11)
    assert left.isdisjoint(failed)


def test_a_failed_instance_that_the_cloud_keeps_is_not_requested_again_at_once() -> None:
    stage = ReconcilerStage(out="g", sized_by_caller=True)
    stage.grow("r", 2, by=2)
    fail_starts(stage, 1)
    stage.cluster.faults.add(Fault("delete_instances", error=CloudRefusedError("protected")))
    stage.look_for(PROVISION_S + 100)
    assert len(stage.finished()) == 1
    assert len(stage.actuator.processor.read(lambda tracker, _: list(tracker.data.finished))) == 1


def test_an_instance_that_another_autoscaler_requested_and_that_never_registers_is_left_to_it() -> None:
    stage = ReconcilerStage(count=6, sized_by_caller=True)
    stage.look_for(20)
    stage.lose("n3")
    stage.look_for(3 * PROVISION_S)
    assert (stage.target("g"), stage.noted("deleted")) == (6, [])


def test_the_node_that_joins_ends_the_back_off_where_another_autoscaler_sets_the_sizes() -> None:
    stage = ReconcilerStage(sized_by_caller=True)
    stage.grow("r", 2, by=2)
    stage.actuator.processor.submit(e.GroupBackedOff("g", "start", "no capacity"))
    assert stage.is_backed_off
    stage.look_for(30)
    assert (stage.is_backed_off, stage.target("g")) == (False, 4)


def test_instances_whose_ids_end_alike_are_deleted_one_by_one() -> None:
    stage = ReconcilerStage(count=8)
    same = ["azure:///a/scaleset/0", "azure:///b/scaleset/0"]
    data = stage.actuator.processor
    data.submit(e.RegistrationNoted(tuple(("g", one) for one in same), ()))
    stage.run_for(2000)
    groups = list(stage.cloud.node_groups())
    seen = _ObservedGroups({one.id: one for one in groups}, {}, {})
    stage.reconciler._delete_unregistered(groups[0], seen)
    found = data.read(lambda tracker, _: {name: one.provider_id for name, one in tracker.data.deletions.items()})
    assert found == {one: one for one in same}


def test_a_machine_that_comes_back_under_the_id_of_one_that_had_joined_has_not_joined() -> None:
    stage = ReconcilerStage()
    stage.look_for(20)
    with stage.looking(), stage.cluster.transaction() as state:
        old = state.nodes["n1"].node
        taints = [{"key": "example.org/checks", "effect": "NoSchedule"}]
        state.put_node(
            {**old, "metadata": {**old["metadata"], "uid": "another"}, "spec": {**old["spec"], "taints": taints}}
        )
    stage.look_for(PROVISION_S + 120)
    assert stage.is_backed_off
