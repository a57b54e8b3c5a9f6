"""The result of a deletion if the cloud throttles, refuses, fails in part, loses it, or was faster."""

import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.builders.actuator import SETTINGS, Stage, small_cluster
from trimtab.actuator.cloud.provider import CloudError, CloudRefusedError, InstanceState
from trimtab.actuator.kube.cluster import ClusterError
from trimtab.actuator.runner.deleter import GroupDeleter
from trimtab.actuator.settings import DeleteSettings
from trimtab.actuator.tracker.events import Event, NodeEvent
from trimtab.actuator.tracker.instructions import DeleteInstance
from trimtab.clients.simulation.cluster.faults import Fault

Prepare = Callable[[Stage], None]
DELETED, REFUSED, GONE = ("DELETED", "UNSPECIFIED"), ("FAILED", "FAILED_TO_DELETE"), ("FAILED", "NODE_GONE")
EMPTY = ("n6", "n7")


def faults(*faults: Fault) -> Prepare:
    def prepare(stage: Stage) -> None:
        for fault in faults:
            stage.cluster.faults.add(fault)

    return prepare


def lose_answer(operation: str, subject: str) -> Prepare:
    """Make the first such call take effect and lose its answer."""

    def prepare(stage: Stage) -> None:
        lost: list[str] = []
        real = stage.cluster.faults.after

        def after(done: str, on: str) -> None:
            real(done, on)
            if (done, on) == (operation, subject) and not lost:
                lost.append(on)
                raise CloudError("connection reset")

        stage.cluster.faults.after = after

    return prepare


def instance_vanishes(at_s: float, with_node: bool) -> Prepare:
    """Make the machine of n6 end by itself: its node object goes too, or is left behind."""

    def prepare(stage: Stage) -> None:
        stage.run_for(at_s)
        with stage.looking(), stage.cluster.transaction() as state:
            if with_node:
                stage.cluster.controllers.lose_node("n6")
            state.drop_instance("n6")

    return prepare


@pytest.mark.parametrize(
    ("prepare", "ends", "target", "asked"),
    [
        pytest.param(faults(), (DELETED, DELETED), 6, 2, id="nothing happens"),
        pytest.param(
            faults(Fault("delete_instances", error=CloudError("throttled"), times=7)),
            (DELETED, DELETED), 6, 2, id="deletions are throttled",
        ),
        pytest.param(
            faults(Fault("instance_states", error=CloudError("throttled"), times=7)),
            (DELETED, DELETED), 6, 2, id="questions are throttled",
        ),
        pytest.param(
            faults(Fault("delete_instances", "n6", CloudError("no capacity"), times=5)),
            (DELETED, DELETED), 6, 2, id="one of two fails for a while",
        ),
        pytest.param(
            faults(Fault("delete_instances", "n6", CloudError("internal"))),
            (REFUSED, DELETED), 7, 1, id="one of two fails until its time is over",
        ),
        pytest.param(
            faults(Fault("delete_instances", "n6", CloudRefusedError("protected"))),
            (REFUSED, DELETED), 7, 1, id="one of two is refused",
        ),
        pytest.param(
            faults(Fault("delete_instances", error=CloudError("the cloud is away"))),
            (REFUSED, REFUSED), 8, 0, id="the cloud is away until the time is over",
        ),
        pytest.param(lose_answer("delete_instances", "n6"), (DELETED, DELETED), 6, 2, id="an answer is lost"),
        pytest.param(instance_vanishes(0.0, with_node=True), (GONE, DELETED), 7, 1, id="the machine is gone before"),
        pytest.param(
            instance_vanishes(0.0, with_node=False), (DELETED, DELETED), 7, 1, id="the machine is gone, not its node"
        ),
        pytest.param(
            faults(Fault("delete_node", "n6", ClusterError("timeout"), times=4)),
            (DELETED, DELETED), 6, 2, id="the node object cannot be deleted for a while",
        ),
    ],
)  # fmt: skip
def test_what_becomes_of_two_deletions_when(
    prepare: Prepare, ends: tuple[tuple[str, str], ...], target: int, asked: int
) -> None:
    stage = Stage(small_cluster())
    stage.start(stage.request("r", *EMPTY, drain=False))
    prepare(stage)
    stage.run()
    assert stage.finished() == dict(zip(EMPTY, ends, strict=True))
    assert stage.target("g") == target
    assert len(stage.noted("deleted")) == asked
    assert stage.tainted() == set()
    left = {node for node, end in zip(EMPTY, ends, strict=True) if end == REFUSED}
    assert set(EMPTY) & set(stage.cluster.state.nodes) == left


def test_a_machine_that_does_not_terminate_in_time_is_released_and_reported() -> None:
    stage = Stage(small_cluster())
    stage.cloud.instance_states = lambda _group, instances: dict.fromkeys(instances, InstanceState.DELETING)  # type: ignore[method-assign]
    stage.start(stage.request("r", "n6", drain=False))
    stage.run()
    assert stage.finished() == {"n6": REFUSED}
    (deletion,) = stage.status().finished
    assert deletion.detail == f"not deleted within {SETTINGS.work.delete.timeout_s:g} s: the instance is still there"


