"""Prices of an external provider: what is no price counts as unknown."""

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest

from trimtab.actuator.cloud.externalgrpc.calls import ProviderCalls
from trimtab.actuator.cloud.externalgrpc.cloud import ExternalCloud
from trimtab.actuator.cloud.externalgrpc.messages import node_bytes
from trimtab.actuator.cloud.provider import CloudNodeTemplate
from trimtab.clusterautoscaler.externalgrpc import cloud_provider_pb2 as pb
from trimtab.clusterautoscaler.externalgrpc import cloud_provider_pb2_grpc as rpc


class _Provider(rpc.CloudProviderServicer):
    """A provider of one group with a price."""

    def __init__(self, price: float) -> None:
        self._price = price

    def NodeGroups(self, request: Any, context: Any) -> Any:
        return pb.NodeGroupsResponse(node_groups=[pb.NodeGroup(id="g", max_size=3)])

    def NodeGroupTemplateNodeInfo(self, request: Any, context: Any) -> Any:
        template = CloudNodeTemplate(
            labels={}, taints=(), capacity={"cpu": "4"}, allocatable={"cpu": "4"}, annotations={}
        )
        return pb.NodeGroupTemplateNodeInfoResponse(node_bytes=node_bytes(template, "g"))

    def PricingNodePrice(self, request: Any, context: Any) -> Any:
        return pb.PricingNodePriceResponse(price=self._price)


@pytest.mark.parametrize(
    ("price", "expected"),
    [(0.4, 0.4), (0.0, 0.0), (math.inf, None), (math.nan, None), (-1.0, None), (1.7976931348623157e308, None)],
)
def test_what_is_no_price_counts_as_unknown(price: float, expected: float | None) -> None:
    server = grpc.server(ThreadPoolExecutor(2))
    rpc.add_CloudProviderServicer_to_server(_Provider(price), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            assert ExternalCloud(ProviderCalls(channel, 60.0)).price_per_hour("g") == expected
    finally:
        server.stop(None).wait()
