"""A hypothesis state machine of replacements: requests, faults, arrivals, stock-outs, lost nodes, orders of others,
crashes, passing time; what must hold after every step and in the end.
"""

import itertools

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.builders.actuator import Crash, Stage
from tests.builders.kubernetes import pod
from tests.builders.replacements import (
    BIG,
    PRICES,
    nodes_of,
    replacement_request,
    soft_tainted,
    started,
    wasteful_cluster,
)
from trimtab.actuator.cloud.provider import CloudError, CloudRefusedError
from trimtab.actuator.kube.cluster import ClusterError, RefusedError
from trimtab.actuator.store.journal import Journal
from trimtab.actuator.tracker.replacement_states import FINAL_STAGES, LeavingState, NewNodeState, WaveStage
from trimtab.actuator.tracker.tracker import Tracker
from trimtab.clients.simulation.cluster.faults import Fault
from trimtab.clients.simulation.cluster.pods import SimulatedPod
from trimtab.common.rpc.errors import ServiceError
from trimtab.v1 import actuator_pb2, plan_pb2

FAULTS = {
    "soft taint refused": Fault("add_taint", error=RefusedError("forbidden"), times=1),
    "taint conflict": Fault("add_taint", error=ClusterError("conflict"), times=2),
    "untaint conflict": Fault("remove_taint", error=ClusterError("conflict"), times=4),
    "small out of stock": Fault("set_size", "small", CloudRefusedError("no capacity"), times=5),
    "growth throttled": Fault("set_size", error=CloudError("throttled"), times=3),
    "list error": Fault("list_nodes", error=ClusterError("timeout"), times=2),
    "cloud lists nothing": Fault("instances", error=CloudError("throttled"), times=2),
    "size not lowered": Fault("decrease_target", error=CloudError("throttled"), times=2),
    "size refused": Fault("decrease_target", error=CloudRefusedError("running"), times=1),
    "eviction error": Fault("evict", error=ClusterError("timeout"), times=4),
    "cloud refuses to delete": Fault("delete_instances", error=CloudRefusedError("protected"), times=1),
}
READY_S = 30


