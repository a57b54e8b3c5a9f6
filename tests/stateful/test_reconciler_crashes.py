"""The actuator dies at every write and call while a group is in back-off and an instance that never registered is
deleted. It restarts; in the end the sizes are right, nothing is deleted twice, and no group is stuck.

In the suite it dies at some of them; at every one: `TRIMTAB_ALL_DEATHS=1 pytest
tests/stateful/test_reconciler_crashes.py`.
"""

from contextlib import suppress

from tests.builders.actuator import Crash
from tests.builders.node_group_controllers import PROVISION_S, ReconcilerStage
from tests.builders.tiers import ALL_DEATHS


def scenario(stage: ReconcilerStage, seconds: float) -> None:
    """Grow by three nodes that never join, while one of the machines has lost its Node object."""
    stage.grow("r", 6, by=3)
    stage.look_for(seconds)


def survive(die_at: int | None) -> ReconcilerStage:
    """Run the scenario with one death; return its final state."""
    stage = ReconcilerStage(out="g", count=6)
    stage.look_for(20)
    stage.lose("n3")
    with suppress(Crash):
        stage.boot(die_at)
        stage.reconciler = stage.new_reconciler()
        scenario(stage, 3 * PROVISION_S)
        return stage
    stage.restart()
    scenario(stage, 3 * PROVISION_S)
    return stage


def check(stage: ReconcilerStage) -> None:
    assert stage.noted("deleted") == ["n3"]
    assert (stage.is_backed_off, stage.target("g"), len(stage.cluster.state.nodes)) == (True, 6, 5)
    assert stage.finished() == {"test://n3": ("DELETED", "UNSPECIFIED")}
    stage.actuator.processor.read(lambda tracker, _: tracker.check_invariants())


def test_dying_at_any_moment_leaves_the_sizes_right_and_deletes_nothing_twice() -> None:
    whole = survive(None)
    check(whole)
    count = whole.breaker.count
    assert count > 100
    # At most points nothing happens, so most of the sample are the first ones.
    some = [*range(1, 40, 3), *range(40, count + 1, 21)]
    for moment in range(1, count + 1) if ALL_DEATHS else some:
        stage = survive(moment)
        try:
            check(stage)
        except AssertionError as error:
            raise AssertionError(f"died at moment {moment}: {stage.breaker.last}") from error
