"""The taint of a node that is drained or checked: what may be concluded after it was away, and whose node it is."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.builders.actuator import DELAYS, Stage, small_cluster
from tests.builders.kubernetes import pod, replica_set
from trimtab.actuator.cloud.provider import CloudError, CloudRefusedError
from trimtab.actuator.tracker.states import State
from trimtab.clients.simulation.cluster.faults import Fault
from trimtab.clients.simulation.cluster.pods import SimulatedPod
from trimtab.common.kubernetes.names import HARD_TAINT_KEY

BOTH = pytest.mark.parametrize("drain", [True, False], ids=["drained", "empty"])


def new_stage() -> Stage:
    """A cluster whose nodes have uids."""
    objects = small_cluster()
    for item in objects:
        if item["kind"] == "Node":
            item["metadata"]["uid"] = f"uid-{item['metadata']['name']}"
    return Stage(objects, delays=replace(DELAYS, instance_delete_s=30))


def replace_node(stage: Stage, name: str) -> None:
    """Put another node in the place of one, with a pod of its own, as when its machine's address is used again."""
    with stage.looking(), stage.cluster.transaction() as state:
        found = state.nodes[name]
        found.node["metadata"]["uid"] = "another"
        found.node["spec"].pop("taints", None)
        state.node_changed(found)
        owner = replica_set("other", 1)
        state.put_pod(SimulatedPod(pod("other-0", node=name, owner=owner)))


@BOTH
def test_another_node_that_gets_the_name_is_neither_drained_nor_left_with_a_taint(drain: bool) -> None:
    stage, name = new_stage(), "n0" if drain else "n6"
    stage.start(stage.request("r", name, drain=drain))
    assert stage.tainted() == {name}
    replace_node(stage, name)
    stage.run()
    assert stage.finished() == {name: ("FAILED", "NODE_CHANGED")}
    assert (stage.tainted(), stage.noted("deleted")) == (set(), [])
    assert "other-0" not in {eviction.name for eviction in stage.status().recent_evictions}


@BOTH
def test_a_pod_bound_before_the_scheduler_reads_the_restored_taint_is_not_lost_with_its_node(drain: bool) -> None:
    stage, name = new_stage(), "n0" if drain else "n6"
    moments: list[str] = []

    def bind(operation: str, subject: str) -> None:
        """After its pods were listed."""
        if (operation, subject, moments) == ("list_pods", name, ["removed"]):
            moments.append("bound")
            _bind_late(stage, name)

    stage.start(stage.request("r", name, drain=drain))
    stage.cluster.faults.before, stage.cluster.faults.after = _taint_removal(stage, name, moments), bind
    stage.run()
    assert moments == ["removed", "bound"]
    _check_that_no_pod_is_lost(stage, name, drain)


def _taint_removal(stage: Stage, name: str, moments: list[str]) -> Callable[[str, str], None]:
    """Return what takes the taint away before the node is read for the last time, once, and notes it."""

    def remove_taint(operation: str, subject: str) -> None:
        if (operation, subject, moments) == ("get_node", name, []) and not _left(stage, name):
            moments.append("removed")
            with stage.looking():
                stage.cluster.remove_taint(name, HARD_TAINT_KEY)

    return remove_taint


def _bind_late(stage: Stage, name: str) -> None:
    with stage.looking(), stage.cluster.transaction() as state:
        state.put_pod(SimulatedPod(pod("late", node=name)))


def _check_that_no_pod_is_lost(stage: Stage, name: str, drain: bool) -> None:
    """Check that a drained node goes after the late pod's eviction, and that an empty one stays with it."""
    if drain:
        assert stage.finished() == {name: ("DELETED", "UNSPECIFIED")}
        assert "late" in {eviction.name for eviction in stage.status().recent_evictions}
    else:
        assert stage.finished() == {name: ("FAILED", "NODE_CHANGED")}
        assert stage.noted("deleted") == []


def _left(stage: Stage, name: str) -> list[str]:
    """Return the pods that a drain of the node would wait for."""
    with stage.looking():
        return [one.name for one in stage.cluster.list_pods(name) if one.owner_kind != "DaemonSet"]