class ReplacementMachine(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.stage = Stage(wasteful_cluster())
        self.numbers = itertools.count()
        self.requests: list[actuator_pb2.StartReplacementRequest] = []
        self.grown = 0
        self.vanished: set[str] = set()

    @rule(alternatives=st.sampled_from([(), ("spare",), ("dear",), ("spare", "dear")]))
    def start(self, alternatives: tuple[str, ...]) -> None:
        if set(BIG) & self.stage.cluster.state.nodes.keys() != set(BIG):
            return
        request = replacement_request(self.stage, f"w{next(self.numbers)}", alternatives=alternatives)
        request.ready_timeout.FromSeconds(READY_S)
        busy = [one for one in self.stage.status().replacements if one.stage not in FINAL_STAGES]
        try:
            accepted, reason = started(self.stage, request)
        except (ClusterError, CloudError):
            return  # answered UNAVAILABLE
        if accepted:
            assert not busy
            self.requests.append(request)
        elif busy:
            assert reason == "REPLACEMENT_IN_PROGRESS"

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def start_again(self, data: st.DataObject) -> None:
        request = data.draw(st.sampled_from(self.requests))
        try:
            assert started(self.stage, request)[0]
        except ServiceError as error:
            raise AssertionError("the same request is another one") from error

    @precondition(lambda self: self.requests)
    @rule()
    def cancel(self) -> None:
        order = actuator_pb2.CancelReplacementRequest(request_ids=[self.requests[-1].request_id])
        self.stage.actuator.replacements.cancel(order)

    @rule(node=st.sampled_from([*BIG, "new"]))
    def a_pod_arrives(self, node: str) -> None:
        name = next(iter(nodes_of(self.stage, "small")), "") if node == "new" else node
        if name in self.stage.cluster.state.nodes:
            item = pod(f"late-{next(self.numbers)}", node=name, cpu="50m", tolerations=[{"operator": "Exists"}])
            with self.stage.looking(), self.stage.cluster.transaction() as state:
                state.put_pod(SimulatedPod(item))

    @rule()
    def a_new_node_vanishes(self) -> None:
        name = next(iter(nodes_of(self.stage, "small")), "")
        if name in self.stage.cluster.state.nodes and not self.vanished:
            self.vanished.add(name)
            with self.stage.looking():
                self.stage.cluster.delete_node(name, self.stage.cluster.get_node(name).uid)

    @rule(group=st.sampled_from(["small", "spare"]))
    def others_grow_a_group(self, group: str) -> None:
        size = self.stage.target(group)
        split = plan_pb2.ScaleUpSplit(node_group=group, current_size=size, new_size=size + 1)
        request = actuator_pb2.ScaleUpRequest(request_id=f"g{next(self.numbers)}", splits=[split])
        self.stage.actuator.growths.begin(request)

    @rule(name=st.sampled_from(BIG))
    def others_delete_a_node(self, name: str) -> None:
        if name in self.stage.cluster.state.nodes:
            request = self.stage.request(f"d{next(self.numbers)}", name)
            taking_part = {
                node.node
                for one in self.stage.status().replacements
                if one.stage not in FINAL_STAGES
                for node in one.leaving
            }
            try:
                accepted = self.stage.start(request)[name][0]
            except (ClusterError, CloudError):
                return
            assert not (accepted and name in taking_part), "deleted by two"

    @rule(fault=st.sampled_from(sorted(FAULTS)))
    def a_fault(self, fault: str) -> None:
        kind = FAULTS[fault]
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
            self._boot()

    def _boot(self) -> None:
        """Start again until it is up: the cluster may not answer at first."""
        while True:
            try:
                self.stage.boot()
                return
            except ClusterError:
                continue

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

    @invariant()
    def no_budget_is_violated(self) -> None:
        if hasattr(self, "stage") and not self.vanished:
            assert self.stage.violations == []

    def teardown(self) -> None:
        if not hasattr(self, "stage"):
            return
        self.stage.cluster.faults.clear()
        self.stage.run()
        status = self.stage.status()
        assert not status.deletions
        assert self.stage.tainted() == soft_tainted(self.stage) == set()
        deleted = self.stage.noted("deleted")
        assert len(deleted) == len(set(deleted)), "deleted twice"
        assert self.stage.noted("evicted_twice") == []
        assert len(status.replacements) == len(self.requests)
        for one in status.replacements:
            self._check_end(one)
        self._check_sizes()

    def _check_end(self, one: actuator_pb2.Replacement) -> None:
        """Check how a replacement ended: nobody left without a saving, and no new node without need."""
        assert one.stage in FINAL_STAGES
        gone = [node for node in one.leaving if node.state == LeavingState.GONE]
        assert bool(gone) == (one.stage == WaveStage.DONE)
        assert {node.node for node in gone} <= set(self.stage.noted("deleted"))
        if one.stage != WaveStage.DONE:
            assert all(node.state != NewNodeState.READY for node in one.new_nodes)
        returned = {node.node for node in one.new_nodes if node.state == NewNodeState.GIVEN_BACK} - self.vanished
        assert returned <= set(self.stage.noted("deleted"))

    def _check_sizes(self) -> None:
        """Check that each node that the cloud was asked for was asked for once: by others, or by a replacement."""
        for group in PRICES:
            grown = sum(int(count) for name, count in map(str.split, self.stage.noted("grown")) if name == group)
            orders = [
                growth.wanted - growth.expected
                for record in self.stage.actuator.processor.read(lambda t, _: list(t.data.growths.values()))
                for growth, answer in zip(record.growths, record.answers or (), strict=True)
                if growth.node_group == group and answer.accepted
            ]
            assert grown == sum(orders)
