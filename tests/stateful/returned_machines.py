"""A machine that is deleted and comes back under the same provider id, as on bare metal: an actuator behind an external
provider without network, which counts the requested deletions and brings the machine back after some time. It lists
instances without state, as many providers do.
"""

import copy
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tests.builders.actuator import Stage, small_cluster
from tests.builders.kubernetes import Json, pod
from trimtab.actuator.cloud.externalgrpc.cloud import ExternalCloud
from trimtab.actuator.kube.cluster import TaintView
from trimtab.actuator.service.external.orders import ExternalOrders, NodeToDelete
from trimtab.clients.simulation.cluster.pods import SimulatedPod
from trimtab.clusterautoscaler.externalgrpc import cloud_provider_pb2 as pb
from trimtab.common.kubernetes.names import HARD_TAINT_KEY
from trimtab.common.rpc.errors import ServiceError

NAME, PROVIDER_ID = "n6", "test://n6"
ORDER = NodeToDelete(NAME, PROVIDER_ID)
NEW_UID = "the new machine"
NAMES = tuple(f"n{number}" for number in range(8))
STEP_S = 0.1


@dataclass(frozen=True)
class Return:
    """How the machine comes back. Seconds from the first accepted deletion."""

    returns_s: float
    # From the return to the new Node object, on which a pod then runs.
    registers_s: float = 0.3
    # Whether the old Node object stays until then; otherwise it goes with the machine.
    old_node_stays: bool = False
    # Whether the actuator is asked to grow the group by the machine a second after its deletion, or the provider adds
    # it by itself, without counting it.
    grows: bool = False


class ReturningProvider:
    """The calls of the provider, instead of `trimtab.actuator.cloud.externalgrpc.calls.ProviderCalls`."""

    def __init__(self, stage: "ReturningStage") -> None:
        self._stage = stage

    def one(self, method: str, request: Any) -> Any:
        stage = self._stage
        stage.breaker.moment(f"before {method}")
        try:
            return self._answer(method, request)
        finally:
            stage.breaker.moment(f"after {method}")

    def many(self, method: str, requests: Sequence[Any]) -> list[Any]:
        return [self.one(method, request) for request in requests]

    def _answer(self, method: str, request: Any) -> Any:
        stage = self._stage
        match method:
            case "NodeGroups":
                return pb.NodeGroupsResponse(node_groups=[pb.NodeGroup(id="g", min_size=0, max_size=20)])
            case "NodeGroupTargetSize":
                return pb.NodeGroupTargetSizeResponse(target_size=stage.target_size)
            case "NodeGroupNodes":
                return pb.NodeGroupNodesResponse(instances=[pb.Instance(id=one) for one in stage.listed()])
            case "NodeGroupForNode":
                is_there = request.node.provider_id in stage.listed()
                return pb.NodeGroupForNodeResponse(node_group=pb.NodeGroup(id="g" if is_there else ""))
            case "NodeGroupDeleteNodes":
                for one in request.nodes:
                    assert one.provider_id == PROVIDER_ID
                    stage.delete_machine()
                return pb.NodeGroupDeleteNodesResponse()
            case "NodeGroupIncreaseSize":
                stage.target_size += request.delta
                return pb.NodeGroupIncreaseSizeResponse()
            case "NodeGroupGetOptions":
                return pb.NodeGroupAutoscalingOptionsResponse()
            case _:
                raise AssertionError(method)


class ReturningStage(Stage):
    """A stage in which the machine comes back."""

    def __init__(self, how: Return) -> None:
        self.how = how
        self.target_size = len(NAMES)
        # Requested deletions: "old", or "new" once the machine was back.
        self.calls: list[str] = []
        self.deleted_s: float | None = None
        self.is_back = self.has_new_node = self.has_grown = self.is_absent = False
        super().__init__(small_cluster())
        self.old_node: Json = copy.deepcopy(self.cluster.state.nodes[NAME].node)
        self.cluster.add_taint(NAME, TaintView(HARD_TAINT_KEY, "1", "NoSchedule"))
        self.new_process()

    def new_process(self, die_at: int | None = None) -> None:
        """Start an actuator that has nothing but the journal."""
        self.time.stop()
        self.cloud = ExternalCloud(ReturningProvider(self), clock=self.time.clock, steady=self.time.clock)  # type: ignore
        self.boot(die_at)
        self.orders = ExternalOrders(self.actuator.processor, self.cluster, self.cloud)

    def listed(self) -> list[str]:
        """Return the instances of the group."""
        is_there = self.deleted_s is None or self.is_back
        return [f"test://{name}" for name in NAMES if name != NAME or is_there]

    def delete_machine(self) -> None:
        """End the machine; the first time, it comes back later."""
        self.calls.append("new" if self.is_back else "old")
        self.target_size -= 1
        if self.deleted_s is None:
            self.deleted_s = self.time.now_s
            self.is_back = self.how.returns_s == 0
            if not self.how.old_node_stays:
                self._drop_node()
        elif self.is_back:
            self.is_back = False
            self._drop_node()

    def advance(self, seconds: float) -> None:
        """Let the process run, and the machine come back when its time has come."""
        until_s = self.time.now_s + seconds
        while self.time.now_s < until_s - 1e-6:
            self.run_for(STEP_S)
            self._come_back()

    def absent(self, seconds: float) -> None:
        """Advance time without a process."""
        self.time.stop()
        self.is_absent = True
        self.advance(seconds)
        self.is_absent = False

    def order(self) -> bool:
        """Order the deletion of the node that is there, as the Cluster Autoscaler does; return whether it was
        accepted or is in progress.
        """
        with suppress(ServiceError):
            return self.orders.begin_delete("g", [ORDER]) == {}
        return False

    def new_machine(self) -> tuple[bool, bool, bool]:
        """Return whether the new machine has its Node object, without the hard taint, and its pod."""
        with self.looking():
            nodes = {view.name: view for view in self.cluster.list_nodes()}
            pods = [view.name for view in self.cluster.list_pods(NAME)]
        node = nodes.get(NAME)
        if node is None or node.uid != NEW_UID:
            return False, False, False
        return True, node.taint(HARD_TAINT_KEY) is None, "job" in pods

    def ended(self) -> bool:
        """Return whether no deletion is in progress."""
        return self.actuator.processor.read(lambda tracker, _: not tracker.data.deletions)

    def _come_back(self) -> None:
        if self.deleted_s is None:
            return
        age_s = self.time.now_s - self.deleted_s
        if self.how.grows and not (self.has_grown or self.is_absent) and age_s >= 1.0:
            with suppress(ServiceError):
                self.orders.begin_increase("g", 1)
                self.has_grown = True
        if not (self.is_back or self.has_new_node) and age_s >= self.how.returns_s:
            self.is_back = True
        if self.is_back and not self.has_new_node and age_s >= self.how.returns_s + self.how.registers_s:
            self.has_new_node = True
            self._drop_node()
            with self.looking(), self.cluster.transaction() as state:
                metadata = {**self.old_node["metadata"], "uid": NEW_UID}
                state.put_node({**copy.deepcopy(self.old_node), "metadata": metadata})
                state.put_pod(SimulatedPod(pod("job", node=NAME)))

    def _drop_node(self) -> None:
        with self.looking(), self.cluster.transaction() as state:
            if NAME in state.nodes:
                self.cluster.controllers.lose_node(NAME)
