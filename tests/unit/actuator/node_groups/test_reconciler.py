"""Groups whose nodes do not join enter back-off, instances that never register are deleted, each once and in time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pytest

from tests.builders.actuator import SETTINGS, Stage
from tests.builders.kubernetes import Json, node, node_group
from trimtab.actuator.cloud.options import ANNOTATION_PREFIX
from trimtab.actuator.cloud.provider import CloudRefusedError, GroupOptions, Instance, InstanceError
from trimtab.actuator.kube.cluster import Taint
from trimtab.actuator.node_groups.reconciler import NodeGroupReconciler, _Observation
from trimtab.actuator.node_groups.settings import BackoffPolicy, GroupSettings
from trimtab.actuator.tracker import events as e
from trimtab.clients.simulation.cluster.controllers import Delays
from trimtab.clients.simulation.cluster.faults import Fault
from trimtab.v1 import actuator_pb2, plan_pb2, snapshot_pb2

PROVISION_S = 420.0
GROUPS = GroupSettings(max_node_provision_s=PROVISION_S, not_ready_taints=("example.org/checks*",))
NEVER_S = 1e7


@dataclass(frozen=True)
class Shortage(Delays):
    """A cloud in which machines of group "g" do not start while `out` names it."""

    out: frozenset[str] = frozenset()

    def node_start_of(self, name: str, group: str) -> float:
        del name
        return NEVER_S if group in self.out else 3.0


class ReconcilerStage(Stage):
    """A stage with a reconciler of node groups."""

    def __init__(
        self,
        out: str = "",
        backoff: BackoffPolicy = BackoffPolicy.UNTIL_JOINED,
        count: int = 2,
        least: int = 0,
        option: str = "",
        sized_by_caller: bool = False,
    ) -> None:
        names = [f"n{number}" for number in range(count)]
        machines: list[Json] = [node(name, cpu="8") for name in names]
        template = node("template", cpu="8")
        group = node_group("g", least, 20, target=count, nodes=names, template=template)
        if option:
            group["metadata"]["annotations"] = {f"{ANNOTATION_PREFIX}maxnodeprovisiontime": option}
        settings = replace(SETTINGS, groups=replace(GROUPS, backoff=backoff, sized_by_caller=sized_by_caller))
        super().__init__([*machines, group], settings, Shortage(out=frozenset(out)))
        self.reconciler = self.new_reconciler()

    def new_reconciler(self) -> NodeGroupReconciler:
        actuator = self.actuator
        return NodeGroupReconciler(
            actuator.processor, self.cluster, self.cloud, actuator.settings.groups, actuator.settings.present_limits
        )

    def look_for(self, seconds: float) -> None:
        """Advance time, with a check every ten seconds."""
        for _ in range(int(seconds / 10)):
            self.run_for(10)
            self.reconciler.step()
        self.run_for(0.1)

    def grow(self, request_id: str, size: int, by: int = 1) -> None:
        split = plan_pb2.ScaleUpSplit(node_group="g", current_size=size, new_size=size + by)
        self.actuator.growths.begin(actuator_pb2.ScaleUpRequest(request_id=request_id, splits=[split]))
        self.run_for(1)

    def restart(self) -> None:
        self.boot()
        self.reconciler = self.new_reconciler()

    @property
    def group(self) -> actuator_pb2.NodeGroupStatus:
        (found,) = self.status().node_groups
        return found

    @property
    def is_backed_off(self) -> bool:
        return self.group.health == snapshot_pb2.NodeGroupHealth.BACKED_OFF

    def new_node(self) -> str:
        """Return the only node that has joined since the start."""
        with self.cluster.transaction() as state:
            (found,) = (name for name in state.nodes if name.startswith("g-"))
        return found

    def lose(self, name: str) -> str:
        """Delete the Node object of a running machine; return the machine's id."""
        with self.looking():
            view = self.cluster.get_node(name)
            self.cluster.delete_node(name, view.uid)
        return view.provider_id


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
    stage.cluster.add_taint(new, Taint(key, "", "NoSchedule"))
    stage.look_for(PROVISION_S + 20)
    assert (stage.is_backed_off, stage.target("g")) == (True, 3)
    stage.cluster.remove_taint(new, key)
    stage.look_for(20)
    assert not stage.is_backed_off


def test_a_node_that_was_ready_once_has_joined_for_good() -> None:
    stage = ReconcilerStage()
    stage.look_for(20)
    stage.cluster.add_taint("n1", Taint("example.org/checks", "", "NoSchedule"))
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
    seen = _Observation({one.id: one for one in groups}, {}, {})
    stage.reconciler._delete_unregistered(groups[0], seen)
    found = data.read(lambda tracker, _: {name: one.provider_id for name, one in tracker.data.deletions.items()})
    assert found == {one: one for one in same}
