"""Reads of the Cluster Autoscaler from our external cloud provider over gRPC: 200 groups, 10,000 instances."""

import time
from contextlib import ExitStack
from typing import Any

from tests.benchmarks.registry import Stages, scenario

GROUPS, INSTANCES, CALLS = 200, 50, 50
GROUP = "group-100"

# What works on it is imported late: other scenarios do without, and their memory is measured.


class Provider:
    """An actuator with the cloud `memory`, refreshed, and the calls of one loop."""

    def __init__(self) -> None:
        from google.protobuf.timestamp_pb2 import Timestamp

        from tests.builders.best_options import a_pod
        from tests.builders.clouds import external_actuator
        from tests.builders.kubernetes import node, node_group
        from trimtab.clusterautoscaler.externalgrpc import cloud_provider_pb2 as pb
        from trimtab.clusterautoscaler.externalgrpc import cloud_provider_pb2_grpc as pb_grpc

        objects = []
        for name in (f"group-{number:03}" for number in range(GROUPS)):
            members = [f"{name}-{number}" for number in range(INSTANCES)]
            objects += [node(one, cpu="8") for one in members]
            template = node("template", cpu="8")
            objects.append(node_group(name, 0, 60, target=INSTANCES, nodes=members, template=template, price=0.4))
        self._stack = ExitStack()
        world = self._stack.enter_context(external_actuator(objects=objects))
        make_stub: Any = pb_grpc.CloudProviderStub
        self.stub = make_stub(world.channel)
        hour: Any = Timestamp(seconds=3600)
        pod_bytes = a_pod("p", cpu="1").SerializeToString()
        node_message: Any = pb.ExternalGrpcNode(provider_id=f"test://{GROUP}-7", name=f"{GROUP}-7")
        self.calls: dict[str, Any] = {
            "NodeGroups": pb.NodeGroupsRequest(),
            "NodeGroupForNode": pb.NodeGroupForNodeRequest(node=node_message),
            "NodeGroupTargetSize": pb.NodeGroupTargetSizeRequest(id=GROUP),
            "NodeGroupNodes": pb.NodeGroupNodesRequest(id=GROUP),
            "NodeGroupTemplateNodeInfo": pb.NodeGroupTemplateNodeInfoRequest(id=GROUP),
            "NodeGroupGetOptions": pb.NodeGroupAutoscalingOptionsRequest(id=GROUP),
            "PricingNodePrice": pb.PricingNodePriceRequest(node=node_message),
            "PricingPodPrice": pb.PricingPodPriceRequest(
                pod_bytes=pod_bytes, start_timestamp=Timestamp(), end_timestamp=hour
            ),
            "GPULabel": pb.GPULabelRequest(),
            "GetAvailableGPUTypes": pb.GetAvailableGPUTypesRequest(),
        }
        self.refresh = lambda: self.stub.Refresh(pb.RefreshRequest())

    def close(self) -> None:
        """End the actuator."""
        self._stack.close()


def run(made: Provider, stages: Stages) -> dict[str, Any]:
    """Refresh, and make each call many times; a stage is one call."""
    with stages.stage("Refresh"):
        made.refresh()
    answers = {}
    for name, request in made.calls.items():
        call, begun_s = getattr(made.stub, name), time.perf_counter()
        for _ in range(CALLS):
            answers[name] = call(request)
        stages.add(name, (time.perf_counter() - begun_s) / CALLS)
    return answers


def verify(made: Provider, answers: dict[str, Any]) -> None:
    """All groups, and what one of them has."""
    del made
    assert len(answers["NodeGroups"].node_groups) == GROUPS
    assert answers["NodeGroupForNode"].node_group.id == GROUP
    assert answers["NodeGroupTargetSize"].target_size == INSTANCES
    assert len(answers["NodeGroupNodes"].instances) == INSTANCES
    assert answers["NodeGroupTemplateNodeInfo"].node_bytes
    assert answers["PricingPodPrice"].price == 0.4 / 8


scenario(
    name="external-provider-10000",
    what="one call each of a Cluster Autoscaler to our external provider of 200 groups and 10,000 instances",
    setup=Provider,
    run=run,
    verify=verify,
    aims={
        "NodeGroups": 0.002,
        "NodeGroupForNode": 0.001,
        "NodeGroupTargetSize": 0.002,
        "NodeGroupNodes": 0.002,
        "NodeGroupTemplateNodeInfo": 0.002,
        "NodeGroupGetOptions": 0.001,
        "PricingNodePrice": 0.002,
        "PricingPodPrice": 0.002,
        "GPULabel": 0.002,
        "GetAvailableGPUTypes": 0.002,
    },
    reference="a Cluster Autoscaler waits 5 s for each answer, and asks hundreds of times a loop",
)
