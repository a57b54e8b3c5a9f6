"""Settings of slack, resolved: defaults filled in, durations as integers, schedules and selectors checked.

`trimtab.planner.slack.sets` says when a schedule is active. Rates are shares of an allocatable amount, amounts are
as in the snapshot.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from functools import cache
from importlib import resources
from typing import Any, Final
from zoneinfo import ZoneInfo

from trimtab.planner.model.settings.reading import SettingsError, resolved, selector, setting, value_of
from trimtab.planner.model.settings.scale_down import check_cron
from trimtab.planner.model.values import Selector
from trimtab.v1 import plan_pb2 as pb

_PATH: Final = "slack"
_ZONE: Final = re.compile(r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*")
_BY_RATE: Final = ("cpu", "memory")


@dataclass(frozen=True)
class SlackAmount:
    """Extra capacity of one resource: a share of the capacity, at least `floor`, at most `ceiling`; None = no such
    limit.

    In a schedule, a missing rate means the one that applies otherwise.
    """

    rate: float | None = 0.0
    floor: int | None = None
    ceiling: int | None = None


@dataclass(frozen=True)
class SlackSchedule:
    """A time window, from each time at which `cron` is due in `zone`, and the settings that apply meanwhile.

    rate, amounts, replicas : None, or without an entry, if the schedule changes nothing.
    """

    cron: str
    duration_ns: int
    zone: tzinfo = UTC
    rate: float | None = None
    amounts: Mapping[str, SlackAmount] = field(default_factory=dict)
    replicas: int | None = None


@dataclass(frozen=True)
class PodSelector:
    """Pods by namespace and labels; () = all."""

    namespaces: tuple[str, ...] = ()
    labels: Selector = ()


@dataclass(frozen=True)
class PoolSettings:
    """Slack of one part of the cluster; `name` "" is the whole cluster."""

    name: str = ""
    """The requesting pool; "" = the whole cluster."""
    node_groups: tuple[str, ...] = ()
    """Ids of node groups; () = all nodes."""
    nodes: Selector = ()
    """Labels of nodes; () = all nodes."""
    topology_key: str = ""
    """Label whose values each have their own slack; "" = all nodes together."""
    amounts: Mapping[str, SlackAmount] = field(default_factory=dict)
    """Extra capacity by resource; by default none."""
    granularity: int = setting("slack.granularity")
    strategy: int = setting("slack.strategy")
    """`SlackStrategy.Code`."""
    schedules: tuple[SlackSchedule, ...] = ()
    """Times at which other amounts apply."""


@dataclass(frozen=True)
class SlackSettings:
    """Slack, resolved from `PlanSettings`."""

    pools: tuple[PoolSettings, ...] = (PoolSettings(),)
    """The whole cluster first, then parts of it in the given order."""
    ignored_pods: tuple[PodSelector, ...] = ()
    """Pods that do not count for the largest pod."""
    resize_threshold: float = setting("slack.resize_threshold")
    smaller_buffers: bool = setting(
        "slack.capacity_buffer_reading", lambda code: code == pb.CapacityBufferReading.SMALLER
    )
    """Whether the smaller one counts of a CapacityBuffer with two counts."""


def resolve_slack(message: pb.PlanSettings) -> SlackSettings:
    """Resolve the slack part of `PlanSettings`. Raises SettingsError for an invalid value."""
    slack = message.slack
    general = _pool(slack, PoolSettings(), _PATH)
    pools = [_named(entry, general, f"{_PATH}.pools[{i}]") for i, entry in enumerate(slack.pools)]
    names = [pool.name for pool in pools]
    for i, name in enumerate(names):
        if name in names[:i]:
            raise SettingsError(f"{_PATH}.pools[{i}].name", f"{name!r} is given twice; give each pool its own name")
    return resolved(
        SlackSettings,
        message,
        pools=(general, *pools),
        ignored_pods=tuple(_pods(entry, f"{_PATH}.ignored_pods[{i}]") for i, entry in enumerate(slack.ignored_pods)),
    )


def _named(message: pb.SlackPool, general: PoolSettings, path: str) -> PoolSettings:
    if not message.name or set("/:") & set(message.name):
        raise SettingsError(f"{path}.name", f'{message.name!r} is invalid; give a name without "/" and ":"')
    pool = _pool(message, general, path)
    return PoolSettings(
        name=message.name,
        node_groups=value_of(message, "node_groups", path),
        nodes=selector(message.nodes, f"{path}.nodes"),
        topology_key=message.topology_key,
        amounts=pool.amounts,
        granularity=pool.granularity,
        strategy=pool.strategy,
        schedules=pool.schedules,
    )


def _pool(message: Any, general: PoolSettings, path: str) -> PoolSettings:
    """Resolve what `SlackSettings` and `SlackPool` have in common."""
    amounts = dict(general.amounts)
    if message.HasField("extra_capacity_min_rate"):
        rate = value_of(message, "extra_capacity_min_rate", path)
        amounts |= {name: SlackAmount(rate) for name in _BY_RATE}
    amounts |= _amounts(message, {name: entry.rate or 0.0 for name, entry in amounts.items()}, 0.0, path)
    schedules = tuple(_schedule(entry, f"{path}.schedules[{i}]") for i, entry in enumerate(message.schedules))
    return PoolSettings(
        amounts=amounts,
        granularity=value_of(message, "granularity", path, general.granularity),
        strategy=value_of(message, "strategy", path, general.strategy),
        schedules=schedules or general.schedules,
    )


def _amounts(message: Any, rates: Mapping[str, float], default: float | None, path: str) -> dict[str, SlackAmount]:
    """Resolve `resources`. rates : those of resources without one of their own, `default` if there is none."""
    amounts = {}
    for name in sorted(message.resources):
        here, resource = f"{path}.resources[{name!r}]", message.resources[name]
        if name in ("", "pods"):
            raise SettingsError(here, 'not a resource that placeholders can hold; name one, such as "cpu"')
        floor, ceiling = value_of(resource, "floor", here), value_of(resource, "ceiling", here)
        if floor is not None and ceiling is not None and ceiling < floor:
            raise SettingsError(f"{here}.ceiling", f"{ceiling} is below the floor {floor}")
        rate = value_of(resource, "rate", here, rates.get(name, default))
        amounts[name] = SlackAmount(rate, floor, ceiling)
    return amounts


def _schedule(schedule: pb.SlackSchedule, path: str) -> SlackSchedule:
    zone = _zone(schedule.time_zone, f"{path}.time_zone")
    check_cron(schedule.cron, f"{path}.cron")
    duration = value_of(schedule, "duration", path)
    if duration is None:
        raise SettingsError(f"{path}.duration", "it is missing; give the duration of the schedule")
    rate, replicas = value_of(schedule, "extra_capacity_min_rate", path), value_of(schedule, "replicas", path)
    if rate is None and replicas is None and not schedule.resources:
        raise SettingsError(path, "it changes nothing; give extra_capacity_min_rate, resources or replicas")
    rates = dict.fromkeys(_BY_RATE, rate) if rate is not None else {}
    amounts = _amounts(schedule, rates, None, path)
    return SlackSchedule(schedule.cron, duration, zone, rate, amounts, replicas)


def _zone(name: str, path: str) -> tzinfo:
    try:
        return time_zone(name) if name else UTC
    except (OSError, ValueError, ModuleNotFoundError):
        problem = f"{name!r} is not a time zone; use a name of the IANA database, such as Europe/Berlin"
        raise SettingsError(path, problem) from None


@cache
def time_zone(name: str) -> tzinfo:
    """Return a time zone of the package `tzdata`, regardless of the machine's: equal requests have equal answers.

    Raises ValueError or OSError if there is none of this name.
    """
    if not _ZONE.fullmatch(name):
        raise ValueError(name)
    with resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


def _pods(message: pb.PodSelector, path: str) -> PodSelector:
    return PodSelector(value_of(message, "namespaces", path), selector(message.labels, f"{path}.labels"))
