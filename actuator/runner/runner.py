"""The runner: assigns every instruction of the tracker to the thread pool that carries it out.

Decides which pool: drains, instance deletions, scale-ups, replacements and short tasks have separate threads and do not
wait for each other. Short tasks make no calls of the cloud: one that hangs delays neither taints nor roll-backs.
Keeps the task of each node, because a roll-back has to stop it first.
"""

import threading
import time
from collections.abc import Callable
from typing import Final

from trimtab.actuator.drain.drain import NodeDrain
from trimtab.actuator.runner.deleter import GroupDeleter
from trimtab.actuator.runner.scheduler import Pool, ScheduledTask, Scheduler
from trimtab.actuator.runner.tasks import (
    BeginDeleteTask,
    CheckEmptyTask,
    GrowTask,
    RollBackTask,
    TaintTask,
    TaskContext,
)
from trimtab.actuator.tracker import instructions as i

SHORT_THREADS = 8
# How long running steps may take to end when the process stops, all together.
STOP_S: Final = 5.0


class Runner:
    """Carries out instructions."""

    def __init__(self, context: TaskContext, make_pool: Callable[[str, int], Pool] = Scheduler) -> None:
        """Set up; `make_pool` takes a name and a number of threads."""
        self._context = context
        self._short = make_pool("short", SHORT_THREADS)
        self._drains = make_pool("drain", context.settings.drain.thread_count)
        self._deletes = make_pool("delete", context.settings.delete.thread_count)
        self._growths = make_pool("grow", context.settings.grow.thread_count)
        self._replacements = make_pool("replace", context.settings.replace.thread_count)
        # Makes the task of a replacement, by request id; set by the actuator.
        self.replacement_task: Callable[[str], ScheduledTask] = _no_replacement
        self._lock = threading.Lock()
        # The task that drains a node, or checks that it is empty.
        self._work_of: dict[str, NodeDrain | CheckEmptyTask] = {}
        self._deleter_of: dict[str, GroupDeleter] = {}

    def dispatch(self, instruction: i.Instruction) -> None:
        """Take one instruction; returns at once."""
        context, delay_s = self._context, self._context.settings.delay_after_taint_s
        match instruction:
            case i.WriteTaints():
                self._short.add(TaintTask(instruction, context))
            case i.CheckEmpty():
                check = CheckEmptyTask(instruction, context)
                self._begin(instruction.node, check)
                self._short.add(check, delay_s)
            case i.Drain():
                # The node of a drain that continues after a restart was tainted long ago.
                drain = self._new_drain(instruction)
                self._begin(instruction.node, drain)
                self._drains.add(drain, 0.0 if instruction.deadline_ms else delay_s)
            case i.EvictPods(node=node):
                self._evict_pods(node)
            case i.BeginDelete():
                self._short.add(BeginDeleteTask(instruction, context))
            case i.DeleteInstance() | i.EndRepeats():
                self._delete(instruction)
            case i.RollBack():
                self._short.add(RollBackTask(instruction, self._work_to_end(instruction), context))
            case i.Grow():
                self._growths.add(GrowTask(instruction, context))
            case i.CarryOut(request_id=request_id):
                self._replacements.add(self.replacement_task(request_id))
            case _:
                raise AssertionError(f"no task for {instruction}")

    def stop(self) -> None:
        """Stop after the running steps."""
        pools = (self._replacements, self._drains, self._short, self._deletes, self._growths)
        for pool in pools:
            pool.stop(0.0)
        until_s = time.monotonic() + STOP_S
        for pool in pools:
            pool.stop(max(0.0, until_s - time.monotonic()))

    def _begin(self, node: str, work: NodeDrain | CheckEmptyTask) -> None:
        with self._lock:
            self._work_of[node] = work

    def _new_drain(self, instruction: i.Drain) -> NodeDrain:
        context = self._context
        settings = context.settings
        return NodeDrain(
            instruction,
            context.cluster,
            context.recorder,
            settings.drain,
            context.on_eviction,
            settings.delay_after_taint_s,
        )

    def _evict_pods(self, node: str) -> None:
        """Let a drain that waits for its gang continue."""
        with self._lock:
            work = self._work_of.get(node)
        if isinstance(work, NodeDrain):
            work.evict_pods()
            self._drains.reschedule_earlier(work)

    def _work_to_end(self, instruction: i.RollBack) -> NodeDrain | CheckEmptyTask | None:
        """Return the task that works on the node, or the unfinished drain of an earlier run."""
        with self._lock:
            work = self._work_of.pop(instruction.node, None)
        if work is None and instruction.pods:
            left = i.Drain(
                instruction.node,
                0.0,
                pods=instruction.pods,
                evicted=instruction.evicted,
                node_uid=instruction.node_uid,
            )
            return self._new_drain(left)
        return work

    def _delete(self, instruction: i.DeleteInstance | i.EndRepeats) -> None:
        context, group = self._context, instruction.node_group
        with self._lock:
            deleter = self._deleter_of.get(group)
            if isinstance(instruction, i.EndRepeats):
                if deleter is not None:
                    deleter.end_repeats()
                return
            self._work_of.pop(instruction.node, None)
            if deleter is None:
                deleter = GroupDeleter(group, context.cluster, context.cloud, context.recorder, context.settings)
                self._deleter_of[group] = deleter
        if deleter.want(instruction):
            self._deletes.add(deleter, context.settings.delete.batch_s)
        elif instruction.drained_by_caller:
            # The caller waits for the cloud's answer: do not wait for the next regular check.
            self._deletes.reschedule_earlier(deleter, context.settings.delete.batch_s)


def _no_replacement(request_id: str) -> ScheduledTask:
    raise AssertionError(f"no task for replacement {request_id}")
