"""What becomes of a deletion when the cloud throttles, refuses, fails in part, forgets, or was quicker."""

from collections.abc import Callable

import pytest

from actuator.cloud.memory.faults import Fault
from actuator.cloud.provider import CloudError, CloudRefusedError, InstanceState
from actuator.kube.cluster import ClusterError
from tests.builders.actuator import SETTINGS, Stage, small_cluster

Prepare = Callable[[Stage], None]
DELETED, REFUSED, GONE = ("DELETED", "UNSPECIFIED"), ("FAILED", "FAILED_TO_DELETE"), ("FAILED", "NODE_GONE")
EMPTY = ("n6", "n7")


def faults(*faults: Fault) -> Prepare:
    def prepare(stage: Stage) -> None:
        for fault in faults:
            stage.cluster.faults.add(fault)

    return prepare


def lose_answer(operation: str, subject: str) -> Prepare:
    """The first such call does its work, and its answer is lost."""

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
    """The machine of n6 ends by itself: its node object goes too, or is left behind."""

    def prepare(stage: Stage) -> None:
        stage.run_for(at_s)
        with stage.looking(), stage.cluster.transaction() as world:
            if with_node:
                stage.cluster.controllers.lose_node("n6")
            world.drop_instance("n6")

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
    assert set(EMPTY) & set(stage.cluster.world.rooms) == left


def test_a_machine_that_does_not_end_in_time_is_given_back_and_told() -> None:
    stage = Stage(small_cluster())
    stage.cloud.instance_states = lambda _group, nodes: dict.fromkeys(nodes, InstanceState.DELETING)  # type: ignore[method-assign]
    stage.start(stage.request("r", "n6", drain=False))
    stage.run()
    assert stage.finished() == {"n6": REFUSED}
    (deletion,) = stage.status().finished
    assert deletion.detail == f"not deleted within {SETTINGS.work.delete.timeout_s:g} s: the instance is still there"


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
    assert "n6" not in stage.cluster.world.rooms


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
    assert calls == [list(EMPTY)]
