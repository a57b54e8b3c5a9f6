"""The actuator dies at every write and call while it learns the resources of a type's nodes. It restarts, and in the
end has the same records as without a crash, each once.
"""

from contextlib import suppress

from tests.builders.actuator import Crash
from tests.builders.node_group_controllers import LearnerStage, machine_node
from trimtab.actuator.node_groups.resource_learner import AGAIN_MS, OLD_MS
from trimtab.actuator.tracker import events as e
from trimtab.actuator.tracker.states import SeenType

DISK = {"ephemeral-storage": "20Gi"}


def scenario(stage: LearnerStage) -> None:
    """Show nodes of a type, then smaller ones, then one with a device that the others lack, then none."""
    stage.look()
    stage.show(machine_node("n0", memory="6000Mi"))
    stage.look()
    stage.show(machine_node("n1", memory="6500Mi", others=DISK | {"nvidia.com/gpu": "2"}))
    stage.look()
    stage.look(max(AGAIN_MS, OLD_MS))
    with stage.looking():
        for name in ("n0", "n1"):
            stage.cluster.delete_node(name, stage.cluster.get_node(name).uid)
    stage.look()


def survive(die_at: int | None) -> LearnerStage:
    """Run the scenario with one death; then show all nodes at once."""
    stage = LearnerStage(machine_node("n0", others=DISK), machine_node("n1", others=DISK))
    with suppress(Crash):
        stage.restart(die_at)
        scenario(stage)
        return stage
    stage.restart()
    stage.show(machine_node("n0", memory="6000Mi"))
    stage.show(machine_node("n1", memory="6500Mi", others=DISK | {"nvidia.com/gpu": "2"}))
    stage.look()
    stage.look(max(AGAIN_MS, OLD_MS))
    return stage


def resources_of_types(stage: LearnerStage) -> list[tuple[SeenType, ...]]:
    """Return what was recorded, in order."""
    history = stage.store.load()
    assert not history.snapshot
    found = (e.decode(record.payload) for record in history.records)
    return [event.types for event in found if isinstance(event, e.NodeTypesSeen)]


def test_dying_at_any_moment_forgets_nothing_that_nodes_have_shown_and_records_nothing_twice() -> None:
    whole = survive(None)
    assert len(resources_of_types(whole)) == 3
    count = whole.breaker.count
    assert count > 20
    for moment in range(1, count + 1):
        stage = survive(moment)
        told = f"died at moment {moment}"
        assert stage.known == whole.known, told
        assert stage.allocatable == whole.allocatable, told
        learned = resources_of_types(stage)
        assert 1 <= len(learned) == len(set(learned)) <= 3, told
        stage.actuator.processor.read(lambda tracker, _: tracker.check_invariants())
