"""What the Cluster Autoscaler reads of groups, kept between two refreshes."""

import pytest

from tests.builders.kubernetes import node_group
from trimtab.actuator.cloud.options import ANNOTATION_PREFIX
from trimtab.actuator.cloud.provider import GroupOptions
from trimtab.actuator.service.external import cloud_cache
from trimtab.actuator.service.external.cloud_cache import CloudCache
from trimtab.clients.simulation.cloud.provider import MemoryCloud
from trimtab.clients.simulation.cluster.cluster import SimulatedCluster


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


def test_an_answer_about_options_is_encoded_once_for_each_set_of_defaults_until_the_next_refresh() -> None:
    group = node_group("g")
    group["metadata"]["annotations"] = {f"{ANNOTATION_PREFIX}maxnodeprovisiontime": "20m"}
    cluster = SimulatedCluster([group])
    cache, encoded = CloudCache(MemoryCloud(cluster), lambda _, template: template), []

    def encode(options: GroupOptions) -> bytes:
        encoded.append(options.max_node_provision_s)
        return f"{options.max_node_provision_s}".encode()

    for defaults in (b"a", b"a", b"b", b"a"):
        assert cache.options_answer("g", defaults, encode) == b"1200.0"
    assert len(encoded) == 2
    with cluster.transaction() as state:
        state.groups["g"]["metadata"]["annotations"] = {f"{ANNOTATION_PREFIX}maxnodeprovisiontime": "5m"}
    assert cache.options_answer("g", b"a", encode) == b"1200.0"
    cache.refresh()
    assert cache.options_answer("g", b"a", encode) == b"300.0"


def test_a_caller_whose_defaults_never_repeat_fills_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cloud_cache, "MOST_ANSWERS", 3)
    cache = CloudCache(MemoryCloud(SimulatedCluster([node_group("g")])), lambda _, template: template)
    for number in range(10):
        assert cache.options_answer("g", b"%d" % number, lambda _: b"x") == b"x"
    assert len(cache._answers) == 3
