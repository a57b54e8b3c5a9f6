"""When a cron schedule is active: from each time at which its expression is due, in its time zone, for its duration.
Pure: the time comes with the request. Cron as in Debian, including clock changes (library `cronsim`).
"""

from datetime import UTC, datetime, timedelta, tzinfo

from cronsim import CronSim

from trimtab.planner.model.settings import SECOND_NS


def is_active(cron: str, zone: tzinfo, duration_ns: int, now_ns: int) -> bool:
    """Return whether a schedule was due less than its duration ago. now_ns : Unix nanoseconds."""
    now = datetime.fromtimestamp(now_ns // SECOND_NS, UTC)
    begin = now - timedelta(seconds=-(-duration_ns // SECOND_NS))
    try:
        due = next(CronSim(cron, begin.astimezone(zone)))
    except StopIteration:
        return False
    return due.timestamp() * SECOND_NS + duration_ns > now_ns and due <= now
