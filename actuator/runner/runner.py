"""The runner: gives every instruction of the tracker to the pool that carries it out.

Decides which pool: drains, instance deletions and short tasks have threads of their own, so that no kind waits for
another. Knows what works on a node, because a roll-back has to stop it first.
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
        # What empties a node, or makes sure that it is empty.
        self._work_of: dict[str, DrainTask | CheckEmptyTask] = {}
        self._deleter_of: dict[str, GroupDeleter] = {}

    def dispatch(self, instruction: i.Instruction) -> None:
        """Take one instruction; returns at once."""
        around, delay_s = self._around, self._around.settings.delay_after_taint_s
        match instruction:
            case i.WriteTaints():
                self._short.add(TaintTask(instruction, around))
            case i.CheckEmpty():
                check = CheckEmptyTask(instruction, around)
                self._begin(instruction.node, check)
                self._short.add(check, delay_s)
            case i.Drain():
                # One that goes on after a restart was tainted long ago.
                drain = self._new_drain(instruction)
                self._begin(instruction.node, drain)
                self._drains.add(drain, 0.0 if instruction.deadline_ms else delay_s)
            case i.BeginDelete():
                self._short.add(BeginDeleteTask(instruction, around))
            case i.DeleteInstance():
                self._delete(instruction)
            case i.RollBack():
                self._short.add(RollBackTask(instruction, self._work_to_end(instruction), around))
            case i.Grow():
                self._short.add(GrowTask(instruction, around))
            case _:
                raise AssertionError(f"nobody carries out {instruction}")

    def stop(self) -> None:
        """Let running steps finish and begin no others."""
        for pool in (self._drains, self._short, self._deletes):
            pool.stop()

    def _begin(self, node: str, work: DrainTask | CheckEmptyTask) -> None:
        with self._lock:
            self._work_of[node] = work

    def _new_drain(self, instruction: i.Drain) -> DrainTask:
        around = self._around
        return DrainTask(instruction, around.cluster, around.recorder, around.settings.drain, around.on_eviction)

    def _work_to_end(self, instruction: i.RollBack) -> DrainTask | CheckEmptyTask | None:
        """What works on the node, or the drain that an earlier run has left unsettled."""
        with self._lock:
            work = self._work_of.pop(instruction.node, None)
        if work is None and instruction.pods:
            left = i.Drain(instruction.node, 0.0, pods=instruction.pods, evicted=instruction.evicted)
            return self._new_drain(left)
        return work

    def _delete(self, instruction: i.DeleteInstance) -> None:
        around, group = self._around, instruction.node_group
        with self._lock:
            self._work_of.pop(instruction.node, None)
            deleter = self._deleter_of.get(group)
            if deleter is None:
                deleter = GroupDeleter(group, around.cluster, around.cloud, around.recorder, around.settings)
                self._deleter_of[group] = deleter
        if deleter.want(instruction.node):
            self._deletes.add(deleter, around.settings.delete.batch_s)
