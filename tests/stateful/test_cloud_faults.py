"""Every call of a cloud fails in every way while groups grow, wait for nodes, lose nodes and are reconciled; the
actuator also dies at a write, and restarts at once or later. In the end nothing was deleted twice, all deletions are
reported, the sizes are right, and no group is stuck.

In the suite each call fails in one way, and each kind of fault meets several calls; in the nightly tier each call fails
in every way. Each fault is combined with a few deaths, and each write with some fault; every fault with a death at
every write takes minutes: `TRIMTAB_ALL_DEATHS=1 pytest -m "" tests/stateful/test_cloud_faults.py`.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from tests.builders.actuator import Crash
from tests.builders.node_group_controllers import ReconcilerStage
from tests.builders.tiers import ALL_DEATHS, nightly_but
from tests.stateful.cloud_faults import (
    KINDS,
    READS,
    RPC_READS,
    RPC_WRITES,
    WRITES,
    Failing,
    FaultyCloud,
    FaultyProvider,
)
from trimtab.actuator.cloud.externalgrpc.cloud import ExternalCloud
from trimtab.actuator.cloud.provider import CloudError, CloudProvider, InstanceState
from trimtab.actuator.kube.cluster import ClusterError
from trimtab.actuator.node_groups.loop import ActivityWatcher
from trimtab.clusterautoscaler.externalgrpc import cloud_provider_pb2 as pb
from trimtab.common.rpc.errors import ServiceError

DELETED, LOST = ("n0", "n1"), "n3"
WANTED_SIZE = 8
# Time when machines start again, and time when everything has ended.
SHORTAGE_S, END_S = 900.0, 2600.0
STEP_S = 20.0
# More than the attempts of one call, and of all scale-ups.
TIMES, MANY = 4, 1000
# Time until a dead process is restarted; instances terminate within some seconds.
DOWN_S = (0.0, 10.0, 120.0)
# Points before and after writes, and the number of them between two deaths.
MOST_WRITES, SOME = 70, 35
FAULTS = [*product((*READS, *WRITES), KINDS)]
RPC_FAULTS = [*product((*RPC_READS, *RPC_WRITES), KINDS)]
# Each call with one kind, the kinds in turn.
SAMPLE = [(operation, KINDS[at % len(KINDS)]) for at, operation in enumerate((*READS, *WRITES))]
RPC_SAMPLE = [(operation, KINDS[at % len(KINDS)], 0) for at, operation in enumerate((*RPC_READS, *RPC_WRITES))]
# Those that begin later, with a death: each call in every other way, unless all deaths are asked for.
LATE_FAULTS = [
    (operation, kind)
    for (at, operation), (other, kind) in product(enumerate((*RPC_READS, *RPC_WRITES)), enumerate(KINDS))
    if ALL_DEATHS or (at + other) % 2 == 0
]
# Nothing in the scenario has a GPU.
NOT_NEEDED = ("GPULabel",)


class Faulty(ReconcilerStage):
    """A stage whose cloud fails in one way, and a caller that removes two nodes and then requests a number of nodes."""

    def __init__(self) -> None:
        super().__init__(out="g", count=6)
        # Slow calls take minutes in all: more than the stage's time for a deletion, which counts all of them.
        work = self.settings.work
        self.settings = replace(self.settings, work=replace(work, delete=replace(work.delete, timeout_s=300.0)))
        self.look_for(20)
        self.lose(LOST)
        self.real: CloudProvider = self.cloud
        self.faulty = self.stand_before(self.real)
        self.asked = 0
        self.start_s = self.time.now_s

    def stand_before(self, cloud: CloudProvider) -> Failing:
        """Make calls of the cloud fail from now on; return the wrapper that does."""
        faulty = FaultyCloud(cloud, self.time.sleep)
        self.cloud = faulty  # type: ignore[assignment]
        return faulty

    def restart(self, die_at: int | None = None) -> None:
        self.forget()
        while True:
            try:
                self.boot(die_at)
            except CloudError:
                continue
            self.reconciler = self.new_reconciler()
            self.watch = ActivityWatcher(self.actuator.processor, self.cloud)
            return

    def forget(self) -> None:
        """Drop the state that only a process had."""

    def miss(self, seconds: float) -> None:
        """Advance time without a process."""
        self.time.stop()
        self.time.now_s += seconds
        self.start_s += seconds

    def live(self) -> None:
        """Run service and caller until the end."""
        while self.time.now_s < self.start_s + END_S:
            if self.time.now_s > self.start_s + SHORTAGE_S:
                self.end_shortage()
            self.ask()
            self.run_for(STEP_S)
            for step in (self.watch.step, self.reconciler.step, self.read):
                with suppress(CloudError, ClusterError):
                    step()

    def read(self) -> None:
        """Read the content of the next snapshot."""
        self.cloud.refresh()
        self.actuator.status(with_finished=True)

    def ask(self) -> None:
        """Request the missing changes, compared with the real state of cluster and cloud."""
        leaving = self.actuator.processor.read(lambda tracker, _: set(tracker.data.deletions))
        backed_off = self.actuator.processor.read(lambda tracker, _: bool(tracker.data.backoffs))
        nodes = [name for name in DELETED if name in self.cluster.state.nodes and name not in leaving]
        with suppress(CloudError, ClusterError, ServiceError):
            if nodes:
                self.actuator.deletions.begin(self.request(self.new_id(), *nodes, drain=False))
        size = self.target("g")
        if size < WANTED_SIZE and not backed_off:
            with suppress(CloudError, ClusterError, ServiceError):
                self.grow(self.new_id(), size, by=WANTED_SIZE - size)

    def new_id(self) -> str:
        self.asked += 1
        return f"r{self.asked}"

    def target(self, group: str) -> int:
        with self.looking():
            return next(view.target_size for view in self.real.node_groups() if view.id == group)

    def end_shortage(self) -> None:
        """Make all machines start from now on."""
        with self.cluster.transaction() as state:
            due_ms = int(self.time.now_s * 1000) + 1000
            for one in list(state.instances.values()):
                if one.start_due_ms > due_ms and not one.gone_due_ms:
                    one.start_due_ms = due_ms
                    state.put_instance(one)


class External(Faulty):
    """The same with the calls of an external provider."""

    def stand_before(self, cloud: CloudProvider) -> Failing:
        self.provider = FaultyProvider(cloud, self.time.sleep)
        self.forget()
        return self.provider

    def forget(self) -> None:
        clock = self.time.clock
        self.cloud = ExternalCloud(self.provider, clock=clock, steady=clock)  # type: ignore[arg-type, assignment]


def survive(operation: str = "", kind: str = "", after: int = 0, die_at: int | None = None) -> Faulty:
    """Run the scenario with one fault after `after` successful calls, and one death at the given write."""
    stage = External() if operation in (*RPC_READS, *RPC_WRITES) else Faulty()
    stage.faulty.fail(operation, kind, TIMES, after)
    if operation == "was_set":
        # It is called if no scale-up was answered in time.
        stage.faulty.fail("set_size", "lost", MANY)
    with suppress(Crash):
        stage.restart()
        stage.breaker.only, stage.breaker.count, stage.breaker.die_at = "append", 0, die_at
        stage.live()
        return stage
    stage.miss(DOWN_S[stage.breaker.count % len(DOWN_S)])
    stage.restart()
    stage.live()
    return stage


def deaths(some: Iterable[int], every: Iterable[int]) -> Iterable[int]:
    """Return the writes to die at."""
    return every if ALL_DEATHS else some


def check_deaths(operation: str, kind: str, after: int, writes: Iterable[int]) -> None:
    """Run the scenario with a fault and a death at each of these writes."""
    for at in writes:
        stage = survive(operation, kind, after + at % 5, die_at=at)
        try:
            check(stage)
        except AssertionError as error:
            raise AssertionError(f"died at write {at}: {stage.breaker.last}") from error


def check(stage: Faulty) -> None:
    deleted = stage.noted("deleted")
    assert sorted(deleted) == sorted({*DELETED, LOST}), "each once"
    told = stage.finished()
    # What never registered has no other name than its provider id.
    names = {*DELETED, f"test://{LOST}"}
    assert {name: told[name][0] for name in names} == dict.fromkeys(names, "DELETED")
    nodes = stage.cluster.state.nodes
    assert not {*DELETED} & set(nodes)
    data: dict[str, Any] = stage.actuator.processor.read(
        lambda tracker, _: (
            {"deletions": dict(tracker.data.deletions), "backoffs": dict(tracker.data.backoffs)}
            | {"awaited": dict(tracker.data.awaited), "unregistered": dict(tracker.data.unregistered)}
        )
    )
    assert data == {"deletions": {}, "backoffs": {}, "awaited": {}, "unregistered": {}}, "no group is stuck"
    with stage.looking():
        (view,) = stage.real.node_groups()
    assert (view.target_size, view.instance_count, len(nodes)) == (WANTED_SIZE, WANTED_SIZE, WANTED_SIZE)
    assert stage.tainted() == set()
    stage.actuator.processor.read(lambda tracker, _: tracker.check_invariants())


def test_the_scenario_has_enough_writes_to_die_at() -> None:
    stage = survive()
    check(stage)
    assert 40 < stage.breaker.count <= MOST_WRITES


@pytest.mark.parametrize(("operation", "kind"), nightly_but(SAMPLE, FAULTS))
def test_each_call_that_fails_in_each_way_ends_correctly(operation: str, kind: str) -> None:
    stage = survive(operation, kind)
    check(stage)
    # Only a new process learns what an earlier one acted on.
    assert (operation == "remember") != bool(stage.faulty.struck[operation])
    number = FAULTS.index((operation, kind))
    some = range(1 + number % SOME, MOST_WRITES, SOME)
    check_deaths(operation, kind, 0, deaths(some, range(1, MOST_WRITES)))


@pytest.mark.parametrize(
    ("operation", "kind", "after"),
    nightly_but(
        [*RPC_SAMPLE, *((*fault, 7) for fault in LATE_FAULTS[::12])],
        [*((*fault, 0) for fault in RPC_FAULTS), *((*fault, 7) for fault in LATE_FAULTS)],
    ),
    ids={0: "at once", 7: "later"}.get,
)
def test_each_call_of_an_external_provider_that_fails_in_each_way_ends_correctly(
    operation: str, kind: str, after: int
) -> None:
    stage = survive(operation, kind, after)
    check(stage)
    assert after or bool(stage.faulty.struck[operation]) == (operation not in NOT_NEEDED)
    # Half of the writes at once and the others later; one of them for each fault.
    number = RPC_FAULTS.index((operation, kind))
    some = [1 + number % (MOST_WRITES - 1)] if after else []
    check_deaths(operation, kind, after, deaths(some, range(1 + bool(after), MOST_WRITES, 2)))


def test_nodes_that_a_list_lacks_for_a_while_are_deleted_too() -> None:
    for after, at in ((2, None), (2, 2), (1, 16)):
        stage = survive("NodeGroupNodes", "wrong", after, die_at=at)
        check(stage)
        assert stage.faulty.struck["NodeGroupNodes"] == TIMES


def test_a_process_that_learns_late_what_an_earlier_one_did_continues_it() -> None:
    struck = 0
    for at in range(1, MOST_WRITES, 3):
        stage = survive("remember", "slow", die_at=at)
        check(stage)
        struck += stage.faulty.struck["remember"]
    assert struck


def test_an_instance_that_is_not_listed_any_more_ends_even_where_the_provider_has_a_group_for_every_id() -> None:
    stage = External()
    stage.cloud.node_groups()
    (gone, other) = [f"test://{name}" for name in DELETED]
    stage.cloud.delete_instances("g", [gone])
    stage.miss(10.0)
    real = stage.provider.make

    def make(operation: str, args: Any) -> Any:
        if operation == "NodeGroupForNode":
            return pb.NodeGroupForNodeResponse(node_group=pb.NodeGroup(id="g"))
        return real(operation, args)

    stage.provider.make = make  # type: ignore[method-assign]
    states = []
    for _ in range(15):
        states.append(stage.cloud.instance_states("g", [gone, other]))
        stage.time.sleep(3.0)
    # Ten lists are not enough: half a minute has to pass as well.
    assert [one[gone] for one in states] == [InstanceState.DELETING] * 10 + [InstanceState.GONE] * 5
    assert {one[other] for one in states} == {InstanceState.RUNNING}
