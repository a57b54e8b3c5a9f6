"""Runs many long tasks on few threads: a task works in steps, each of which returns when the next one is due.

Decides only when a step runs: by due time, then in order of arrival. A step that raises is logged and retried. Units:
seconds.
"""

import heapq
import math
import threading
import time
from typing import Protocol

import structlog

from trimtab.actuator.store.records import StoreError
from trimtab.actuator.tracker.transitions import ImpossibleEventError

log = structlog.get_logger("runner")

# After a step that raised an unexpected error.
RETRY_S = 5.0


class ScheduledTask(Protocol):
    """Work in steps."""

    @property
    def name(self) -> str:
        """Return the name for the log."""

    def step(self) -> float | None:
        """Do one step. Returns the seconds until the next one, None = done."""


class Pool(Protocol):
    """Something that runs tasks. A task's steps never overlap."""

    def add(self, task: ScheduledTask, delay_s: float = 0.0) -> None:
        """Schedule a task's next step after a delay."""

    def reschedule_earlier(self, task: ScheduledTask, delay_s: float = 0.0) -> None:
        """Bring the next step of a scheduled task forward to at most this delay from now."""

    def stop(self, timeout_s: float = 10.0) -> None:
        """Stop after the running steps, and wait for them. Unfinished work continues at the next start."""


def reschedule_due(due: list[tuple[float, int, ScheduledTask]], task: ScheduledTask, until_s: float) -> bool:
    """Bring a task's step forward in a heap of due steps, in place; return whether it was due later."""
    for position, (at_s, number, waiting) in enumerate(due):
        if waiting is task and at_s > until_s:
            due[position] = (until_s, number, task)
            heapq.heapify(due)
            return True
    return False


class Scheduler:
    """A `Pool` of threads. A task's steps never overlap."""

    def __init__(self, name: str, thread_count: int) -> None:
        self._due: list[tuple[float, int, ScheduledTask]] = []
        self._count = 0
        # Tasks with a running step, and the longest delay before their next one; by identity.
        self._running: dict[int, float] = {}
        self._stopping = False
        self._condition = threading.Condition()
        self._threads = [
            threading.Thread(target=self._work, name=f"{name}-{number}", daemon=True) for number in range(thread_count)
        ]
        for thread in self._threads:
            thread.start()

    def add(self, task: ScheduledTask, delay_s: float = 0.0) -> None:
        """Schedule a task's next step after a delay."""
        with self._condition:
            self._push(task, delay_s)

    def reschedule_earlier(self, task: ScheduledTask, delay_s: float = 0.0) -> None:
        """Bring the next step of a scheduled task forward to at most this delay from now."""
        with self._condition:
            if id(task) in self._running:
                self._running[id(task)] = min(self._running[id(task)], delay_s)
            elif reschedule_due(self._due, task, time.monotonic() + delay_s):
                self._condition.notify()

    def stop(self, timeout_s: float = 10.0) -> None:
        """Stop after the running steps, and wait for them. Unfinished work continues at the next start."""
        with self._condition:
            self._stopping = True
            self._condition.notify_all()
        until = time.monotonic() + timeout_s
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, until - time.monotonic()))

    def _work(self) -> None:
        while True:
            task = self._next()
            if task is None:
                return
            delay_s = self._step(task)
            with self._condition:
                longest_s = self._running.pop(id(task))
                if delay_s is not None:
                    self._push(task, min(delay_s, longest_s))

    def _push(self, task: ScheduledTask, delay_s: float) -> None:
        """Schedule a step. Call under the condition."""
        self._count += 1
        heapq.heappush(self._due, (time.monotonic() + delay_s, self._count, task))
        self._condition.notify()

    def _step(self, task: ScheduledTask) -> float | None:
        try:
            return task.step()
        except ImpossibleEventError as error:
            # The task's deletion has ended in the meantime.
            log.warning("task dropped", task=task.name, detail=str(error))
            return None
        except StoreError as error:
            # Logged once by the event processor; the process ends.
            log.warning("step not done", task=task.name, detail=str(error))
            return RETRY_S
        except Exception as error:
            if self._stopping:
                return None
            log.error("step failed", task=task.name, exc_info=error)
            return RETRY_S

    def _next(self) -> ScheduledTask | None:
        """Wait for the next task; None = the pool stops."""
        with self._condition:
            while not self._stopping:
                wait_s = self._due[0][0] - time.monotonic() if self._due else None
                if wait_s is not None and wait_s <= 0:
                    task = heapq.heappop(self._due)[2]
                    self._running[id(task)] = math.inf
                    return task
                self._condition.wait(wait_s)
            return None
