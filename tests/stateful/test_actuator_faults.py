"""The actuator with an API server and a cloud that fail in every way, and a clock that jumps: all invariants hold
despite faults.

The client of a real cluster takes part: HTTP messages fail. Faults hit requests by number, so each call of each task
meets each fault in some run.
"""

import types
from dataclasses import replace
from unittest import mock

import pytest
import tenacity.nap
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from tests.builders.actuator import DELAYS, SETTINGS, Stage, small_cluster
from tests.stateful.stage_machines import ActuatorMachine as Machine
from tests.stateful.stage_machines import nodes
from tests.stateful.wired_cluster import FAULTS, WireFault, wired
from trimtab.actuator.cloud.provider import CloudError, CloudRefusedError
from trimtab.actuator.tracker.states import FINAL_STATES, Retention, State
from trimtab.clients.simulation.cluster.faults import Fault

# Together far less than the time for which results are kept.
JUMPS_S = (-3600, -40, 40, 700, 3600)
MOST_JUMPS = 4
DRAINED = ("n0", "n1", "n2", "n3", "n4")
# Time from the last fault to the end of all work: a drain's deadline and its roll-back.
CALM_S = 1500
faults = st.dictionaries(st.integers(1, 20), st.sampled_from(FAULTS), min_size=1, max_size=12)


class FaultyMachine(Machine):
    @initialize()
    def begin(self) -> None:
        super().begin()
        self.stage.face, self.wire = wired(self.stage.cluster, self.stage.time.sleep)
        self.jump_count = 0
        # Nodes whose instance was terminated by another client.
        self.taken: set[str] = set()
        # Pauses between attempts take virtual time.
        self.naps = mock.patch.object(tenacity.nap, "time", types.SimpleNamespace(sleep=self.stage.time.sleep))
        self.naps.start()
        self.boot()

    @rule(later=faults)
    def requests_fail(self, later: dict[int, WireFault]) -> None:
        self.wire.faults = later

    @rule(seconds=st.sampled_from(JUMPS_S))
    def the_clock_jumps(self, seconds: int) -> None:
        if self.jump_count < MOST_JUMPS:
            self.jump_count += 1
            self.stage.skew_s += seconds

    @rule(name=nodes, refuses=st.booleans(), times=st.integers(1, 4))
    def the_cloud_fails_for_one(self, name: str, refuses: bool, times: int) -> None:
        error = CloudRefusedError("protected") if refuses else CloudError("throttled")
        self.stage.cluster.faults.add(Fault("delete_instances", name, error, times=times))

    @rule(operation=st.sampled_from(("instance_states", "groups_of", "node_groups")), times=st.integers(1, 4))
    def the_cloud_does_not_answer(self, operation: str, times: int) -> None:
        self.stage.cluster.faults.add(Fault(operation, error=CloudError("timeout"), times=times))

    @rule(name=nodes)
    def an_instance_ends_by_itself(self, name: str) -> None:
        if self.vanished or name not in self.stage.cluster.state.nodes:
            return
        before = self.stage.noted("deleted")
        with self.stage.looking():
            self.stage.cloud.delete_instances("g", [f"test://{name}"])
        if self.stage.noted("deleted") != before:
            self.vanished.add(name)
            self.taken.add(name)

    def teardown(self) -> None:
        if not hasattr(self, "naps"):
            return
        try:
            self._check_the_end()
        finally:
            self.naps.stop()

    def _check_the_end(self) -> None:
        self.wire.faults.clear()
        status, deleted = self.settle(CALM_S), self.stage.noted("deleted")
        finished = {one.node for one in status.finished if State(one.state) is State.DELETED}
        assert set(deleted) - self.taken <= finished <= set(deleted)
        assert finished <= self.ever_accepted
        assert {eviction.uid for eviction in status.recent_evictions} >= set(self.stage.noted("evicted"))
        assert self.stage.target("g") == 8 + self._grown() - len(deleted)
        assert all(State(deletion.state) in FINAL_STATES for deletion in status.finished)

    def _start(self, request: object) -> None:
        try:
            super()._start(request)
        except CloudError:
            return  # answered UNAVAILABLE; nothing was decided


FaultyMachine.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestFaultyMachine = FaultyMachine.TestCase


def test_plans_are_taken_again_as_soon_as_a_clock_that_was_wrong_is_right() -> None:
    stage = Stage(small_cluster())

    def answer(name: str) -> str:
        request = stage.request(f"r{stage.skew_s}", name, drain=False)
        request.plan_time.FromMilliseconds(int((stage.time.now_s - 5) * 1000))
        return stage.start(request)[name][1]

    stage.skew_s = 3600
    assert answer("n6") == "PLAN_TOO_OLD"
    stage.skew_s = -3600
    assert answer("n6") == "PLAN_AHEAD"
    stage.skew_s = 0
    assert answer("n6") == "UNSPECIFIED"


def test_a_clock_that_jumps_forward_loses_no_eviction_and_fails_no_drain() -> None:
    stage = Stage(small_cluster(), settings=replace(SETTINGS, retention=Retention(3600, 300)))
    stage.start(stage.request("r", *DRAINED[:2]))
    stage.run_for(2.5)
    evicted = set(stage.noted("evicted"))
    assert evicted
    stage.skew_s += 7200
    stage.run(60)
    assert {state for state, _ in stage.finished().values()} == {"DELETED"}
    assert {one.uid for one in stage.status().recent_evictions} == set(stage.noted("evicted")) >= evicted


def test_a_clock_that_jumps_backward_delays_no_drain() -> None:
    stage = Stage(small_cluster())
    stage.start(stage.request("r", *DRAINED))
    stage.run_for(1.5)
    assert State.DRAINING in states(stage)
    stage.skew_s -= 3600
    stage.run(60)
    assert {state for state, _ in stage.finished().values()} == {"DELETED"}


def test_a_clock_that_jumps_forward_fails_no_deletion_in_progress() -> None:
    stage = Stage(small_cluster(), delays=replace(DELAYS, instance_delete_s=20))
    stage.start(stage.request("r", "n6", drain=False))
    stage.run_for(5)
    assert states(stage) == {State.DELETING}
    stage.skew_s += 3600
    stage.run()
    assert stage.finished() == {"n6": ("DELETED", "UNSPECIFIED")}


@pytest.mark.parametrize("fault", [WireFault("expired", status=410), WireFault("path not found", status=404)])
def test_an_answer_that_is_not_about_the_node_is_not_taken_for_a_node_that_is_gone(fault: WireFault) -> None:
    stage = Stage(small_cluster())
    stage.face, wire = wired(stage.cluster, stage.time.sleep)
    stage.boot()
    stage.start(stage.request("r", "n0"))
    wire.faults = dict.fromkeys(range(1, 4), fault)
    stage.run()
    assert wire.struck == [fault.name] * 3
    assert stage.finished() == {"n0": ("DELETED", "UNSPECIFIED")}


def states(stage: Stage) -> set[State]:
    return {State(deletion.state) for deletion in stage.status().deletions}