CALL_S = 30.0


def patient() -> Stage:
    """Return a stage with the default time for a deletion, five minutes."""
    return Stage(small_cluster(), replace(SETTINGS, work=replace(SETTINGS.work, delete=DeleteSettings())))


@pytest.mark.parametrize("operation", ["instance_states", "delete_instances"])
@pytest.mark.parametrize("answers", [False, True], ids=["all fail", "the machine stays"])
def test_a_deletion_is_given_up_in_time_where_each_call_of_the_cloud_takes_half_a_minute(
    operation: str, answers: bool
) -> None:
    stage = patient()
    for slow in ("instance_states", "delete_instances"):
        error = None if answers or slow != operation else CloudError("timed out")
        stage.cluster.faults.add(Fault(slow, error=error, delay_s=CALL_S))
    if answers:
        stage.cluster.controllers.end_instance = lambda _machine: None  # type: ignore[method-assign]
    begin_s = stage.time.now_s
    stage.start(stage.request("r", "n6", drain=False))
    stage.run()
    assert stage.finished() == {"n6": REFUSED}
    # The calls in progress when the time is over come to their end.
    assert 300 <= stage.time.now_s - begin_s <= 300 + 3 * CALL_S
    assert stage.tainted() == set()


def test_a_deletion_that_a_slow_cloud_carries_out_in_time_succeeds() -> None:
    stage = patient()
    for operation in ("instance_states", "delete_instances"):
        stage.cluster.faults.add(Fault(operation, delay_s=CALL_S))
    stage.start(stage.request("r", "n6", drain=False))
    stage.run()
    assert (stage.finished(), stage.noted("deleted")) == ({"n6": DELETED}, ["n6"])


def test_nothing_is_requested_of_the_cloud_once_the_time_is_over() -> None:
    stage = patient()
    stage.cluster.faults.add(Fault("instance_states", delay_s=310.0, times=1))
    stage.start(stage.request("r", "n6", drain=False))
    stage.run()
    assert (stage.finished(), stage.noted("deleted")) == ({"n6": REFUSED}, [])


def test_time_in_which_the_process_was_suspended_does_not_count() -> None:
    stage = patient()
    stage.cluster.faults.add(Fault("delete_instances", error=CloudError("away"), times=3))
    stage.start(stage.request("r", "n6", drain=False))
    beat = stage.actuator.processor.beat
    beat()
    stage.run_for(5)
    beat()
    # Suspended within a pause between two calls: nothing was observed.
    stage.time.sleep(3_600)
    stage.run()
    assert stage.finished() == {"n6": DELETED}


def test_an_accepted_deletion_whose_machine_still_runs_is_requested_again_but_not_at_once() -> None:
    stage = patient()
    asked_s: list[float] = []
    real, states = stage.cloud.delete_instances, stage.cloud.instance_states
    outdated = iter([InstanceState.DELETING])

    def instance_states(group: str, instances: Sequence[str]) -> Any:
        found = states(group, instances)
        return {one: next(outdated, found[one]) for one in instances}

    def delete_instances(group: str, instances: Sequence[str]) -> Any:
        asked_s.append(stage.time.now_s)
        return real(group, instances)

    stage.cloud.instance_states = instance_states  # type: ignore[method-assign]
    stage.cloud.delete_instances = delete_instances  # type: ignore[method-assign]
    stage.start(stage.request("r", "n6", drain=False))
    begin_s = stage.time.now_s
    stage.run()
    assert stage.finished() == {"n6": DELETED}
    assert len(asked_s) == 1
    assert 30 <= asked_s[0] - begin_s < 40


@pytest.mark.parametrize("asked", [False, True], ids=["before it was asked for", "after it was asked for"])
def test_an_instance_that_the_cloud_does_not_know_is_given_back_with_its_node(asked: bool) -> None:
    stage = Stage(small_cluster())
    stage.start(stage.request("r", "n6", drain=False))
    if asked:
        stage.run_for(2)
        assert stage.noted("deleted") == ["n6"]
    with stage.looking(), stage.cluster.transaction() as state:
        state.drop_instance("n6")
        state.ended.clear()
    stage.run()
    assert stage.finished() == {"n6": ("FAILED", "INSTANCE_UNKNOWN")}
    assert len(stage.noted("deleted")) == asked
    assert "n6" in stage.cluster.state.nodes, "its machine may run on"
    assert stage.tainted() == set()


def test_a_new_node_under_the_name_of_one_that_is_gone_is_left_alone() -> None:
    stage = Stage(small_cluster())
    lose_node = stage.cluster.controllers.lose_node

    def replace_node(name: str) -> None:
        item = dict(stage.cluster.state.nodes[name].node)
        lose_node(name)
        stage.cluster.state.put_node({**item, "metadata": {**item["metadata"], "uid": "another"}})

    stage.cluster.controllers.lose_node = replace_node  # type: ignore[method-assign]
    stage.start(stage.request("r", "n6", drain=False))
    stage.run()
    assert stage.finished() == {"n6": DELETED}
    with stage.looking():
        assert stage.cluster.get_node("n6").uid == "another"


