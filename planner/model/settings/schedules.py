"""Cron schedules: check one that settings give, and when it is active: from each time at which its expression is due,
in its time zone, for its duration. Cron as in Debian, including clock changes (library `cronsim`).
"""

from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from cronsim import CronSim, CronSimError

from trimtab.planner.model.settings.reading import SECOND_NS, SettingsError

_CRON_FIELDS: Final = 5


def check_cron(cron: str, path: str) -> None:
    """Raise SettingsError unless a text is a cron expression of five fields that is due at some time."""
    problem = f"{cron!r} has {len(cron.split())} fields"
    if len(cron.split()) == _CRON_FIELDS:
        try:
            next(CronSim(cron, datetime(2000, 1, 1, tzinfo=UTC)))
        except CronSimError as error:
            problem = f"{cron!r} cannot be read: {error}"
        except StopIteration:
            problem = f"{cron!r} is never due"
        else:
            return
    raise SettingsError(path, f"{problem}; write minute, hour, day of month, month, day of week, such as '0 8 * * 1-5'")


def is_active(cron: str, zone: tzinfo, duration_ns: int, now_ns: int) -> bool:
    """Return whether a schedule was due less than its duration ago. now_ns : Unix nanoseconds."""
    now = datetime.fromtimestamp(now_ns // SECOND_NS, UTC)
    begin = now - timedelta(seconds=-(-duration_ns // SECOND_NS))
    try:
        due = next(CronSim(cron, begin.astimezone(zone)))
    except StopIteration:
        return False
    return due.timestamp() * SECOND_NS + duration_ns > now_ns and due <= now
