"""Nodes that another autoscaler has tainted and drained, if it gives up before it has our answer."""

from dataclasses import replace
from typing import Any

import pytest

from tests.builders.actuator import DELAYS, Stage, small_cluster
from tests.builders.kubernetes import pod
from trimtab.actuator.cloud.provider import CloudError, CloudRefusedError
from trimtab.actuator.kube.cluster import DELAY_DELETION_PREFIX, ClusterError, hard_taint
from trimtab.actuator.service.external.orders import ExternalOrders, NodeToDelete
from trimtab.clients.simulation.cluster.faults import Fault
from trimtab.clients.simulation.cluster.pods import SimulatedPod
from trimtab.common.kubernetes.names import HARD_TAINT_KEY

NODE = NodeToDelete("n6", "test://n6")


def tainted_stage(*faults: Fault, delayed: bool = False) -> Stage:
    """Return a cluster whose empty node n6 another autoscaler has tainted."""
    objects = small_cluster()
    node = next(one for one in objects if one["metadata"]["name"] == "n6")
    node["metadata"]["uid"] = "uid-n6"
    if delayed:
        node["metadata"].setdefault("annotations", {})[DELAY_DELETION_PREFIX + "storage"] = "true"
    stage = Stage(objects, delays=replace(DELAYS, instance_delete_s=20))
    with stage.looking():
        stage.cluster.add_taint("n6", hard_taint(0))
    for fault in faults:
        stage.cluster.faults.add(fault)
    return stage


def order(stage: Stage, node: str = "n6") -> None:
    orders = ExternalOrders(stage.actuator.processor, stage.cluster, stage.cloud)
    orders.begin_delete("g", [NodeToDelete(node, f"test://{node}")])


def give_up(stage: Stage) -> None:
    """Act like the Cluster Autoscaler when it gets no answer."""
    with stage.looking():
        stage.cluster.remove_taint("n6", HARD_TAINT_KEY)


def throttled(times: int) -> Fault:
    return Fault("delete_instances", error=CloudError("throttled"), times=times)


def comes(stage: Stage, **more: Any) -> None:
    with stage.looking(), stage.cluster.transaction() as state:
        state.put_pod(SimulatedPod(pod("late", node="n6", **more)))


def test_what_delays_a_deletion_is_not_waited_for_again() -> None:
    stage = tainted_stage(delayed=True)
    order(stage)
    stage.run_for(1)
    assert stage.noted("deleted") == ["n6"]


def test_the_cloud_is_asked_at_once_while_another_instance_of_the_group_is_being_deleted() -> None:
    stage = tainted_stage()
    order(stage)
    stage.run_for(1.5)
    with stage.looking():
        stage.cluster.add_taint("n7", hard_taint(0))
    order(stage, "n7")
    stage.run_for(0)
    assert stage.noted("deleted") == ["n6", "n7"]
    stage.run()
    assert {state for state, _ in stage.finished().values()} == {"DELETED"}


def test_a_node_that_cannot_be_read_holds_up_no_other_order_of_its_call() -> None:
    stage = tainted_stage()
    with stage.looking():
        stage.cluster.add_taint("n7", hard_taint(0))
    orders = ExternalOrders(stage.actuator.processor, stage.cluster, stage.cloud)
    orders.begin_delete("g", [NODE, NodeToDelete("n7", "test://n7")])
    stage.cluster.faults.add(Fault("get_node", "n6", ClusterError("the server could not find the requested resource")))
    stage.run_for(30)
    assert stage.noted("deleted") == ["n7"]
    assert stage.finished() == {"n7": ("DELETED", "UNSPECIFIED")}


def test_the_taint_comes_back_before_the_cloud_is_asked_again() -> None:
    stage = tainted_stage(throttled(20))
    order(stage)
    stage.run_for(1)
    give_up(stage)
    assert (stage.tainted(), stage.noted("deleted")) == (set(), [])
    stage.run_for(20)
    assert stage.tainted() == {"n6"}
    stage.run()
    assert stage.finished() == {"n6": ("DELETED", "UNSPECIFIED")}
    assert stage.noted("deleted") == ["n6"]


def test_a_node_that_has_got_pods_meanwhile_stays() -> None:
    stage = tainted_stage(throttled(20))
    order(stage)
    stage.run_for(1)
    give_up(stage)
    comes(stage)
    stage.run()
    assert stage.finished() == {"n6": ("FAILED", "NODE_CHANGED")}
    assert (stage.noted("deleted"), stage.target("g"), stage.tainted()) == ([], 8, set())


