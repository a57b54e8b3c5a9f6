"""A clock that advances only when nothing is left to do now, and a pool that runs an actuator's tasks by it.

One thread runs everything, in order of time, then of arrival: a run depends only on its inputs. Units: seconds.
"""

import heapq

from trimtab.actuator.runner.scheduler import ScheduledTask, reschedule_due
from trimtab.actuator.tracker.transitions import ImpossibleEventError


class VirtualTime:
    """The time, and a `Pool` (see `trimtab.actuator.runner.scheduler`)."""

    def __init__(self, now_s: float) -> None:
        """`now_s` : the initial time, Unix seconds."""
        self.now_s = now_s
        self._due: list[tuple[float, int, ScheduledTask]] = []
        self._count = 0

    def clock(self) -> float:
        """Return the current time."""
        return self.now_s

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now_s += seconds

    def make_pool(self, name: str, thread_count: int) -> "VirtualTime":
        """Return itself: all pools share one order."""
        del name, thread_count
        return self

    def add(self, task: ScheduledTask, delay_s: float = 0.0) -> None:
        """Schedule a task's next step."""
        self._count += 1
        heapq.heappush(self._due, (self.now_s + delay_s, self._count, task))

    def reschedule_earlier(self, task: ScheduledTask, delay_s: float = 0.0) -> None:
        """Make a scheduled task run its next step after at most this delay."""
        reschedule_due(self._due, task, self.now_s + delay_s)

    def stop(self, timeout_s: float = 10.0) -> None:
        """Forget everything that is due."""
        del timeout_s
        self._due.clear()

    def next_s(self) -> float | None:
        """Return when the next step is due, None = none is."""
        return self._due[0][0] if self._due else None

    def step(self) -> bool:
        """Run the next step; False = there is none."""
        if not self._due:
            return False
        due_s, _, task = heapq.heappop(self._due)
        self.now_s = max(self.now_s, due_s)
        try:
            delay_s = task.step()
        except ImpossibleEventError:
            # The deletion of the task has ended in the meantime.
            delay_s = None
        if delay_s is not None:
            self.add(task, delay_s)
        return True