def test_only_the_node_that_was_ordered_keeps_the_taint_while_its_instance_is_being_deleted() -> None:
    stage = new_stage()
    stage.start(stage.request("r", "n6", drain=False))
    stage.run_for(3)
    assert stage.noted("deleted") == ["n6"]
    with stage.looking():
        stage.cluster.remove_taint("n6", HARD_TAINT_KEY)
    replace_node(stage, "n6")
    stage.run()
    assert stage.tainted() == set()


@BOTH
def test_a_taint_restored_just_before_a_crash_is_waited_for_again(drain: bool) -> None:
    stage, name = new_stage(), "n0" if drain else "n6"
    moments: list[str] = []
    stage.start(stage.request("r", name, drain=drain))
    stage.cluster.faults.before = _taint_removal(stage, name, moments)
    while not moments:
        assert stage.time.step()
    assert stage.tainted() == {name}
    stage.boot()
    # A pod that was bound at the same time appears late, but before the scheduler has read the taint.
    stage.run_for(0.5)
    _bind_late(stage, name)
    stage.run()
    _check_that_no_pod_is_lost(stage, name, drain)


@pytest.mark.parametrize("state", ["TAINTED", "DRAINING", "DRAINED", "DELETING"])
def test_pods_that_came_while_no_actuator_ran_and_the_taint_was_away_are_not_lost(state: str) -> None:
    stage, name = new_stage(), "n0" if state == "DRAINING" else "n6"
    # The cloud accepts nothing before the crash.
    stage.cluster.faults.add(Fault("delete_instances", error=CloudError("throttled"), times=3))
    stage.start(stage.request("r", name, drain=name == "n0"))
    while (deletion := stage.status().deletions[0]).state != State[state]:
        assert stage.time.step()
    assert deletion.state == State[state]
    stage.time.stop()
    with stage.looking():
        stage.cluster.remove_taint(name, HARD_TAINT_KEY)
    stage.boot()
    assert stage.tainted() == {name}
    # A pod that was bound while the taint was away appears late, but before the scheduler has read the taint.
    stage.run_for(0.5)
    with stage.looking(), stage.cluster.transaction() as cluster:
        cluster.put_pod(SimulatedPod(pod("late", node=name)))
    stage.run()
    if state == "DRAINING":
        assert stage.finished() == {name: ("DELETED", "UNSPECIFIED")}
        assert "late" in {eviction.name for eviction in stage.status().recent_evictions}
    else:
        assert stage.finished() == {name: ("FAILED", "NODE_CHANGED")}
        assert (stage.noted("deleted"), stage.tainted()) == ([], set())


def test_another_node_that_got_the_name_while_no_actuator_ran_is_not_tainted() -> None:
    stage = new_stage()
    stage.start(stage.request("r", "n6", drain=False))
    stage.run_for(3)
    assert stage.noted("deleted") == ["n6"]
    replace_node(stage, "n6")
    stage.boot()
    assert stage.tainted() == set()
    stage.run()
    assert stage.tainted() == set()


def test_a_roll_back_leaves_the_taint_of_another_node_of_the_name() -> None:
    stage = Stage(small_cluster())
    stage.start(stage.request("r", "n6", drain=False))
    stage.cluster.faults.add(Fault("delete_instances", error=CloudRefusedError("locked")))
    with stage.looking(), stage.cluster.transaction() as state:
        old = state.nodes["n6"].node
        state.put_node({**old, "metadata": {**old["metadata"], "uid": "another"}})
    stage.run()
    assert stage.finished()["n6"][0] == "FAILED"
    assert stage.tainted() == {"n6"}, "another autoscaler's, which is deleting the new node"


def test_another_node_of_the_name_is_not_tainted() -> None:
    stage = Stage(small_cluster())
    stage.actuator.deletions.begin(stage.request("r", "n6", drain=False))
    with stage.looking(), stage.cluster.transaction() as state:
        old = state.nodes["n6"].node
        state.put_node({**old, "metadata": {**old["metadata"], "uid": "another"}})
    stage.run()
    assert stage.finished()["n6"] == ("FAILED", "FAILED_TO_MARK_TO_BE_DELETED")
    assert stage.tainted() == set()
