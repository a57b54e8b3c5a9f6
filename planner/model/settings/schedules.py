"""Checks cron expressions of settings."""

from datetime import UTC, datetime
from typing import Final

from cronsim import CronSim, CronSimError

from trimtab.planner.model.settings.reading import SettingsError

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
