"""The processor and its pools: many threads, one order, no instruction is issued before it is durable."""

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.builders.waiting import LIMIT_S
from trimtab.actuator.runner import event_processor
from trimtab.actuator.runner.clock import Clock
from trimtab.actuator.runner.event_processor import EventProcessor
from trimtab.actuator.runner.scheduler import Scheduler
from trimtab.actuator.store.journal import Journal
from trimtab.actuator.store.records import MemoryStore, Record, StoreError
from trimtab.actuator.tracker.events import CancelRequested, Drained, Event, PodsEvicted, SetAccepted, SetTainted
from trimtab.actuator.tracker.instructions import Drain, Instruction, RollBack, WriteTaints
from trimtab.actuator.tracker.states import PodRef
from trimtab.actuator.tracker.tracker import Tracker
from trimtab.actuator.tracker.transitions import ImpossibleEventError


class SlowStore(MemoryStore):
    """A store whose writes take a while."""

    def append(self, first_seq: int, records: Sequence[Record]) -> None:
        time.sleep(0.002)
        super().append(first_seq, records)


class HeldStore(MemoryStore):
    """A store whose first write blocks until all events are submitted; counts the records of each write."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []
        self.all_asked = threading.Event()

    def append(self, first_seq: int, records: Sequence[Record]) -> None:
        self.sizes.append(len(records))
        assert self.all_asked.wait(LIMIT_S)
        super().append(first_seq, records)


class Times:
    """Two clocks: `skew_s` is how far the wall clock has jumped."""

    def __init__(self) -> None:
        self.now_s, self.skew_s = 1000.0, 0.0

    def clock(self) -> Clock:
        return Clock(lambda: self.now_s + self.skew_s, lambda: self.now_s)


def processor_on(store: MemoryStore, times: Times | None = None) -> EventProcessor:
    return EventProcessor(Journal(store), (times or Times()).clock(), lambda: None)


def evicted(number: int) -> PodsEvicted:
    return PodsEvicted("n1", (PodRef("default", f"web-{number}", f"uid-{number}"),))


def accepted(request_id: str, *nodes: str) -> SetAccepted:
    from trimtab.actuator.tracker.events import PlannedNode

    return SetAccepted(request_id, "d", tuple(PlannedNode(node, "g", True) for node in nodes), (), 60.0)


def test_events_of_many_threads_are_all_durable_and_share_writes() -> None:
    store = HeldStore()
    processor = processor_on(store)
    threads = [threading.Thread(target=processor.submit, args=(evicted(number),)) for number in range(100)]
    for thread in threads:
        thread.start()
    until_s = time.monotonic() + LIMIT_S
    while sum(store.sizes) + len(processor._queue) < 100 and time.monotonic() < until_s:
        time.sleep(0.005)
    store.all_asked.set()
    for thread in threads:
        thread.join()
    assert len(store.records) == 100
    assert len(store.sizes) <= 2
    assert len(Journal(store).tracker.data.evictions) == 100


def test_a_listener_that_fails_stops_no_instruction() -> None:
    processor = processor_on(MemoryStore())
    seen: list[Instruction] = []
    told: list[Event] = []

    def fail(event: Event, tracker: Tracker, now_ms: int) -> None:
        raise KeyError(event)

    processor.dispatch = seen.append
    processor.listeners += [fail, lambda event, _tracker, _now_ms: told.append(event)]
    processor.submit(accepted("r1", "n1"))
    assert seen == [WriteTaints("r1", ("n1",), ("",))]
    assert told == [accepted("r1", "n1")]


def test_an_instruction_is_given_out_only_when_its_event_is_in_the_store() -> None:
    store = MemoryStore()
    processor = processor_on(store)
    seen: list[tuple[Instruction, int]] = []
    processor.dispatch = lambda instruction: seen.append((instruction, len(store.records)))
    processor.submit(accepted("r1", "n1"))
    assert seen == [(WriteTaints("r1", ("n1",), ("",)), 1)]


def test_an_impossible_event_is_an_error_only_of_its_caller() -> None:
    store = MemoryStore()
    processor = processor_on(store)
    with pytest.raises(ImpossibleEventError):
        processor.submit(Drained("n1"))
    processor.submit(evicted(1))
    assert len(store.records) == 1


def test_a_proposal_that_declines_changes_nothing() -> None:
    store = MemoryStore()
    processor = processor_on(store)
    assert processor.propose(lambda tracker, now_ms: None) is None
    assert store.records == []


def test_a_proposal_sees_what_was_decided_just_before_it() -> None:
    processor = processor_on(SlowStore())
    processor.dispatch = lambda instruction: None
    accepted_count = []

    def once(tracker: Tracker, now_ms: int) -> Event | None:
        return None if "n1" in tracker.data.deletions else accepted(f"r{time.monotonic_ns()}", "n1")

    def ask() -> None:
        accepted_count.append(processor.propose(once) is not None)

    threads = [threading.Thread(target=ask) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert accepted_count.count(True) == 1


def test_when_a_write_fails_nothing_is_given_out_and_nothing_more_is_taken() -> None:
    class Full(MemoryStore):
        def append(self, first_seq: int, records: Sequence[Record]) -> None:
            raise StoreError("disk full")

    told: list[str] = []
    processor = EventProcessor(Journal(Full()), Clock(lambda: 1000.0, lambda: 0.0), lambda: told.append("end"))
    processor.dispatch = lambda instruction: told.append("dispatched")
    with pytest.raises(StoreError, match="disk full"):
        processor.submit(accepted("r1", "n1"))
    assert told == ["end"]
    with pytest.raises(StoreError, match="disk full"):
        processor.read(lambda tracker, now_ms: None)


def ages_s(processor: EventProcessor) -> list[float]:
    """Return the age of each eviction."""
    return processor.read(
        lambda tracker, now_ms: [(now_ms - one.time_ms) / 1000 for one in tracker.data.evictions.values()]
    )


@pytest.mark.parametrize("jump_s", [-3600.0, -3.0, 3.0, 3600.0])
def test_a_clock_that_jumps_makes_nothing_older_or_younger(jump_s: float) -> None:
    store, times = MemoryStore(), Times()
    processor = processor_on(store, times)
    processor.submit(evicted(1))
    times.now_s += 10
    processor.submit(evicted(2))
    times.skew_s += jump_s
    times.now_s += 20
    assert ages_s(processor) == [30, 20]
    times.skew_s -= jump_s
    assert ages_s(processor) == [30, 20]
    assert Journal(store).tracker.dump() == processor.read(lambda tracker, _: tracker.dump())


def test_a_clock_that_is_put_right_slowly_has_not_jumped() -> None:
    store, times = MemoryStore(), Times()
    processor = processor_on(store, times)
    for _ in range(20):
        times.now_s += 100
        times.skew_s += 0.05
        processor.read(lambda _tracker, _now_ms: None)
    assert store.records == []


def test_a_start_with_the_clock_behind_what_was_written_counts_ages_from_now() -> None:
    store, times = MemoryStore(), Times()
    processor_on(store, times).submit(evicted(1))
    times.now_s -= 500
    processor = processor_on(store, times)
    processor.resume()
    assert ages_s(processor) == [0]


def test_nothing_is_decided_until_all_that_was_in_progress_is_resumed() -> None:
    """A cancellation in between would be followed by the drain that it ends."""
    store = MemoryStore()
    begun = processor_on(store)
    begun.dispatch = lambda _instruction: None
    for event in (accepted("r1", "n1"), SetTainted("r1")):
        begun.submit(event)
    processor, dispatched = processor_on(store), list[type[Instruction]]()
    cancel = threading.Thread(target=lambda: processor.submit(CancelRequested("n1", "changed our mind")))

    def dispatch(instruction: Instruction) -> None:
        if isinstance(instruction, Drain):
            cancel.start()
            cancel.join(0.1)
        dispatched.append(type(instruction))

    processor.dispatch = dispatch
    processor.resume()
    cancel.join(LIMIT_S)
    assert dispatched == [Drain, RollBack]


def test_waiting_callers_are_notified_of_a_change() -> None:
    processor = processor_on(MemoryStore())
    assert processor.wait_for_change(0, 0.01) == 0
    later = threading.Timer(0.05, processor.submit, (evicted(1),))
    later.start()
    assert processor.wait_for_change(0, LIMIT_S) == 1
    later.join()


class Counting:
    """A task that runs `left` steps, the first of which fails."""

    name = "counting"

    def __init__(self, left: int, error: Exception | None = None) -> None:
        self.left = left
        self.error = error
        self.done = threading.Event()
        self.inside = 0

    def step(self) -> float | None:
        self.inside += 1
        assert self.inside == 1, "steps overlap"
        self.left -= 1
        self.inside -= 1
        if self.left == 0:
            self.done.set()
        if self.error is not None:
            raise self.error
        return 0.001 if self.left else None


def test_many_tasks_run_on_few_threads() -> None:
    pool = Scheduler("test", 2)
    tasks = [Counting(5) for _ in range(50)]
    for task in tasks:
        pool.add(task)
    assert all(task.done.wait(LIMIT_S) for task in tasks)
    pool.stop()


def test_a_task_whose_deletion_has_ended_is_dropped() -> None:
    pool = Scheduler("test", 1)
    task = Counting(1, ImpossibleEventError("over"))
    pool.add(task)
    assert task.done.wait(LIMIT_S)
    follower = Counting(1)
    pool.add(follower)
    assert follower.done.wait(LIMIT_S)
    pool.stop()
    assert task.left == 0


def test_a_stopped_pool_begins_nothing_more() -> None:
    pool = Scheduler("test", 1)
    pool.stop()
    task = Counting(1)
    pool.add(task)
    assert not task.done.wait(0.05)


class FailingStore(MemoryStore):
    """A store whose disk is full."""

    def append(self, first_seq: int, records: Sequence[Record]) -> None:
        raise StoreError("no room")


@pytest.mark.parametrize("ending", ["the store fails", "the process stops"])
def test_who_waits_is_answered_once_nothing_follows_any_more(ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_processor, "ENDING_S", 0.01)
    processor = processor_on(FailingStore())
    begun = threading.Event()

    def never(_tracker: Tracker, _now_ms: int) -> bool:
        begun.set()
        return False

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(processor.wait_until, never, 10 * LIMIT_S)
        assert begun.wait(LIMIT_S)
        if ending == "the store fails":
            with pytest.raises(StoreError):
                processor.submit(evicted(1))
        else:
            processor.end_waiting()
        with pytest.raises(StoreError if ending == "the store fails" else event_processor.StoppingError):
            waiting.result(LIMIT_S)
