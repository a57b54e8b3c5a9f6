"""What the Cluster Autoscaler reads of groups, kept between two refreshes."""

import pytest

from actuator.cloud.memory.cloud import MemoryCloud
from actuator.cloud.options import ANNOTATION_PREFIX
from actuator.cloud.provider import GroupOptions
from actuator.service.external.cloud_cache import CloudCache
from actuator.simulated_cluster.cluster import SimulatedCluster
from tests.builders.kubernetes import node_group


@pytest.mark.parametrize(
    ("text", "expected"), [("20m", GroupOptions(max_node_provision_s=1200)), ("soon", GroupOptions())]
)
def test_an_option_that_cannot_be_read_fails_no_call(text: str, expected: GroupOptions) -> None:
    group = node_group("g")
    group["metadata"]["annotations"] = {f"{ANNOTATION_PREFIX}maxnodeprovisiontime": text}
    cache = CloudCache(MemoryCloud(SimulatedCluster([group])), lambda _, template: template)
    assert cache.options("g") == expected


def test_a_price_that_cannot_be_read_fails_no_call() -> None:
    group = node_group("g")
    group["spec"]["price"] = "dear"
    cache = CloudCache(MemoryCloud(SimulatedCluster([group])), lambda _, template: template)
    assert cache.price_per_hour("g") is None
