"""A request that needs too much memory is refused before it allocates it, and releases what it had."""

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
from opentelemetry.metrics import NoOpMeterProvider

from tests.builders.messages import decode_snapshot
from tests.builders.snapshots import int32
from trimtab.common.rpc.errors import Reason, ServiceError
from trimtab.planner.service.request_handler import Caller, RequestHandler
from trimtab.planner.service.request_limits import Bounds, RequestMemory
from trimtab.planner.service.warm_up import NOW_S, small_cluster, warm_up
from trimtab.v1 import plan_pb2
from trimtab.v1 import snapshot_pb2 as pb

LIMIT = 64 << 20


def budgets_over_pods() -> pb.ClusterSnapshot:
    """Return 3,000 budgets, each over all of 4,000 pods."""
    message = pods_of(4000)
    for i in range(3000):
        message.pod_disruption_budgets.add(namespace="default", name=f"b{i}").selector.SetInParent()
    return message


def nodes_with_many_resources() -> pb.ClusterSnapshot:
    """Return 20,000 nodes, one of which has 255 resources."""
    message = pb.ClusterSnapshot(resources=[f"example.com/r{i}" for i in range(255)])
    for i in range(20_000):
        message.nodes.add(name=f"n{i}")
    message.nodes[0].allocatable.extend([1] * 255)
    return message


def selectors_of_many_keys() -> pb.ClusterSnapshot:
    """Return 3,000 pod specs, each with its own selector key, and 3,000 nodes with their own labels."""
    count = 3000
    message = pods_of(count)
    message.strings.extend([f"key-{i}" for i in range(count)])
    first = len(message.strings) - count
    message.label_sets.offsets = int32([0, *range(count + 1)])
    message.label_sets.keys = int32(range(first, first + count))
    message.label_sets.values = int32([0] * count)
    message.pods.spec = int32(range(count))
    del message.pod_specs[:]
    for i in range(count):
        message.nodes.add(name=f"n{i}", label_set=i + 1)
        message.pod_specs.add().node_selector.add(key=first + i, value=0)
    return message


def pods_of(count: int) -> pb.ClusterSnapshot:
    """Return `count` pending pods."""
    names = [f"p{i}" for i in range(count)]
    message = pb.ClusterSnapshot(strings=["", "default"], pod_specs=[pb.PodSpec()])
    table = message.pods
    table.count = count
    table.namespace = int32([1] * count)
    table.names = table.uids = "".join(names).encode()
    table.name_lengths = table.uid_lengths = int32([len(name) for name in names])
    table.spec = table.node = int32([0] * count)
    table.phase = bytes([pb.PodPhase.RUNNING]) * count
    return message


@pytest.mark.ci
@pytest.mark.parametrize("make", [budgets_over_pods, nodes_with_many_resources, selectors_of_many_keys])
def test_a_small_request_that_would_take_much_memory_is_refused_before_it_does(
    make: Callable[[], pb.ClusterSnapshot],
) -> None:
    warm_up()
    payload = make().SerializeToString()
    request = plan_pb2.PlanRequest(decisions=[plan_pb2.Decision.SCALE_DOWN])
    request.now.seconds = NOW_S
    handler = RequestHandler(NoOpMeterProvider().get_meter("test"), 0, log_decisions=False)
    memory = RequestMemory(LIMIT)
    tracemalloc.start()
    try:
        with pytest.raises(ServiceError) as caught, memory.share() as take:
            handler.plan(request, payload, Caller("", Bounds(), take))
        taken = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert caught.value.reason == Reason.MEMORY_EXCEEDED
    assert caught.value.metadata == {"limit": str(LIMIT)}
    assert taken < 2 * LIMIT
    with memory.share() as take:
        assert handler.plan(request, small_cluster().SerializeToString(), Caller("", Bounds(), take)).snapshot_version


def test_nodes_without_resources_take_no_room_for_them() -> None:
    message = nodes_with_many_resources()
    del message.nodes[0].allocatable[:]
    assert decode_snapshot(message.SerializeToString()).nodes.allocatable.shape == (20_000, 4)
    message.nodes[3].capacity.extend([0] * 200 + [7])
    nodes = decode_snapshot(message.SerializeToString()).nodes
    assert nodes.capacity.shape == (20_000, 5)
    assert np.argwhere(nodes.capacity[:, 4]).size == 1


def test_all_requests_together_have_one_limit_and_give_back_what_they_had() -> None:
    memory = RequestMemory(100)
    with memory.share() as one, memory.share() as other:
        one(60, "a")
        with pytest.raises(ServiceError):
            other(60, "b")
        other(40, "b")
    with memory.share() as take:
        take(100, "c")
