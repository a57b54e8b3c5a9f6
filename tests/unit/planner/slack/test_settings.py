"""Settings of slack: the meaning of absent fields, and refused values, each with its path."""

from typing import Any

import pytest
from google.protobuf.json_format import ParseDict

from trimtab.planner.model.settings import SettingsError
from trimtab.planner.slack.settings import SlackAmount, SlackSettings, resolve_slack
from trimtab.v1 import plan_pb2


def resolve(slack: dict[str, Any]) -> SlackSettings:
    return resolve_slack(ParseDict({"slack": slack}, plan_pb2.PlanSettings()))


def test_without_settings_no_room_is_kept_and_the_design_s_defaults_hold() -> None:
    found = resolve({})
    assert found == SlackSettings()
    assert (found.pools[0].amounts, found.pools[0].granularity, found.resize_threshold) == ({}, 5, 0.1)


def test_a_rate_holds_for_cpu_and_memory_and_each_resource_may_differ() -> None:
    amounts = {"memory": {"rate": 0.3}, "cpu": {"ceiling": 9000}, "nvidia.com/gpu": {"floor": 1}}
    assert resolve({"extraCapacityMinRate": 0.2, "resources": amounts}).pools[0].amounts == {
        "cpu": SlackAmount(0.2, None, 9000),
        "memory": SlackAmount(0.3),
        "nvidia.com/gpu": SlackAmount(0.0, 1),
    }


def test_pools_take_what_they_leave_out_from_the_whole_cluster() -> None:
    whole, one, other = resolve(
        {
            "extraCapacityMinRate": 0.1,
            "granularity": 4,
            "strategy": "LARGEST_POD",
            "pools": [
                {"name": "a", "nodeGroups": ["x", "y", "x"], "topologyKey": "zone"},
                {"name": "b", "extraCapacityMinRate": 0.5, "granularity": 2, "strategy": "EQUAL"},
            ],
        }
    ).pools
    assert (one.name, one.node_groups, one.topology_key) == ("a", ("x", "y"), "zone")
    assert (one.amounts, one.granularity, one.strategy) == (whole.amounts, 4, plan_pb2.SlackStrategy.LARGEST_POD)
    assert (other.amounts["cpu"].rate, other.granularity, other.strategy) == (0.5, 2, plan_pb2.SlackStrategy.EQUAL)


SCHEDULE = {"cron": "0 8 * * *", "duration": "60s", "replicas": 1}


@pytest.mark.parametrize(
    ("slack", "field"),
    [
        ({"extraCapacityMinRate": -0.1}, "slack.extra_capacity_min_rate"),
        ({"extraCapacityMinRate": "NaN"}, "slack.extra_capacity_min_rate"),
        ({"extraCapacityMinRate": "Infinity"}, "slack.extra_capacity_min_rate"),
        ({"extraCapacityMinRate": 1e7}, "slack.extra_capacity_min_rate"),
        ({"granularity": 0}, "slack.granularity"),
        ({"granularity": -1}, "slack.granularity"),
        ({"strategy": 99}, "slack.strategy"),
        ({"resizeThreshold": -1}, "slack.resize_threshold"),
        ({"capacityBufferReading": 99}, "slack.capacity_buffer_reading"),
        ({"resources": {"cpu": {"rate": -1}}}, "slack.resources['cpu'].rate"),
        ({"resources": {"cpu": {"floor": -1}}}, "slack.resources['cpu'].floor"),
        ({"resources": {"cpu": {"floor": 2, "ceiling": 1}}}, "slack.resources['cpu'].ceiling"),
        ({"resources": {"pods": {"floor": 2}}}, "slack.resources['pods']"),
        ({"pools": [{}]}, "slack.pools[0].name"),
        ({"pools": [{"name": "a:b"}]}, "slack.pools[0].name"),
        ({"pools": [{"name": "a"}, {"name": "a"}]}, "slack.pools[1].name"),
        ({"pools": [{"name": "a", "nodeGroups": [""]}]}, "slack.pools[0].node_groups[0]"),
        ({"pools": [{"name": "a", "granularity": 0}]}, "slack.pools[0].granularity"),
        ({"pools": [{"name": "a", "nodes": {"matchLabels": {"": "x"}}}]}, "slack.pools[0].nodes.match_labels"),
        ({"schedules": [SCHEDULE | {"cron": ""}]}, "slack.schedules[0].cron"),
        ({"schedules": [SCHEDULE | {"cron": "* * * *"}]}, "slack.schedules[0].cron"),
        ({"schedules": [SCHEDULE | {"cron": "* * * * * *"}]}, "slack.schedules[0].cron"),
        ({"schedules": [SCHEDULE | {"cron": "61 * * * *"}]}, "slack.schedules[0].cron"),
        ({"schedules": [SCHEDULE | {"cron": "0 0 30 2 *"}]}, "slack.schedules[0].cron"),
        ({"schedules": [SCHEDULE | {"timeZone": "Mars/Base"}]}, "slack.schedules[0].time_zone"),
        ({"schedules": [SCHEDULE | {"timeZone": "../../etc/passwd"}]}, "slack.schedules[0].time_zone"),
        ({"schedules": [SCHEDULE | {"timeZone": "Europe"}]}, "slack.schedules[0].time_zone"),
        ({"schedules": [{"cron": "0 8 * * *", "replicas": 1}]}, "slack.schedules[0].duration"),
        ({"schedules": [SCHEDULE | {"duration": "-1s"}]}, "slack.schedules[0].duration"),
        ({"schedules": [{"cron": "0 8 * * *", "duration": "60s"}]}, "slack.schedules[0]"),
        ({"schedules": [SCHEDULE | {"replicas": -1}]}, "slack.schedules[0].replicas"),
        ({"ignoredPods": [{"namespaces": [""]}]}, "slack.ignored_pods[0].namespaces[0]"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_path(slack: dict[str, Any], field: str) -> None:
    with pytest.raises(SettingsError) as error:
        resolve(slack)
    assert error.value.field == field
