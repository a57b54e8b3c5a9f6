"""An actuator that serves the Cluster Autoscaler dies at every point: no order is executed twice or lost."""

import pytest

from tests.builders.actuator import Crash, Stage, small_cluster
from trimtab.actuator.service.external.orders import ExternalOrders, NodeToDelete

NODES = [NodeToDelete("n6", "test://n6"), NodeToDelete("n7", "test://n7")]
# The points before and after each write and call of an undisturbed run.
MOMENTS = 70


def order(stage: Stage) -> None:
    """Send orders as the Cluster Autoscaler does: scale-ups until the sizes show them, deletions twice."""
    orders = ExternalOrders(stage.actuator.processor, stage.cluster, stage.cloud)
    with stage.looking():
        has_grown = any(stage.noted("grown"))
    if not has_grown:
        orders.begin_increase("g", 3)
    orders.begin_delete("g", NODES)


def run(die_at: int | None) -> tuple[Stage, bool]:
    stage = Stage(small_cluster())
    died = False
    try:
        stage.boot(die_at)
        order(stage)
        stage.run()
    except Crash:
        died = True
        stage.boot()
        # The first loop of the Cluster Autoscaler, and the next.
        for _ in range(2):
            order(stage)
            stage.run()
    return stage, died


@pytest.mark.parametrize("die_at", [None, *range(1, MOMENTS)])
def test_a_crash_at_any_moment_neither_doubles_nor_loses_an_order(die_at: int | None) -> None:
    stage, _ = run(die_at)
    assert sorted(stage.noted("deleted")) == ["n6", "n7"]
    assert stage.noted("grown") == ["g 3"]
    assert stage.target("g") == 8 - 2 + 3
    assert stage.violations == []
    with stage.looking():
        (view,) = stage.cloud.node_groups()
        assert view.instance_count == view.target_size
    assert {state for state, _ in stage.finished().values()} == {"DELETED"}


def test_the_moments_reach_beyond_the_last_one_of_an_undisturbed_run() -> None:
    stage, died = run(MOMENTS)
    assert not died, stage.breaker.last
