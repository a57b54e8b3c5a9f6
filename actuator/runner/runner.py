"""The runner: gives every instruction of the tracker to the pool that carries it out.

Decides which pool: drains, instance deletions and short tasks have threads of their own, so that no kind waits for
another. Knows which drain works on a node, because a roll-back has to stop it first.
"""

import threading
from collections.abc import Callable

from actuator.drain.drain import DrainTask
from actuator.runner.deleter import GroupDeleter
from actuator.runner.scheduler import Pool, Scheduler
from actuator.runner.tasks import BeginDeleteTask, CheckEmptyTask, GrowTask, RollBackTask, Surroundings, TaintTask
from actuator.tracker import instructions as i

SHORT_THREADS = 8


class Runner:
    """Carries out instructions."""

    def __init__(self, around: Surroundings, make_pool: Callable[[str, int], Pool] = Scheduler) -> None:
        """`make_pool` takes a name and a number of threads."""
        self._around = around
        self._short = make_pool("short", SHORT_THREADS)
        self._drains = make_pool("drain", around.settings.drain.thread_count)
        self._deletes = make_pool("delete", around.settings.delete.thread_count)
        self._lock = threading.Lock()
        self._drain_of: dict[str, DrainTask] = {}
        self._deleter_of: dict[str, GroupDeleter] = {}

    def dispatch(self, instruction: i.Instruction) -> None:
        """Take one instruction; returns at once."""
        around, delay_s = self._around, self._around.settings.delay_after_taint_s
        match instruction:
            case i.WriteTaints():
                self._short.add(TaintTask(instruction, around))
            case i.CheckEmpty():
                self._short.add(CheckEmptyTask(instruction, around), delay_s)
            case i.Drain():
                # One that goes on after a restart was tainted long ago.
                self._drains.add(self._drain(instruction), 0.0 if instruction.deadline_ms else delay_s)
            case i.BeginDelete():
                self._short.add(BeginDeleteTask(instruction, around))
            case i.DeleteInstance():
                self._delete(instruction)
            case i.RollBack():
                self._short.add(RollBackTask(instruction, self._drain_to_end(instruction), around))
            case i.Grow():
                self._short.add(GrowTask(instruction, around))
            case _:
                raise AssertionError(f"nobody carries out {instruction}")

    def stop(self) -> None:
        """Let running steps finish and begin no others."""
        for pool in (self._drains, self._short, self._deletes):
            pool.stop()

    def _drain(self, instruction: i.Drain) -> DrainTask:
        task = self._new_drain(instruction)
        with self._lock:
            self._drain_of[instruction.node] = task
        return task

    def _new_drain(self, instruction: i.Drain) -> DrainTask:
        around = self._around
        return DrainTask(instruction, around.cluster, around.recorder, around.settings.drain, around.on_eviction)

    def _drain_to_end(self, instruction: i.RollBack) -> DrainTask | None:
        """The drain that works on the node, or the one that an earlier run has left unsettled."""
        with self._lock:
            drain = self._drain_of.pop(instruction.node, None)
        if drain is None and instruction.pods:
            left = i.Drain(instruction.node, 0.0, pods=instruction.pods, evicted=instruction.evicted)
            return self._new_drain(left)
        return drain

    def _delete(self, instruction: i.DeleteInstance) -> None:
        around, group = self._around, instruction.node_group
        with self._lock:
            self._drain_of.pop(instruction.node, None)
            deleter = self._deleter_of.get(group)
            if deleter is None:
                deleter = GroupDeleter(group, around.cluster, around.cloud, around.recorder, around.settings)
                self._deleter_of[group] = deleter
        if deleter.want(instruction.node):
            self._deletes.add(deleter, around.settings.delete.batch_s)