def test_nodes_may_come_while_a_step_gives_others_up() -> None:
    class Away:
        def instance_states(self, group: str, instances: Sequence[str]) -> Any:
            raise CloudError("away")

        def forget(self, group: str, instances: Sequence[str]) -> None:
            pass

    class Ticking:
        """A clock that advances with every reading, so each node's time is over at the next step."""

        def __init__(self) -> None:
            self.looks, self.failed = 0, set[str]()

        def awake_ms(self) -> int:
            self.looks += 5_000
            return self.looks

        def steady_ms(self) -> int:
            return self.awake_ms()

        def now_ms(self) -> int:
            return 0

        def submit(self, event: Event) -> None:
            assert isinstance(event, NodeEvent)
            self.failed.add(event.node)

    recorder, names = Ticking(), [f"n{number}" for number in range(3_000)]
    settings = replace(SETTINGS.work, delete=replace(SETTINGS.work.delete, timeout_s=0))
    stage = Stage(small_cluster())
    deleter = GroupDeleter("g", stage.cluster, Away(), recorder, settings)  # type: ignore[arg-type]
    orders = [DeleteInstance(name, "g", f"test://{name}", "") for name in names]
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        coming = threading.Thread(target=lambda: [deleter.want(order) for order in orders])
        coming.start()
        while coming.is_alive():
            deleter.step()
        coming.join()
    finally:
        sys.setswitchinterval(interval_s)
    while deleter.step() is not None:
        pass
    assert recorder.failed == set(names)


def test_a_node_that_the_cloud_leaves_is_cleaned_up() -> None:
    stage = Stage(small_cluster())
    lose_node = stage.cluster.controllers.lose_node
    stage.cluster.controllers.lose_node = lambda _name: None  # type: ignore[method-assign]
    deleted: list[str] = []

    def before(operation: str, subject: str) -> None:
        if operation == "delete_node":
            deleted.append(subject)
            stage.cluster.controllers.lose_node = lose_node  # type: ignore[method-assign]

    stage.cluster.faults.before = before
    stage.start(stage.request("r", "n6", drain=False))
    stage.run()
    assert stage.finished() == {"n6": DELETED}
    assert deleted == ["n6"]
    assert "n6" not in stage.cluster.state.nodes


def test_a_node_object_that_the_cluster_does_not_give_up_holds_up_no_other_node() -> None:
    stage = Stage(small_cluster())
    stage.cluster.controllers.lose_node = lambda name: None  # type: ignore[method-assign]
    stage.cluster.faults.add(Fault("delete_node", "n6", ClusterError("a webhook has failed")))
    stage.start(stage.request("r", *EMPTY, drain=False))
    stage.run_for(20)
    assert stage.finished() == {"n7": DELETED}
    stage.run()
    assert stage.finished()["n6"] == REFUSED


def test_deletions_of_a_group_that_come_together_are_made_in_one_call() -> None:
    stage = Stage(small_cluster())
    calls: list[list[str]] = []
    real = stage.cloud.delete_instances

    def delete_instances(group: str, nodes: list[str]) -> object:
        calls.append(list(nodes))
        return real(group, nodes)

    stage.cloud.delete_instances = delete_instances  # type: ignore[method-assign, assignment]
    stage.start(stage.request("r", *EMPTY, drain=False))
    stage.run()
    assert calls == [[f"test://{node}" for node in EMPTY]]


DELAY = "delay-deletion.cluster-autoscaler.kubernetes.io/storage"


def delayed() -> Stage:
    """Return a stage in which n6 is deleted while an annotation delays the deletion of its machine."""
    items = small_cluster()
    next(item for item in items if item["metadata"]["name"] == "n6")["metadata"]["annotations"] = {DELAY: "true"}
    stage = Stage(items)
    stage.start(stage.request("r", *EMPTY, drain=False))
    return stage


def test_a_deletion_that_an_annotation_delays_begins_when_that_is_taken_away() -> None:
    stage = delayed()
    stage.run_for(60)
    assert stage.noted("deleted") == ["n7"], "the other one does not wait"
    with stage.looking(), stage.cluster.transaction() as state:
        del state.nodes["n6"].node["metadata"]["annotations"][DELAY]
        state.node_changed(state.nodes["n6"])
    stage.run_for(30)
    assert stage.noted("deleted") == ["n7", "n6"]


def test_an_annotation_delays_a_deletion_for_two_minutes_and_no_longer() -> None:
    stage = delayed()
    stage.run_for(SETTINGS.work.delete.delay_s - 5)
    assert stage.noted("deleted") == ["n7"]
    stage.run()
    assert stage.finished() == {"n6": DELETED, "n7": DELETED}
