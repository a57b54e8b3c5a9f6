"""Hypothesis state machines of an actuator: what all have in common, faults, arrivals, crashes and passing time; and
requests to delete nodes, with a model of the answers.
"""

import itertools
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.builders.actuator import SETTINGS, Crash, Stage, reason_name, small_cluster
from tests.builders.kubernetes import pod
from trimtab.actuator.cloud.provider import CloudError, CloudRefusedError
from trimtab.actuator.kube.cluster import ClusterError, RefusedError
from trimtab.actuator.store.journal import Journal
from trimtab.actuator.tracker.admission import DeletionLimits
from trimtab.actuator.tracker.states import FINAL_STATES, State
from trimtab.actuator.tracker.tracker import Tracker
from trimtab.clients.simulation.cluster.faults import Fault
from trimtab.clients.simulation.cluster.pods import SimulatedPod
from trimtab.v1 import actuator_pb2, plan_pb2, reason_pb2

NODES = [f"n{number}" for number in range(8)]

LIMITS = DeletionLimits(max_parallelism=4, max_drain_parallelism=2, max_plan_age_s=300)

MIN_SIZE = 3

CANCELLED = reason_pb2.DeletionReason.CANCELLED

FAULTS = {
    "taint refused": Fault("add_taint", error=RefusedError("forbidden"), times=1),
    "taint conflict": Fault("add_taint", error=ClusterError("conflict"), times=2),
    "untaint conflict": Fault("remove_taint", error=ClusterError("conflict"), times=5),
    "eviction error": Fault("evict", error=ClusterError("timeout"), times=4),
    "list error": Fault("list_pods", error=ClusterError("timeout"), times=4),
    "cloud throttles": Fault("delete_instances", error=CloudError("throttled"), times=4),
    "cloud refuses": Fault("delete_instances", error=CloudRefusedError("protected"), times=1),
    "growth throttled": Fault("set_size", error=CloudError("throttled"), times=4),
}

nodes = st.sampled_from(NODES)

node_sets = st.lists(nodes, min_size=1, max_size=5, unique=True)


class StageMachine(RuleBasedStateMachine):
    """Faults, passing time and deaths of an actuator, and what holds for its data after every step."""

    faults: Mapping[str, Fault] = {}
    stage: Stage

    def act_on(self, stage: Stage) -> None:
        """Begin with a stage."""
        self.stage, self.numbers = stage, itertools.count()
        self.vanished: set[str] = set()

    @rule(data=st.data())
    def a_fault(self, data: st.DataObject) -> None:
        kind = self.faults[data.draw(st.sampled_from(sorted(self.faults)))]
        self.stage.cluster.faults.add(Fault(kind.operation, kind.subject, kind.error, times=kind.times))

    @rule(seconds=st.floats(0, 15))
    def time_passes(self, seconds: float) -> None:
        self.stage.run_for(seconds)

    @rule(count=st.integers(1, 12))
    def some_steps(self, count: int) -> None:
        for _ in range(count):
            self.stage.time.step()

    @rule(moment=st.integers(1, 60))
    def die(self, moment: int) -> None:
        self.stage.breaker.count, self.stage.breaker.die_at = 0, moment
        try:
            self.stage.run_for(20)
            self.stage.breaker.die_at = None
        except Crash:
            self.boot()

    @invariant()
    def the_data_agree_with_themselves(self) -> None:
        if hasattr(self, "stage"):
            self.stage.actuator.processor.read(lambda tracker, _: tracker.check_invariants())

    @invariant()
    def a_replay_gives_the_same_data(self) -> None:
        if hasattr(self, "stage"):
            dumped = self.stage.actuator.processor.read(lambda tracker, _: tracker.dump())
            assert Tracker.load(dumped).dump() == dumped
            assert Journal(self.stage.store, self.stage.settings.retention).tracker.dump() == dumped

    def boot(self) -> None:
        """Start until it succeeds, as a process manager does: the cluster or the cloud may not answer at first."""
        while True:
            with suppress(ClusterError, CloudError):
                self.stage.boot()
                return

    def arrive(self, name: str) -> None:
        """Let a pod that tolerates everything start on a node, if it is there."""
        if name in self.stage.cluster.state.nodes:
            item = pod(f"late-{next(self.numbers)}", node=name, cpu="50m", tolerations=[{"operator": "Exists"}])
            with self.stage.looking(), self.stage.cluster.transaction() as state:
                state.put_pod(SimulatedPod(item))

    def vanish(self, name: str) -> None:
        """Let one node of the run vanish with its pods, if it is there."""
        if name in self.stage.cluster.state.nodes and not self.vanished:
            self.vanished.add(name)
            with self.stage.looking():
                self.stage.cluster.delete_node(name, self.stage.cluster.get_node(name).uid)

    def order(self, group: str, delta: int, behind: int = 0) -> None:
        """Order nodes of a group, whose size the caller has read `behind` nodes ago."""
        size = self.stage.target(group) - behind
        split = plan_pb2.ScaleUpSplit(node_group=group, current_size=size, new_size=size + delta)
        request = actuator_pb2.ScaleUpRequest(request_id=f"g{next(self.numbers)}", splits=[split])
        self.stage.actuator.growths.begin(request)

    def settle(self, limit_s: float = 7200.0) -> actuator_pb2.ActuatorStatus:
        """End all faults and all work; check what holds then for every machine, and return the status."""
        self.stage.cluster.faults.clear()
        self.stage.run(limit_s)
        status = self.stage.status()
        assert not status.deletions
        assert self.stage.tainted() == set()
        assert self.stage.noted("evicted_twice") == []
        deleted = self.stage.noted("deleted")
        assert len(deleted) == len(set(deleted)), "deleted twice"
        return status


