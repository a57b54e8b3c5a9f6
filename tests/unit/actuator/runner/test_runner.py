"""Which threads carry out what: calls of the cloud that hang delay no other work."""

import threading
from collections.abc import Sequence
from typing import Any

from tests.builders.waiting import LIMIT_S
from trimtab.actuator.runner.runner import SHORT_THREADS, Runner
from trimtab.actuator.runner.tasks import TaskContext
from trimtab.actuator.settings import WorkSettings
from trimtab.actuator.tracker import events as e
from trimtab.actuator.tracker import instructions as i
from trimtab.actuator.tracker.states import GroupGrowth


class Hanging:
    """A cloud whose calls hang until they are released."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.hanging = threading.Semaphore(0)

    def set_size(self, group: str, expected: int, wanted: int, token: str) -> None:
        self.hanging.release()
        self.released.wait(LIMIT_S)

    def instance_states(self, group: str, instances: Sequence[str]) -> Any:
        self.hanging.release()
        self.released.wait(LIMIT_S)
        return {}


class Quick:
    """A cluster that does everything at once."""

    def add_taint(self, node: str, taint: object, uid: str = "") -> bool:
        return True

    def remove_taint(self, node: str, key: str, uncordon: bool = False, uid: str = "") -> bool:
        return True


class Events:
    """A recorder of events."""

    def __init__(self) -> None:
        self.seen: list[e.Event] = []
        self.changed = threading.Condition()

    def now_ms(self) -> int:
        return 0

    def steady_ms(self) -> int:
        return 0

    def awake_ms(self) -> int:
        return 0

    def submit(self, event: e.Event) -> None:
        with self.changed:
            self.seen.append(event)
            self.changed.notify_all()


def test_hanging_scale_ups_and_deletions_delay_neither_taints_nor_roll_backs_nor_each_other() -> None:
    cloud, events = Hanging(), Events()
    context = TaskContext(Quick(), cloud, events, WorkSettings(), lambda *_: None)  # type: ignore[arg-type]
    runner = Runner(context)
    try:
        for number in range(SHORT_THREADS + 8):
            runner.dispatch(i.Grow(f"grow-{number}", (GroupGrowth(f"g{number}", 1, 2),), 0))
        for _ in range(SHORT_THREADS):
            assert cloud.hanging.acquire(timeout=LIMIT_S)
        runner.dispatch(i.WriteTaints("r", ("n1", "n2"), ("", "")))
        runner.dispatch(i.RollBack("n3", ""))
        runner.dispatch(i.DeleteInstance("n4", "g", "test://n4", ""))
        with events.changed:
            assert events.changed.wait_for(lambda: len(events.seen) == 2, LIMIT_S)
        assert {type(event) for event in events.seen} == {e.SetTainted, e.RolledBack}
        assert cloud.hanging.acquire(timeout=LIMIT_S), "deletions have threads of their own too"
    finally:
        cloud.released.set()
        runner.stop()
