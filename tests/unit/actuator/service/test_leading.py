"""Leadership as a whole: which process may act, and when a process ends."""

import threading
import time
from collections.abc import Callable

import pytest
from opentelemetry.metrics import NoOpMeter

from tests.builders.actuator import small_cluster
from trimtab.actuator.kube.cluster import NotLeaderError
from trimtab.actuator.runner.clock import Clock
from trimtab.actuator.runner.event_processor import EventProcessor
from trimtab.actuator.runner.scheduler import ScheduledTask
from trimtab.actuator.service.app import Actuator, Runtime
from trimtab.actuator.service.leading import Leadership
from trimtab.actuator.store.journal import Journal
from trimtab.actuator.store.records import MemoryStore, StoreConflictError
from trimtab.actuator.tracker.events import PlannedNode, SetAccepted, SetTainted
from trimtab.clients.simulation.cloud.provider import MemoryCloud
from trimtab.clients.simulation.cluster.cluster import SimulatedCluster
from trimtab.common.kubernetes.names import HARD_TAINT_KEY


class HeldLease:
    """A Lease controlled by the test."""

    identity, holder = "me", "somebody"

    def __init__(self) -> None:
        self.is_held = True
        self.calls: list[Callable[[], None]] = []

    def start(self, on_gain: Callable[[], None] | None = None, on_loss: Callable[[], None] | None = None) -> None:
        assert on_gain is not None
        assert on_loss is not None
        self.calls = [on_gain, on_loss]

    def stop(self) -> None:
        self.is_held = False


class TakenStore(MemoryStore):
    """A store that another process may take over."""

    taken = False

    def confirm(self) -> None:
        if self.taken:
            raise StoreConflictError("taken over")


class Acting:
    """The parts that act while leading."""

    def __init__(self, store: MemoryStore) -> None:
        self.processor = EventProcessor(Journal(store), lambda: 0.0, lambda: None)
        self.processor.leading = False
        self.led = 0

    def lead(self) -> None:
        self.led += 1


def test_a_process_acts_only_between_gaining_and_losing() -> None:
    store, lease, ended = TakenStore(), HeldLease(), threading.Event()
    leadership, leader = Leadership(lease, store, ended.set), Acting(store)
    leadership.begin(leader, lambda: None)
    with pytest.raises(NotLeaderError, match="somebody"):
        leadership.guard()
    on_gain, on_loss = lease.calls
    on_gain()
    leadership.guard()
    assert (leader.led, leadership.may_act()) == (1, True)
    on_loss()
    assert ended.is_set()
    assert leadership.lost == "the Lease was lost"
    with pytest.raises(NotLeaderError):
        leadership.guard()
    leadership.stop()


def test_a_process_whose_clock_stood_still_is_stopped_by_the_store() -> None:
    store, lease, ended = TakenStore(), HeldLease(), threading.Event()
    leadership = Leadership(lease, store, ended.set)
    leadership.begin(Acting(store), lambda: None)
    lease.calls[0]()
    store.taken = True
    with pytest.raises(NotLeaderError):
        leadership.guard()
    assert ended.is_set()
    assert not leadership.may_act()
    leadership.stop()


@pytest.mark.parametrize("error", [StoreConflictError("taken over"), KeyError("unforeseen")], ids=repr)
def test_a_process_that_cannot_begin_to_act_ends_and_leaves_the_lease_to_others(error: Exception) -> None:
    def prepare() -> None:
        raise error

    store, lease, ended = TakenStore(), HeldLease(), threading.Event()
    leadership, leader = Leadership(lease, store, ended.set), Acting(store)
    leadership.begin(leader, prepare)
    lease.calls[0]()
    assert ended.is_set()
    assert (leader.led, leadership.may_act()) == (0, False)
    assert leadership.lost is not None
    assert str(error.args[0]) in leadership.lost
    leadership.stop()


class NoPool:
    """A pool that runs nothing."""

    def add(self, task: ScheduledTask, delay_s: float = 0.0) -> None: ...

    def reschedule_earlier(self, task: ScheduledTask, delay_s: float = 0.0) -> None: ...

    def stop(self, timeout_s: float = 10.0) -> None: ...


def test_a_new_leader_accepts_nothing_until_it_has_restored_the_taints_and_resumed() -> None:
    """A node whose deletion was cancelled meanwhile would get its taint again."""
    store, node = MemoryStore(), "n1"
    world = SimulatedCluster(small_cluster())
    runtime = Runtime(leading=False, make_pool=lambda _name, _threads: NoPool())
    written = EventProcessor(Journal(store), Clock(time.time, time.monotonic), lambda: None)
    written.dispatch = lambda _instruction: None
    for event in (SetAccepted("r1", "d", (PlannedNode(node, "g", True),), (), 60.0), SetTainted("r1")):
        written.submit(event)
    actuator = Actuator(store, world, MemoryCloud(world), NoOpMeter("test"), runtime=runtime)
    refused: list[NotLeaderError] = []

    def before(operation: str, subject: str) -> None:
        if not refused:
            with pytest.raises(NotLeaderError) as found:
                actuator.deletions.begin_cancel([node], "changed our mind")
            refused.append(found.value)
            assert not actuator.processor.leading

    world.faults.before = before
    actuator.lead()
    assert len(refused) == 1
    assert world.get_node(node).taint(HARD_TAINT_KEY) is not None
    assert actuator.processor.leading
    assert actuator.deletions.begin_cancel([node], "changed our mind") == ([node], [])
    actuator.stop()