class ActuatorMachine(StageMachine):
    faults = FAULTS

    @initialize()
    def begin(self) -> None:
        objects = small_cluster()
        group = objects[-1]
        group["spec"]["minSize"] = MIN_SIZE
        self.act_on(Stage(objects, SETTINGS.__class__(**{**SETTINGS.__dict__, "limits": LIMITS})))
        # The model: the answers, and the calls to the cloud.
        self.answers: dict[str, Any] = {}
        self.requests: dict[str, Any] = {}
        self.ever_accepted: set[str] = set()
        # Cancelled, and not accepted again since.
        self.cancelled: set[str] = set()

    @rule(names=node_sets, drain=st.booleans(), assume=st.booleans(), gang=st.booleans())
    def start(self, names: list[str], drain: bool, assume: bool, gang: bool) -> None:
        of = "default/g" if gang and drain else ""
        request = self.stage.request(f"r{next(self.numbers)}", *names, drain=drain, assume=assume, gang=of)
        self._start(request)
        answers = self.answers.get(request.request_id, {})
        if of and "FAILED_TO_MARK_TO_BE_DELETED" not in {reason for _, reason in answers.values()}:
            assert len({accepted for accepted, _ in answers.values()}) <= 1, "a gang is torn"

    @precondition(lambda self: self.answers)
    @rule(data=st.data())
    def start_again(self, data: st.DataObject) -> None:
        request_id = data.draw(st.sampled_from(sorted(self.answers)))
        assert self.stage.start(self.requests[request_id]) == self.answers[request_id]

    @rule(names=node_sets)
    def cancel(self, names: list[str]) -> None:
        before = {deletion.node: deletion.state for deletion in self.stage.status().deletions}
        cancelled, not_cancelled = self.stage.actuator.deletions.begin_cancel(names, "")
        assert [name for name in names if name in cancelled] == cancelled
        assert set(cancelled) | set(not_cancelled) == set(names)
        stopped = {name for name in cancelled if name not in self.cancelled}
        assert all(before[name] in (State.TAINTED, State.DRAINING, State.DRAINED) for name in stopped)
        assert self.cancelled & set(names) <= set(cancelled), "what was cancelled stays so"
        self.cancelled |= stopped
        # A gang that has not begun is cancelled with one of its nodes.
        states = self.stage.status().deletions
        self.cancelled |= {one.node for one in states if one.reason == CANCELLED and one.state == State.ROLLING_BACK}

    @rule(delta=st.integers(1, 2), behind=st.integers(0, 1))
    def grow(self, delta: int, behind: int) -> None:
        self.order("g", delta, behind)

    @rule(name=nodes)
    def a_pod_arrives(self, name: str) -> None:
        self.arrive(name)

    @rule(name=nodes)
    def a_node_vanishes(self, name: str) -> None:
        self.vanish(name)

    @invariant()
    def limits_hold(self) -> None:
        if hasattr(self, "stage"):
            deletions = self.stage.status().deletions
            assert len(deletions) <= LIMITS.max_parallelism
            assert sum(deletion.drain for deletion in deletions) <= LIMITS.max_drain_parallelism
            assert self.stage.target("g") >= MIN_SIZE
            # Except after a node has vanished with its pods: the budget violations of that are not counted.
            assert self.stage.violations == []

    @invariant()
    def the_taint_is_where_it_should_be(self) -> None:
        if hasattr(self, "stage"):
            deletions = self.stage.status().deletions
            must = {d.node for d in deletions if d.state not in (State.PLANNED, State.ROLLING_BACK)}
            may = {deletion.node for deletion in deletions}
            tainted = self.stage.tainted()
            assert tainted <= may, "a taint without a deletion"
            assert must & set(self.stage.cluster.state.nodes) <= tainted, "a deletion without its taint"

    def teardown(self) -> None:
        if not hasattr(self, "stage"):
            return
        status, deleted = self.settle(), self.stage.noted("deleted")
        assert set(deleted) == {d.node for d in status.finished if d.state == State.DELETED}
        assert {eviction.uid for eviction in status.recent_evictions} >= set(self.stage.noted("evicted"))
        assert self.stage.target("g") == 8 + self._grown() - len(deleted)
        assert all(deletion.state in FINAL_STATES for deletion in status.finished)
        assert set(deleted) <= self.ever_accepted

    def _start(self, request: Any) -> None:
        busy = {deletion.node for deletion in self.stage.status().deletions}
        self.requests[request.request_id] = request
        try:
            answers = self.stage.start(request)
        except ClusterError:
            return  # answered UNAVAILABLE; nothing was decided
        self.answers[request.request_id] = answers
        for name, (accepted, reason) in answers.items():
            if accepted:
                assert name not in busy, "accepted twice"
                self.ever_accepted.add(name)
                self.cancelled.discard(name)
            elif name in busy:
                assert reason == reason_name(3)

    def _grown(self) -> int:
        return sum(int(subject.split()[1]) for subject in self.stage.noted("grown"))
