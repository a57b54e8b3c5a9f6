"""When schedules are active, and the amounts that then apply.

A schedule is active from each time at which its cron expression is due, in its time zone, for its duration. If several
are active at once, the largest amounts count. Pure: the time comes with the request. Cron as in Debian, including clock
changes (library `cronsim`).
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from trimtab.planner.facts.schedules import is_active
from trimtab.planner.slack.settings import PoolSettings, SlackAmount, SlackSchedule

_BY_RATE = ("cpu", "memory")


class Demand(NamedTuple):
    """The room that a pool requests at one time. replicas : number of standard placeholders, None = by the amounts."""

    amounts: Mapping[str, SlackAmount]
    replicas: int | None


def in_force(pool: PoolSettings, now_ns: int) -> Demand:
    """Return the amounts that apply now. now_ns : Unix nanoseconds."""
    holding = [schedule for schedule in pool.schedules if holds(schedule, now_ns)]
    amounts = dict(pool.amounts)
    for name in sorted({*_BY_RATE, *(name for one in holding for name in one.amounts)}):
        meanwhile = [amount for one in holding if (amount := _of(one, name, pool.amounts)) is not None]
        if meanwhile:
            amounts[name] = largest(meanwhile)
    counts = [one.replicas for one in holding if one.replicas is not None]
    return Demand(amounts, max(counts, default=None))


def holds(schedule: SlackSchedule, now_ns: int) -> bool:
    """Return whether a schedule is active: it was due less than its duration ago."""
    return is_active(schedule.cron, schedule.zone, schedule.duration_ns, now_ns)


def _of(schedule: SlackSchedule, name: str, otherwise: Mapping[str, SlackAmount]) -> SlackAmount | None:
    """Return a schedule's amount of a resource, completed by the amount without schedule; None = no amount."""
    usual = otherwise.get(name, SlackAmount())
    own = schedule.amounts.get(name)
    if own is not None:
        return SlackAmount(usual.rate if own.rate is None else own.rate, own.floor, own.ceiling)
    if schedule.rate is not None and name in _BY_RATE:
        return SlackAmount(schedule.rate, usual.floor, usual.ceiling)
    return None


def largest(amounts: Sequence[SlackAmount]) -> SlackAmount:
    """Return the amount with the largest rate, the largest floor and the largest ceiling, where a missing ceiling is
    the largest.
    """
    ceilings = [one.ceiling for one in amounts if one.ceiling is not None]
    floors = [one.floor for one in amounts if one.floor is not None]
    return SlackAmount(
        max(one.rate or 0.0 for one in amounts),
        max(floors, default=None),
        max(ceilings) if len(ceilings) == len(amounts) else None,
    )
