"""Orders of the Cluster Autoscaler about instances that are back, gone, or were never known as nodes."""

import pytest

from tests.builders.actuator import Stage, small_cluster
from trimtab.actuator.service.external.orders import ExternalOrders, NodeToDelete
from trimtab.clients.simulation.cluster.state import SimulatedInstance

NODE = NodeToDelete("n6", "test://n6")


def orders(stage: Stage) -> ExternalOrders:
    return ExternalOrders(stage.actuator.processor, stage.cluster, stage.cloud)


def deleted_stage() -> Stage:
    """Return a cluster in which n6 was deleted."""
    stage = Stage(small_cluster())
    assert orders(stage).begin_delete("g", [NODE]) == {}
    stage.run()
    assert (stage.noted("deleted"), stage.target("g")) == (["n6"], 7)
    return stage


def comes_back(stage: Stage, registers: bool) -> None:
    """Make the machine of n6 run again, under the same provider id."""
    with stage.looking(), stage.cluster.transaction() as state:
        state.groups["g"]["spec"]["targetSize"] += 1
        state.put_instance(SimulatedInstance("n6", "g", "test://n6"))
        if registers:
            like = state.nodes["n7"].node
            metadata = {**like["metadata"], "name": "n6", "uid": "another"}
            state.put_node({**like, "metadata": metadata, "spec": {"providerID": "test://n6"}})


@pytest.mark.parametrize(
    ("registers", "name"), [(True, "n6"), (False, "test://n6")], ids=["with its node", "without a node"]
)
def test_a_machine_that_comes_back_under_its_provider_id_is_deleted_again(registers: bool, name: str) -> None:
    stage = deleted_stage()
    comes_back(stage, registers)
    order = NodeToDelete(name, "test://n6")
    for _ in range(2):
        assert orders(stage).begin_delete("g", [order]) == {}
    stage.run()
    assert (stage.noted("deleted"), stage.target("g")) == (["n6", "n6"], 7)
    assert "n6" not in stage.cluster.state.nodes


def test_an_order_that_is_repeated_after_its_end_changes_nothing() -> None:
    stage = deleted_stage()
    revision = stage.actuator.processor.read(lambda tracker, _: tracker.data.revision)
    assert orders(stage).begin_delete("g", [NODE]) == {}
    assert stage.actuator.processor.read(lambda tracker, _: tracker.data.revision) == revision


def test_an_instance_that_was_just_given_up_counts_as_gone_and_holds_up_no_other() -> None:
    stage = Stage(small_cluster())
    stage.cloud.set_size("g", 8, 10, "token")
    with stage.looking():
        starting = [one.provider_id for one in stage.cluster.state.instances.values() if one.start_due_ms]
    stage.cloud.decrease_target("g", 10, 8)
    given_up = [NodeToDelete(one, one) for one in starting]
    assert orders(stage).begin_delete("g", [*given_up, NODE]) == {}
    stage.run()
    assert orders(stage).begin_delete("g", given_up) == {}
    assert (stage.noted("deleted"), stage.target("g")) == (["n6"], 7)
