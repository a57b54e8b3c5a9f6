"""A machine comes back under the provider id of one whose deletion was accepted: nobody ordered the new one away, so it
stays, also if the actuator dies at any point in between. Its own deletion is a new one.

In the suite the actuator dies at some of the points, in the nightly tier (`TRIMTAB_ALL_DEATHS=1`) at each.
"""

from itertools import product

import pytest

from tests.builders.actuator import Crash
from tests.builders.tiers import ALL_DEATHS
from tests.stateful.returned_machines import Return, ReturningStage

RETURNS_S = (0.0, 0.5, 3.0, 6.0, 30.0)
HOW = [
    Return(returns_s, registers_s, stays, grows)
    for returns_s, registers_s, stays, grows in product(RETURNS_S, (0.3, 45.0), (False, True), (False, True))
    # A machine that was never missing and has the old Node object cannot be told from the old one.
    if not (stays and registers_s > 1 and returns_s < 1 and not grows)
]
# Time until the old order is over, however the machine comes back.
END_S = 200.0
DOWN_S = (0.0, 4.0, 40.0)
UNHARMED = (True, True, True)


@pytest.mark.parametrize("how", HOW, ids=str)
def test_a_machine_that_comes_back_stays_until_it_is_ordered_away_itself(how: Return) -> None:
    stage = ReturningStage(how)
    assert stage.order()
    stage.advance(END_S)
    assert (stage.calls, stage.new_machine(), stage.ended()) == (["old"], UNHARMED, True)
    assert stage.order()
    stage.advance(60.0)
    assert stage.calls == ["old", "new"]


@pytest.mark.parametrize("returns_s", RETURNS_S)
def test_an_order_for_the_new_machine_is_not_answered_before_a_call_of_its_own(returns_s: float) -> None:
    stage = ReturningStage(Return(returns_s))
    assert stage.order()
    while not stage.has_new_node:
        stage.advance(0.1)
    waited_s = 0.0
    while not stage.order():
        stage.advance(0.1)
        waited_s += 0.1
    stage.advance(3.0)
    assert stage.calls == ["old", "new"]
    assert waited_s <= 2.0


def lived(how: Return, die_at: int | None, down_s: float) -> tuple[ReturningStage, bool]:
    """Return a stage whose actuator died at a point, was away for some time, and has then run to the end."""
    stage, died = ReturningStage(how), False
    try:
        stage.new_process(die_at)
        stage.order()
        stage.advance(45.0)
    except Crash:
        died = True
        stage.absent(down_s)
        stage.new_process()
    for _ in range(2):
        # The Cluster Autoscaler orders a node away until it was told that it is done.
        if not stage.calls:
            stage.order()
        stage.advance(END_S)
    return stage, died


@pytest.mark.parametrize(("returns_s", "down_s"), list(product(RETURNS_S, DOWN_S)))
def test_an_actuator_that_dies_at_any_point_does_not_kill_the_new_machine(returns_s: float, down_s: float) -> None:
    how, die_at, died = Return(returns_s), 0, True
    while died:
        die_at += 1 if ALL_DEATHS else 11
        stage, died = lived(how, die_at, down_s)
        assert "new" not in stage.calls, stage.breaker.last
        assert (stage.new_machine(), stage.ended()) == (UNHARMED, True), stage.breaker.last
        assert stage.calls == ["old"], stage.breaker.last
    assert die_at > 20
