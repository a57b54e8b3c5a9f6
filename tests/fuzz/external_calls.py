"""Calls of a Cluster Autoscaler to both of our services for it, as bytes that can be damaged, with handlers.

Calls to the external provider are one message with a field for the request of each rpc; the present ones are made in
the order of the fields. Orders are executed in virtual time before the next call. A changed cluster is replaced by a
new one before the next input, so each input is reproducible.
"""

import math
from functools import cache
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError, Message

from tests.builders.actuator import Stage, small_cluster
from tests.builders.best_options import VERSIONS, a_node, a_pod, sent
from tests.builders.kubernetes import node_group, snapshot_of
from trimtab.actuator.cloud.provider import NodeGroupView
from trimtab.actuator.service.external.orders import ExternalOrders
from trimtab.actuator.service.external.servicer import MAX_ANSWER_BYTES, ExternalServicer
from trimtab.clusterautoscaler import expander_pb2
from trimtab.clusterautoscaler.externalgrpc import cloud_provider_pb2 as pb
from trimtab.common.rpc.errors import ServiceError
from trimtab.planner.expander.question import LastPlans
from trimtab.planner.expander.servicer import ExpanderServicer
from trimtab.planner.service.request_limits import RequestMemory
from trimtab.planner.service.settings import ExpanderOptions, PlannerOptions
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2

CHAIN: Final = (plan_pb2.Expander.BALANCED, plan_pb2.Expander.PRICE, plan_pb2.Expander.LEAST_WASTE)
# Too many calls in one input take time and test nothing new.
MOST_CALLS: Final = 20
SETTLES_S: Final = 30.0


class Context:
    """The parts of a call's context that handlers use."""

    def time_remaining(self) -> float | None:
        """Return the time left; None = without limit."""
        return None

    def is_active(self) -> bool:
        """Return whether the caller still waits."""
        return True


class ServedActuator:
    """An actuator on a small cluster of the cloud `memory`, and its external provider."""

    def __init__(self) -> None:
        objects = small_cluster(2, 1, 2)
        objects[-1]["spec"]["price"] = 0.1
        self.stage = Stage(objects)
        actuator = self.stage.actuator
        self.servicer = ExternalServicer(actuator)
        # No call waits for a result: work is executed between calls.
        self.servicer._orders = ExternalOrders(actuator.processor, actuator.cluster, actuator.cloud, answer_s=0.0)

    def make(self, rpc: str, request: Message) -> bool:
        """Make a call and execute its orders; return whether it was answered. Raises errors other than refusals."""
        try:
            answer = getattr(self.servicer, rpc)(request, Context())
        except ServiceError:
            answer = None
        self.stage.run()
        if answer is None:
            return False
        # An answer may be encoded already.
        assert (len(answer) if isinstance(answer, bytes) else answer.ByteSize()) <= MAX_ANSWER_BYTES
        price = getattr(answer, "price", 0.0)
        assert math.isfinite(price), f"{rpc}: price {price}"
        return True

    @property
    def is_new(self) -> bool:
        """Return whether nothing was ordered."""
        return not (self.stage.noted("grown") or self.stage.noted("deleted") or self.stage.finished())

    def check(self) -> None:
        """Check that sizes are within their limits and match the instances, and that there are no duplicates."""
        # Ordered machines start, and unwanted ones terminate.
        self.stage.run_for(SETTLES_S)
        with self.stage.looking():
            groups: list[NodeGroupView] = list(self.stage.cloud.node_groups())
        for group in groups:
            assert group.min_size <= group.target_size <= group.max_size, group
            assert group.instance_count == group.target_size, group
        deleted = self.stage.noted("deleted")
        assert len(deleted) == len(set(deleted)), deleted
        assert not self.stage.violations, self.stage.violations


@cache
def calls_type() -> Any:
    """Return the message of calls: `calls`, each with a field for the request of every rpc."""
    service = pb.DESCRIPTOR.services_by_name["CloudProvider"]
    file = descriptor_pb2.FileDescriptorProto(name="fuzz_external_calls.proto", package="fuzz", syntax="proto3")
    file.dependency.append(pb.DESCRIPTOR.name)
    call, calls = file.message_type.add(name="Call"), file.message_type.add(name="Calls")
    kinds = descriptor_pb2.FieldDescriptorProto
    for number, rpc in enumerate(service.methods, start=1):
        call.field.add(
            name=rpc.name, number=number, type=kinds.TYPE_MESSAGE, label=kinds.LABEL_OPTIONAL,
            type_name=f".{rpc.input_type.full_name}",
        )  # fmt: skip
    calls.field.add(name="calls", number=1, type=kinds.TYPE_MESSAGE, label=kinds.LABEL_REPEATED, type_name=".fuzz.Call")
    pool = descriptor_pool.Default()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("fuzz.Calls"))