def test_a_pod_bound_before_the_scheduler_reads_the_restored_taint_keeps_its_node() -> None:
    stage = tainted_stage(throttled(20))
    order(stage)
    stage.run_for(1)
    give_up(stage)
    while not stage.tainted():
        assert stage.time.step()
    comes(stage)
    stage.run()
    assert stage.finished() == {"n6": ("FAILED", "NODE_CHANGED")}
    assert (stage.noted("deleted"), stage.tainted()) == ([], set())


def test_another_node_that_gets_the_name_is_not_tainted_while_the_instance_is_being_deleted() -> None:
    stage = tainted_stage()
    order(stage)
    stage.run_for(1)
    assert stage.noted("deleted") == ["n6"]
    with stage.looking(), stage.cluster.transaction() as state:
        found = state.nodes["n6"]
        found.node["metadata"]["uid"] = "another"
        found.node["spec"].pop("taints")
        state.node_changed(found)
    stage.run_for(15)
    assert stage.tainted() == set()


def test_pods_of_a_node_that_kept_its_taint_do_not_matter() -> None:
    stage = tainted_stage(throttled(2))
    comes(stage, tolerations=[{"operator": "Exists"}])
    order(stage)
    stage.run()
    assert stage.finished() == {"n6": ("DELETED", "UNSPECIFIED")}


@pytest.mark.parametrize("asked", [False, True], ids=["before the cloud is asked", "after the cloud is asked"])
def test_the_taint_comes_back_after_a_crash(asked: bool) -> None:
    stage = tainted_stage()
    order(stage)
    if asked:
        stage.run_for(1)
    assert stage.noted("deleted") == (["n6"] if asked else [])
    give_up(stage)
    stage.boot()
    stage.run_for(1)
    assert stage.tainted() == {"n6"}
    stage.run()
    assert stage.noted("deleted") == ["n6"]


@pytest.mark.parametrize("settled", [False, True], ids=["at once", "later"])
def test_a_taint_that_was_away_before_a_crash_counts_after_it(settled: bool) -> None:
    """The pod came while the taint was away; the process ended before it had looked at the pods."""
    stage = tainted_stage(throttled(20))
    order(stage)
    stage.run_for(1)
    give_up(stage)
    comes(stage)
    while not stage.tainted():
        assert stage.time.step()
    stage.time.stop()
    if settled:
        stage.time.now_s += 60
    stage.boot()
    stage.run()
    assert stage.finished() == {"n6": ("FAILED", "NODE_CHANGED")}
    assert (stage.noted("deleted"), stage.target("g"), stage.tainted()) == ([], 8, set())


def test_a_pod_bound_after_a_crash_before_the_scheduler_reads_the_restored_taint_keeps_its_node() -> None:
    stage = tainted_stage(throttled(20))
    order(stage)
    stage.run_for(1)
    give_up(stage)
    while not stage.tainted():
        assert stage.time.step()
    stage.boot()
    stage.run_for(0.5)
    comes(stage)
    stage.run()
    assert stage.finished() == {"n6": ("FAILED", "NODE_CHANGED")}
    assert (stage.noted("deleted"), stage.tainted()) == ([], set())


def test_pods_that_came_during_a_crash_keep_their_node() -> None:
    stage = tainted_stage()
    order(stage)
    give_up(stage)
    comes(stage)
    stage.boot()
    stage.run()
    assert stage.finished() == {"n6": ("FAILED", "NODE_CHANGED")}
    assert (stage.noted("deleted"), stage.tainted()) == ([], set())


def test_a_node_that_the_cloud_keeps_is_uncordoned_with_its_taint() -> None:
    stage = tainted_stage(Fault("delete_instances", error=CloudRefusedError("protected")))
    with stage.looking(), stage.cluster.transaction() as state:
        state.nodes["n6"].node["spec"]["unschedulable"] = True
    order(stage)
    stage.run()
    assert stage.finished() == {"n6": ("FAILED", "FAILED_TO_DELETE")}
    assert stage.tainted() == set()
    assert "unschedulable" not in stage.cluster.state.nodes["n6"].node["spec"]


def test_a_caller_that_taints_nothing_gets_no_taints() -> None:
    stage = Stage(small_cluster())
    order(stage)
    stage.run_for(1)
    assert stage.tainted() == set()
    stage.run()
    assert stage.finished() == {"n6": ("DELETED", "UNSPECIFIED")}
