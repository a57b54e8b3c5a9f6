"""The cheapest settings under limits, and the settings that no other one beats."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.clients.simulation.recommendation import FIGURES, read_limit, read_limits, recommend
from trimtab.clients.simulation.scenario_values import ScenarioError
from trimtab.clients.simulation.simulation import ClusterSimulation


def summary(money: float, p99: float, evictions: int = 0, hours: float = 1.0) -> dict[str, Any]:
    waits = {share: p99 for share in ("p50", "p90", "p99", "max")}
    return {"money": money, "nodeHours": hours, "timeToScheduleS": waits, "evictions": evictions}


def test_the_cheapest_that_keeps_all_limits_is_recommended() -> None:
    runs = [summary(9, 20), summary(5, 90), summary(6, 60, evictions=8), summary(7, 60, evictions=2)]
    assert recommend(runs, []).best == 1
    limits = read_limits(["time_to_schedule_p99<=1m", "evictions <= 5"])
    found = recommend(runs, limits)
    assert found.best == 3
    assert [[limit.figure for limit in broken] for broken in found.broken] == [
        [],
        ["time_to_schedule_p99"],
        ["evictions"],
        [],
    ]


def test_without_all_prices_node_hours_are_the_cost() -> None:
    found = recommend([summary(0, 1, hours=5), summary(3, 1, hours=4)], [])
    assert (found.cost, found.best) == ("node_hours", 1)


def test_nothing_is_recommended_where_no_settings_keep_all_limits() -> None:
    assert recommend([summary(1, 50)], read_limits(["time_to_schedule_p99<=49s"])).best is None


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), min_size=1, max_size=12))
def test_the_curve_has_what_no_other_one_beats(points: list[tuple[int, int]]) -> None:
    found = recommend([summary(money, p99) for money, p99 in points], [])
    on_curve = [points[index] for index in found.curve]
    beaten = {one for one in points if any(a <= one[0] and b <= one[1] and (a, b) != one for a, b in points)}
    assert set(on_curve) == set(points) - beaten
    assert on_curve == sorted(set(on_curve))
    assert found.best is not None
    assert points[found.best] == min(points)


def test_every_figure_can_be_read_of_a_simulation() -> None:
    figures = ClusterSimulation().run_for("1m").summary()
    assert all(figure.of(figures) >= 0 for figure in FIGURES.values())


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        (["p99"], "give FIGURE<=VALUE"),
        (["p99<=60s"], "p99 is no figure; there are time_to_schedule_p50"),
        (["time_to_schedule_p99<=soon"], "'soon'"),
        (["time_to_schedule_p99<=5parsecs"], "5parsecs"),
        (["evictions<=-1"], "is no amount"),
        (["evictions<=nan"], "is no amount"),
        (["money<=5", "money>=6"], "money>=6 and --limit money<=5 contradict each other"),
    ],
)
def test_limits_that_cannot_be_meant_are_named(texts: list[str], told: str) -> None:
    with pytest.raises(ScenarioError) as error:
        read_limits(texts)
    assert told in str(error.value)


def test_values_of_times_are_durations_or_seconds() -> None:
    assert {read_limit(f"time_to_schedule_max <= {text}").value for text in ("90", "90s", "1m30s")} == {90.0}