@cache
def external_seeds() -> list[Message]:
    """Return every call once, each after a refresh, and all in the order of a loop."""
    node: Any = pb.ExternalGrpcNode(provider_id="test://n2", name="n2", labels={"a": "b"})
    group, pod = "g", a_pod("p").SerializeToString()
    hour: Any = {"start_timestamp": {"seconds": 0}, "end_timestamp": {"seconds": 3600}}
    fields: dict[str, Any] = {
        "Refresh": {}, "NodeGroups": {}, "GPULabel": {}, "GetAvailableGPUTypes": {}, "Cleanup": {},
        "NodeGroupForNode": {"node": node}, "PricingNodePrice": {"node": node, **hour},
        "PricingPodPrice": {"pod_bytes": pod, **hour}, "NodeGroupTargetSize": {"id": group},
        "NodeGroupNodes": {"id": group}, "NodeGroupTemplateNodeInfo": {"id": group},
        "NodeGroupGetOptions": {"id": group}, "NodeGroupIncreaseSize": {"id": group, "delta": 2},
        "NodeGroupDeleteNodes": {"id": group, "nodes": [node]},
        "NodeGroupDecreaseTargetSize": {"id": group, "delta": -1},
    }  # fmt: skip
    assert set(fields) == set(pb.DESCRIPTOR.services_by_name["CloudProvider"].methods_by_name)
    calls = [{name: more} for name, more in fields.items()]
    made = [calls_type()(calls=[calls[0], one]) for one in calls]
    made.append(calls_type()(calls=calls))
    return made


_actuators: list[ServedActuator] = []


def read_calls(data: bytes) -> object:
    """Make calls to the external provider; return None if none was answered."""
    calls = calls_type()()
    try:
        calls.ParseFromString(data)
    except DecodeError:
        return None
    if not _actuators:
        _actuators.append(ServedActuator())
    actuator = _actuators[0]
    answered = 0
    try:
        for call in calls.calls[:MOST_CALLS]:
            for field, request in call.ListFields():
                # Of the generated type, as in the service.
                kind = getattr(pb, request.DESCRIPTOR.name)
                answered += actuator.make(field.name, kind.FromString(request.SerializeToString()))
        actuator.check()
    finally:
        if not actuator.is_new:
            _actuators.clear()
    return answered or None


@cache
def expander() -> ExpanderServicer:
    """Return the expander of a planner that has planned for a cluster with the groups a and b."""
    request = plan_pb2.PlanRequest(cluster="here")
    request.settings.scale_up.expanders.extend(CHAIN)
    plans = LastPlans()
    groups = [
        node_group(name, target=size, max_size=9, price=price) for name, size, price in (("a", 2, 1.0), ("b", 3, 2.0))
    ]
    plans.remember(request, canonicalize(snapshot_of(*groups)))
    limits = PlannerOptions()
    return ExpanderServicer(plans, ExpanderOptions(), limits, RequestMemory(limits.max_request_memory))


@cache
def best_options_seeds() -> list[Message]:
    """Return two options for two pods as each version of the Cluster Autoscaler encodes them."""
    pods = [a_pod("p", cpu="100m"), a_pod("q", cpu="1500m")]
    nodes = {"a": a_node("a", zone="a"), "b": a_node("b", cpu="8", zone="b")}
    return [sent({"a": (2, pods), "b": (1, pods[:1])}, nodes, version) for version in VERSIONS]


def read_best_options(data: bytes) -> object:
    """Request the best option from a planner that knows the cluster. An empty answer would forbid scale-up."""
    request = expander_pb2.BestOptionsRequest()
    try:
        request.ParseFromString(data)
    except DecodeError:
        return None
    answer = expander().BestOptions(request, Context())  # type: ignore[arg-type]
    assert bool(answer.options) == bool(request.options)
    named = {one.node_group_id for one in request.options}
    assert {one.node_group_id for one in answer.options} <= named
    return answer
