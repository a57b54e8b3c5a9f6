"""The actuator as external cloud provider of the Cluster Autoscaler: its 15 calls, as the Cluster Autoscaler makes
them.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from structlog.testing import capture_logs

from tests.builders import kubernetes as k8s
from tests.builders.clouds import ExternalWorld, cloud_groups, external_actuator
from tests.builders.tls import make_ca
from tests.builders.waiting import LIMIT_S
from trimtab.actuator.cloud.provider import CloudError, CloudRefusedError
from trimtab.actuator.service.external.servicer import MAX_ANSWER_BYTES
from trimtab.clients.simulation.cluster.faults import Fault
from trimtab.clusterautoscaler.externalgrpc import cloud_provider_pb2 as pb
from trimtab.clusterautoscaler.externalgrpc import cloud_provider_pb2_grpc as pb_grpc
from trimtab.k8s.v1 import core_pb2


@pytest.fixture
def world() -> Iterator[ExternalWorld]:
    with external_actuator() as made:
        yield made


@pytest.fixture
def stub(world: ExternalWorld) -> Any:
    return pb_grpc.CloudProviderStub(world.channel)


def node(name: str, **more: Any) -> pb.ExternalGrpcNode:
    return pb.ExternalGrpcNode(provider_id=f"test://{name}", name=name, **more)


def size(stub: Any, group: str = "g") -> int:
    return int(stub.NodeGroupTargetSize(pb.NodeGroupTargetSizeRequest(id=group)).target_size)


def delete(stub: Any, *names: str, group: str = "g") -> None:
    stub.NodeGroupDeleteNodes(pb.NodeGroupDeleteNodesRequest(id=group, nodes=[node(name) for name in names]))


def increase(stub: Any, delta: int, group: str = "g") -> None:
    stub.NodeGroupIncreaseSize(pb.NodeGroupIncreaseSizeRequest(id=group, delta=delta))


def status_of(call: Callable[[], Any]) -> tuple[str, str]:
    with pytest.raises(grpc.RpcError) as caught:
        call()
    return caught.value.code().name, caught.value.details() or ""


def noted(world: ExternalWorld, what: str) -> list[str]:
    return sorted(entry.subject for entry in world.cluster.journal() if entry.what == what)


def wait_until(world: ExternalWorld, reached: Callable[[Any], bool]) -> None:
    """Wait for a status of the actuator."""
    end, revision = time.monotonic() + LIMIT_S, -1
    while not reached(world.actuator.status(True).message()):
        assert time.monotonic() < end
        revision = world.actuator.processor.wait_for_change(revision, 1.0)


def test_a_log_line_is_written_for_what_changes_or_fails_and_not_for_each_read(stub: Any) -> None:
    with capture_logs() as logs:
        stub.NodeGroups(pb.NodeGroupsRequest())
        size(stub)
        status_of(lambda: size(stub, "nowhere"))
        increase(stub, 1)
    levels = [(line["method"].rsplit("/", 1)[1], line["log_level"]) for line in logs if line["event"] == "call"]
    assert levels == [
        ("NodeGroups", "debug"),
        ("NodeGroupTargetSize", "debug"),
        ("NodeGroupTargetSize", "info"),
        ("NodeGroupIncreaseSize", "info"),
    ]


@pytest.mark.parametrize(
    ("call", "code"),
    [
        pytest.param(lambda stub: increase(stub, 4), "RESOURCE_EXHAUSTED", id="beyond the maximum"),
        pytest.param(lambda stub: increase(stub, 0), "INVALID_ARGUMENT", id="growth by nothing"),
        pytest.param(lambda stub: increase(stub, 1, "x"), "NOT_FOUND", id="growth of no group"),
        pytest.param(lambda stub: size(stub, "x"), "NOT_FOUND", id="size of no group"),
        pytest.param(lambda stub: delete(stub, "g-1", group="h"), "INVALID_ARGUMENT", id="node of another group"),
        pytest.param(lambda stub: delete(stub, "x"), "INVALID_ARGUMENT", id="a node of no group"),
        pytest.param(lambda stub: delete(stub, "g-0", "g-1", "g-2"), "INVALID_ARGUMENT", id="below the minimum"),
        pytest.param(
            lambda stub: stub.NodeGroupDeleteNodes(
                pb.NodeGroupDeleteNodesRequest(id="g", nodes=[pb.ExternalGrpcNode(name="g-1")])
            ),
            "INVALID_ARGUMENT",
            id="no provider id",
        ),
        pytest.param(
            lambda stub: stub.NodeGroupDecreaseTargetSize(pb.NodeGroupDecreaseTargetSizeRequest(id="g", delta=-1)),
            "INVALID_ARGUMENT",
            id="a target below what runs",
        ),
        pytest.param(
            lambda stub: stub.NodeGroupDecreaseTargetSize(pb.NodeGroupDecreaseTargetSizeRequest(id="g", delta=1)),
            "INVALID_ARGUMENT",
            id="a decrease that is none",
        ),
        pytest.param(
            lambda stub: stub.PricingPodPrice(pb.PricingPodPriceRequest(pod_bytes=b"\xff")),
            "INVALID_ARGUMENT",
            id="no pod",
        ),
        pytest.param(
            lambda stub: stub.PricingNodePrice(
                pb.PricingNodePriceRequest(node=node("g-1"), end_timestamp=Timestamp(seconds=1 << 53))
            ),
            "INVALID_ARGUMENT",
            id="no time",
        ),
    ],
)
def test_what_cannot_be_done_is_refused_as_a_whole(
    world: ExternalWorld, stub: Any, call: Callable[[Any], Any], code: str
) -> None:
    assert status_of(lambda: call(stub))[0] == code
    assert (size(stub), noted(world, "deleted"), noted(world, "grown")) == (3, [], [])


def test_a_deletion_lowers_the_target_before_it_answers_and_is_made_once(world: ExternalWorld, stub: Any) -> None:
    for _ in range(3):
        delete(stub, "g-0", "g-1")
        assert size(stub) == 1
    world.settle()
    delete(stub, "g-0", "g-1")
    assert (size(stub), noted(world, "deleted")) == (1, ["g-0", "g-1"])
    wait_until(world, lambda status: len(status.finished) == 2)


def test_the_same_deletion_by_many_callers_at_once_is_made_once(world: ExternalWorld, stub: Any) -> None:
    with ThreadPoolExecutor(8) as pool:
        for one in [pool.submit(delete, stub, "g-0") for _ in range(8)]:
            one.result()
    assert (size(stub), noted(world, "deleted")) == (2, ["g-0"])


def test_an_instance_that_never_registered_is_deleted_by_its_provider_id(world: ExternalWorld, stub: Any) -> None:
    increase(stub, 1)
    instances = stub.NodeGroupNodes(pb.NodeGroupNodesRequest(id="g")).instances
    (new,) = [one.id for one in instances if one.status.instance_state == pb.InstanceStatus.INSTANCE_CREATING]
    # The Cluster Autoscaler identifies an instance without a node by its id.
    stub.NodeGroupDeleteNodes(
        pb.NodeGroupDeleteNodesRequest(id="g", nodes=[pb.ExternalGrpcNode(provider_id=new, name=new)])
    )
    assert size(stub) == 3
    world.settle()
    wait_until(world, lambda status: len(status.finished) == 1)


def order(stub: Any, *pairs: tuple[str, str]) -> None:
    nodes = [pb.ExternalGrpcNode(name=name, provider_id=provider_id) for name, provider_id in pairs]
    stub.NodeGroupDeleteNodes(pb.NodeGroupDeleteNodesRequest(id="g", nodes=nodes))


def test_a_node_that_has_another_provider_id_is_refused_with_both_named_and_the_others_go(
    world: ExternalWorld, stub: Any
) -> None:
    code, detail = status_of(lambda: order(stub, ("late", "test://g-1"), ("late", "test://g-2")))
    assert code == "INVALID_ARGUMENT"
    assert "node late is given with provider ids test://g-1 and test://g-2" in detail
    assert size(stub) == 3
    code, detail = status_of(lambda: order(stub, ("g-2", "test://g-2"), ("g-0", "test://g-1")))
    assert code == "INVALID_ARGUMENT"
    assert "1 of 2 nodes were refused, the others are deleted: node g-0 has provider id test://g-0, not test://g-1" in (
        detail
    )
    world.settle()
    assert (size(stub), noted(world, "deleted")) == (2, ["g-2"])


def test_refused_orders_hold_up_no_others_of_their_call(world: ExternalWorld, stub: Any) -> None:
    increase(stub, 3)
    world.settle()
    names = [f"x-{number}" for number in range(25)]
    code, detail = status_of(lambda: delete(stub, *names, "g-0", "g-1"))
    assert code == "INVALID_ARGUMENT"
    assert "25 of 27 nodes were refused, the others are deleted: node group g has no instance test://x-0; " in detail
    assert detail.endswith("; and 20 more")
    assert (size(stub), noted(world, "deleted")) == (4, ["g-0", "g-1"])


@pytest.mark.parametrize("name", ["test://g-1", "gone", "g-1"])
def test_an_unknown_name_and_a_node_without_provider_id_are_accepted_as_given(
    world: ExternalWorld, stub: Any, name: str
) -> None:
    with world.cluster.transaction() as state:
        view = state.nodes["g-1"].node
        del view["spec"]["providerID"]
        state.put_node(view)
    order(stub, (name, "test://g-1"))
    assert size(stub) == 2


def test_a_gone_instance_counts_as_deleted_even_if_its_name_is_reused(world: ExternalWorld, stub: Any) -> None:
    delete(stub, "g-1")
    world.settle()
    order(stub, ("g-0", "test://g-1"))
    assert (size(stub), noted(world, "deleted")) == (2, ["g-1"])


def test_a_cloud_that_refuses_a_deletion_is_quoted_and_the_next_attempt_may_succeed(
    world: ExternalWorld, stub: Any
) -> None:
    world.cluster.faults.add(Fault("delete_instances", error=CloudRefusedError("locked by an audit"), times=1))
    code, detail = status_of(lambda: delete(stub, "g-0"))
    assert (code, size(stub)) == ("UNAVAILABLE", 3)
    assert "locked by an audit" in detail
    wait_until(world, lambda status: not status.deletions)
    delete(stub, "g-0")
    assert size(stub) == 2


def test_temporary_errors_of_the_cloud_do_not_reach_the_caller(world: ExternalWorld, stub: Any) -> None:
    world.cluster.faults.add(Fault("delete_instances", error=CloudError("throttled"), times=4))
    world.cluster.faults.add(Fault("set_size", error=CloudError("throttled"), times=4))
    increase(stub, 1)
    delete(stub, "g-0")
    assert (size(stub), noted(world, "grown")) == (3, ["g 1"])


def test_a_lower_target_drops_instances_that_have_not_started(stub: Any) -> None:
    increase(stub, 2)
    stub.NodeGroupDecreaseTargetSize(pb.NodeGroupDecreaseTargetSizeRequest(id="g", delta=-2))
    assert size(stub) == 3


def test_a_template_is_a_node_for_every_version_of_the_caller(stub: Any) -> None:
    answer = stub.NodeGroupTemplateNodeInfo(pb.NodeGroupTemplateNodeInfoRequest(id="g"))
    assert answer.node_info == answer.node_bytes
    found = core_pb2.Node.FromString(answer.node_bytes)
    assert {entry.key: entry.value.string for entry in found.status.allocatable}["cpu"] == "8"
    assert {entry.key: entry.value for entry in found.metadata.labels}["pool"] == "a"
    assert [taint.key for taint in found.spec.taints] == ["team"]


def test_options_are_filled_from_the_defaults_in_both_forms(stub: Any) -> None:
    defaults = pb.NodeGroupAutoscalingOptions(scale_down_utilization_threshold=0.5, zero_or_max_node_scaling=True)
    defaults.scale_down_unready_time.duration = 1_200 * 10**9
    defaults.max_node_provision_duration.FromSeconds(900)
    answer = stub.NodeGroupGetOptions(pb.NodeGroupAutoscalingOptionsRequest(id="g", defaults=defaults))
    options = answer.node_group_autoscaling_options
    assert (options.scale_down_utilization_threshold, options.zero_or_max_node_scaling) == (0.5, True)
    assert options.scale_down_unneeded_duration.seconds == 420
    assert options.scale_down_unneeded_time.duration == 420 * 10**9
    assert options.scale_down_unready_duration.seconds == 1_200
    assert options.max_node_provision_time.duration == 900 * 10**9


def test_options_that_are_the_callers_own_defaults_are_left_to_it(stub: Any) -> None:
    defaults = pb.NodeGroupAutoscalingOptions(scale_down_utilization_threshold=0.5)
    defaults.scale_down_unneeded_duration.FromSeconds(420)
    request = pb.NodeGroupAutoscalingOptionsRequest(id="g", defaults=defaults)
    assert not stub.NodeGroupGetOptions(request).HasField("node_group_autoscaling_options")
    defaults.scale_down_unneeded_duration.FromSeconds(600)
    request = pb.NodeGroupAutoscalingOptionsRequest(id="g", defaults=defaults)
    assert stub.NodeGroupGetOptions(request).HasField("node_group_autoscaling_options")


@pytest.mark.parametrize(("form", "lines"), [("since 1.35", 1), ("1.34", 0), ("1.33", 0)])
def test_options_that_make_a_caller_forget_when_nodes_start_are_warned_of_once(
    stub: Any, form: str, lines: int
) -> None:
    defaults = pb.NodeGroupAutoscalingOptions()
    if form != "1.33":
        defaults.scale_down_unneeded_duration.FromSeconds(600)
    if form != "since 1.35":
        defaults.scale_down_unneeded_time.duration = 600 * 10**9
    with capture_logs() as logs:
        for _ in range(3):
            stub.Refresh(pb.RefreshRequest())
            stub.NodeGroupGetOptions(pb.NodeGroupAutoscalingOptionsRequest(id="g", defaults=defaults))
    assert [one["event"] for one in logs].count("options_without_startup_time") == lines


def test_an_all_or_nothing_group_is_warned_of_once_as_the_caller_never_shrinks_it() -> None:
    objects = cloud_groups(nodes=True)
    objects[0]["spec"]["zeroOrMax"] = True
    machines = [k8s.node(f"g-{number}", cpu="8") for number in range(3)]
    request = pb.NodeGroupAutoscalingOptionsRequest(id="g")
    with capture_logs() as logs, external_actuator(objects=[*machines, *objects]) as world:
        stub: Any = pb_grpc.CloudProviderStub(world.channel)  # type: ignore[no-untyped-call]
        for _ in range(2):
            stub.Refresh(pb.RefreshRequest())
            answer = stub.NodeGroupGetOptions(request)
    assert answer.node_group_autoscaling_options.zero_or_max_node_scaling
    (line,) = [one for one in logs if one["event"] == "all_or_nothing_group_never_shrinks"]
    assert (line["log_level"], line["node_group"]) == ("warning", "g")


def test_a_group_without_options_of_its_own_leaves_all_defaults_to_the_caller(stub: Any) -> None:
    answer = stub.NodeGroupGetOptions(pb.NodeGroupAutoscalingOptionsRequest(id="h"))
    assert not answer.HasField("node_group_autoscaling_options")


@pytest.mark.parametrize("old", [False, True], ids=["timestamps", "times of Kubernetes"])
def test_prices_count_the_hours_and_are_unimplemented_where_not_known(stub: Any, old: bool) -> None:
    template = pb.ExternalGrpcNode(name="template", annotations={"trimtab.dev/node-group": "g"})
    for one, price in ((node("g-1"), 0.8), (template, 0.8)):
        request = pb.PricingNodePriceRequest(node=one)
        if old:
            request.start_time.seconds, request.end_time.seconds = 1_000, 8_200
        else:
            request.start_timestamp.seconds, request.end_timestamp.seconds = 1_000, 8_200
        assert stub.PricingNodePrice(request).price == pytest.approx(price)
    other = pb.PricingNodePriceRequest(node=node("other"))
    assert status_of(lambda: stub.PricingNodePrice(other))[0] == "UNIMPLEMENTED"


def test_a_pod_costs_its_share_of_a_node(stub: Any) -> None:
    pod = core_pb2.Pod()
    requests = pod.spec.containers.add().resources.requests
    requests.add(key="cpu").value.string = "2"
    requests.add(key="memory").value.string = "16Gi"
    request = pb.PricingPodPriceRequest(pod_bytes=pod.SerializeToString())
    request.end_timestamp.seconds = 3600
    assert stub.PricingPodPrice(request).price == pytest.approx(0.2)
    requests.add(key="cpu").value.string = "200"
    request.pod_bytes = pod.SerializeToString()
    assert status_of(lambda: stub.PricingPodPrice(request))[0] == "UNIMPLEMENTED"


def test_gpus_have_a_label_and_types(stub: Any) -> None:
    assert stub.GPULabel(pb.GPULabelRequest()).label == "nvidia.com/gpu.product"
    assert dict(stub.GetAvailableGPUTypes(pb.GetAvailableGPUTypesRequest()).gpu_types) == {}


def test_reads_come_from_memory_until_refresh_or_an_own_change(world: ExternalWorld, stub: Any) -> None:
    assert size(stub) == 3
    world.cluster.faults.add(Fault("node_groups", error=CloudError("down"), times=1))
    stub.NodeGroupGetOptions(pb.NodeGroupAutoscalingOptionsRequest(id="g"))
    assert size(stub) == 3
    assert status_of(lambda: stub.Refresh(pb.RefreshRequest()))[0] == "UNAVAILABLE"
    stub.Refresh(pb.RefreshRequest())


def test_ten_thousand_instances_fit_into_one_answer(world: ExternalWorld, stub: Any) -> None:
    with world.cluster.transaction() as state:
        state.groups["h"]["spec"]["maxSize"] = 10_000
    # Not by a call: on a busy computer, so many machines take longer than a call may wait.
    world.actuator.cloud.set_size("h", 0, 10_000, "token")
    stub.Refresh(pb.RefreshRequest())
    answer = stub.NodeGroupNodes(pb.NodeGroupNodesRequest(id="h"))
    assert len(answer.instances) == 10_000
    assert answer.ByteSize() < MAX_ANSWER_BYTES


def test_a_process_that_does_not_lead_refuses_orders(world: ExternalWorld, stub: Any) -> None:
    world.actuator.processor.leading = False
    decrease = pb.NodeGroupDecreaseTargetSizeRequest(id="g", delta=-1)
    for call in (
        lambda: delete(stub, "g-0"),
        lambda: increase(stub, 1),
        lambda: stub.NodeGroupDecreaseTargetSize(decrease),
    ):
        assert status_of(call)[0] == "FAILED_PRECONDITION"
    assert size(stub) == 3


def test_with_mutual_tls_only_callers_with_a_certificate_are_served(tmp_path: Path) -> None:
    ca = make_ca(tmp_path)
    with external_actuator(ca.port(), ca.channel("client")) as world:
        assert size(pb_grpc.CloudProviderStub(world.channel)) == 3
    with external_actuator(ca.port(), ca.channel()) as world:
        assert status_of(lambda: size(pb_grpc.CloudProviderStub(world.channel)))[0] == "UNAVAILABLE"
