"""Schedules apply from each time of their cron expression, in their time zone, for their duration."""

from datetime import UTC, datetime
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict

from trimtab.planner.slack.sets import in_force
from trimtab.planner.slack.settings import PoolSettings, SlackAmount, resolve_slack
from trimtab.v1 import plan_pb2


def pool(*schedules: dict[str, Any], **more: Any) -> PoolSettings:
    slack = {"extraCapacityMinRate": 0.1, "schedules": schedules} | more
    return resolve_slack(ParseDict({"slack": slack}, plan_pb2.PlanSettings())).pools[0]


def at(text: str) -> int:
    """Return the Unix nanoseconds of a time in UTC."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1e9)


WORK: dict[str, Any] = {
    "cron": "0 8 * * MON-FRI",
    "duration": "36000s",
    "timeZone": "Europe/Berlin",
    "extraCapacityMinRate": 0.4,
}


@pytest.mark.parametrize(
    ("moment", "rate"),
    [
        pytest.param("2026-11-23 06:59:59", 0.1, id="before it begins"),
        pytest.param("2026-11-23 07:00:00", 0.4, id="when it begins, 8 o'clock in Berlin in winter"),
        pytest.param("2026-11-23 16:59:59", 0.4, id="just before it ends"),
        pytest.param("2026-11-23 17:00:00", 0.1, id="when it ends"),
        pytest.param("2026-11-22 12:00:00", 0.1, id="on a Sunday"),
        pytest.param("2026-07-06 05:59:59", 0.1, id="before it begins in summer"),
        pytest.param("2026-07-06 06:00:00", 0.4, id="8 o'clock in Berlin in summer"),
    ],
)
def test_a_schedule_holds_in_its_window(moment: str, rate: float) -> None:
    assert in_force(pool(WORK), at(moment)).amounts["cpu"] == SlackAmount(rate)


def test_a_window_may_last_over_midnight_and_longer_than_a_day() -> None:
    weekend = {"cron": "0 20 * * FRI", "duration": "216000s", "extraCapacityMinRate": 0}
    assert in_force(pool(weekend), at("2026-11-22 07:59:00")).amounts["cpu"].rate == 0
    assert in_force(pool(weekend), at("2026-11-23 08:00:00")).amounts["cpu"].rate == 0.1


def test_of_several_schedules_the_largest_amounts_count() -> None:
    both = (
        {"cron": "0 * * * *", "duration": "3600s", "extraCapacityMinRate": 0.2, "replicas": 3},
        {"cron": "0 * * * *", "duration": "1800s", "resources": {"cpu": {"rate": 0.3, "floor": 500}}, "replicas": 2},
    )
    asked = in_force(pool(*both), at("2026-11-23 07:10:00"))
    assert (asked.amounts["cpu"], asked.amounts["memory"]) == (SlackAmount(0.3, 500), SlackAmount(0.2))
    assert asked.replicas == 3
    later = in_force(pool(*both), at("2026-11-23 07:40:00"))
    assert (later.amounts["cpu"], later.replicas) == (SlackAmount(0.2), 3)


def test_a_schedule_may_make_slack_smaller_and_leaves_alone_what_it_does_not_name() -> None:
    night = {"cron": "0 22 * * *", "duration": "28800s", "resources": {"cpu": {"floor": 100}}}
    asked = in_force(pool(night, resources={"nvidia.com/gpu": {"floor": 2}}), at("2026-11-23 23:00:00"))
    assert asked.amounts == {
        "cpu": SlackAmount(0.1, 100),
        "memory": SlackAmount(0.1),
        "nvidia.com/gpu": SlackAmount(0.0, 2),
    }
    assert asked.replicas is None


def test_the_hour_that_clocks_leave_out_is_made_up_for() -> None:
    """In Berlin the clocks go from 2:00 to 3:00 on 2026-03-29; a schedule due at 2:30 starts at 3:00, as in Debian."""
    skipped = {"cron": "30 2 * * *", "duration": "60s", "timeZone": "Europe/Berlin", "replicas": 1}
    assert in_force(pool(skipped), at("2026-03-29 01:00:30")).replicas == 1
    assert in_force(pool(skipped), at("2026-03-29 01:30:30")).replicas is None
