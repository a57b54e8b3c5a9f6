"""Replacements under random requests, faults, arrivals, stock-outs, other orders, crashes and time; what holds after
every step and in the end.
"""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from tests.builders.actuator import Stage
from tests.builders.replacements import (
    BIG,
    PRICES,
    nodes_of,
    replacement_request,
    soft_tainted,
    started,
    wasteful_cluster,
)
from tests.builders.tiers import ALL_DEATHS
from tests.stateful.stage_machines import StageMachine
from trimtab.actuator.cloud.provider import CloudError, CloudRefusedError
from trimtab.actuator.kube.cluster import ClusterError, RefusedError
from trimtab.actuator.tracker.replacement_states import FINAL_STAGES, LeavingState, NewNodeState, WaveStage
from trimtab.clients.simulation.cluster.faults import Fault
from trimtab.common.rpc.errors import ServiceError
from trimtab.v1 import actuator_pb2

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


class ReplacementMachine(StageMachine):
    faults = FAULTS

    @initialize()
    def begin(self) -> None:
        self.act_on(Stage(wasteful_cluster()))
        self.requests: list[actuator_pb2.StartReplacementRequest] = []

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
        self.arrive(next(iter(nodes_of(self.stage, "small")), "") if node == "new" else node)

    @rule()
    def a_new_node_vanishes(self) -> None:
        self.vanish(next(iter(nodes_of(self.stage, "small")), ""))

    @rule(group=st.sampled_from(["small", "spare"]))
    def others_grow_a_group(self, group: str) -> None:
        self.order(group, 1)

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

    @invariant()
    def no_budget_is_violated(self) -> None:
        if hasattr(self, "stage") and not self.vanished:
            assert self.stage.violations == []

    def teardown(self) -> None:
        if not hasattr(self, "stage"):
            return
        status = self.settle()
        assert soft_tainted(self.stage) == set()
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


ReplacementMachine.TestCase.settings = settings(
    max_examples=200 if ALL_DEATHS else 30,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestReplacementMachine = ReplacementMachine.TestCase
