"""Recorded calls of a real Cluster Autoscaler, byte for byte, to our services: answered as when recorded, and as it
needs.

The state follows from the calls themselves: groups grow and shrink by what was asked then.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

import grpc
import pytest
from opentelemetry.metrics import NoOpMeter

from tests.builders.clouds import SETTINGS, Clock
from tests.builders.json_api import JsonApiServer
from tests.builders.tiers import ci_but
from tests.builders.waiting import LIMIT_S
from tests.parity.cluster_autoscaler_conversations.conversation import DATA, Call, Conversation, read
from trimtab.actuator.cloud.kwok.cloud import KwokCloud
from trimtab.actuator.cloud.kwok.groups import read_group
from trimtab.actuator.cloud.table import KwokSettings
from trimtab.actuator.kube.live import KubeCluster
from trimtab.actuator.service.app import Actuator
from trimtab.actuator.service.external.servicer import SERVICE as PROVIDER
from trimtab.actuator.service.external.servicer import external_registration
from trimtab.actuator.store.records import MemoryStore
from trimtab.clusterautoscaler import expander_pb2 as ca
from trimtab.clusterautoscaler import expander_pb2_grpc
from trimtab.clusterautoscaler.externalgrpc import cloud_provider_pb2 as pb
from trimtab.common.rpc.client import connect
from trimtab.common.rpc.server import Registration, ServerSettings, Shell
from trimtab.k8s.v1 import core_pb2
from trimtab.planner.expander.question import LastPlans
from trimtab.planner.expander.servicer import SERVICE as EXPANDER
from trimtab.planner.expander.servicer import ExpanderServicer
from trimtab.planner.process import MAX_MESSAGE_BYTES
from trimtab.planner.service.request_limits import RequestMemory
from trimtab.planner.service.settings import ExpanderOptions, PlannerOptions

MOST_BYTES = 4 << 20
CHANGES = ("NodeGroupIncreaseSize", "NodeGroupDeleteNodes", "NodeGroupDecreaseTargetSize")
# Answers without anything that passes with time: the same bytes each time.
TIMELESS = (
    *CHANGES, "Cleanup", "GPULabel", "GetAvailableGPUTypes", "NodeGroupGetOptions", "NodeGroupTemplateNodeInfo",
    "PricingNodePrice", "PricingPodPrice", "Refresh",
)  # fmt: skip
Send = Callable[[Call], tuple[str, bytes]]
names = sorted(path.name.removesuffix(".jsonl.gz") for path in DATA.glob("*.jsonl.gz"))
conversation = cache(read)
IN_SUITE = ("grpc", "price")
"""Recordings of the newest Cluster Autoscaler."""
EACH_RECORDING = pytest.mark.parametrize("name", ci_but(IN_SUITE, names))


class Answered(NamedTuple):
    """A recorded call with our answer of today; `steady` : nothing was being changed when it was made."""

    call: Call
    code: str
    answer: bytes
    steady: bool


def sender(channel: grpc.Channel) -> Send:
    """Return a function that sends the bytes of a call."""

    def send(call: Call) -> tuple[str, bytes]:
        unary: Any = channel.unary_unary(call.method, bytes, bytes)
        try:
            return "OK", unary(call.request, timeout=LIMIT_S)
        except grpc.RpcError as error:
            return error.code().name, b""

    return send


@contextmanager
def provider(talk: Conversation) -> Iterator[tuple[Send, Callable[[], None]]]:
    """An actuator with the conversation's groups in the cloud kwok; the second lets machines start and end."""
    with JsonApiServer() as server:
        clock = Clock()
        groups = {group.name: group for group in map(read_group, talk.header["groups"])}
        cloud = KwokCloud(server.api(), groups, KwokSettings(node_start_s=1, instance_delete_s=1), clock, clock)
        cloud.open()
        actuator = Actuator(MemoryStore(), KubeCluster(server.api()), cloud, NoOpMeter("test"), SETTINGS)

        def settle() -> None:
            clock.now_s += 2
            cloud.resync()

        with Shell("provider", [external_registration(actuator)], ServerSettings()) as shell:
            actuator.start()
            with connect(shell.address) as channel:
                yield sender(channel), settle
            actuator.stop()


@contextmanager
def expander(chain: str) -> Iterator[Send]:
    """A planner with this chain that has made no plan yet."""
    limits = PlannerOptions()
    options = ExpanderOptions(expander_chain=chain)
    servicer = ExpanderServicer(LastPlans(), options, limits, RequestMemory(limits.max_request_memory))
    registration = Registration(expander_pb2_grpc.add_ExpanderServicer_to_server, servicer, EXPANDER)
    settings = ServerSettings(max_message_bytes=MAX_MESSAGE_BYTES)
    with Shell("expander", [registration], settings) as shell, connect(shell.address) as channel:
        yield sender(channel)


def calls_of(talk: Conversation, service: str) -> list[Call]:
    return [call for call in talk.calls if call.method.startswith(f"/{service}/")]


@cache
def replayed(name: str) -> list[Answered]:
    """Repeat the calls to the provider one by one."""
    talk = conversation(name)
    calls = calls_of(talk, PROVIDER)
    spans = [(one.at_ms, one.at_ms + one.took_ms) for one in calls if one.name in CHANGES]
    found = []
    with provider(talk) as (send, settle):
        settle()
        for call in calls:
            if call.name == "Refresh":
                settle()
            end_ms = call.at_ms + call.took_ms
            steady = not any(begin <= end_ms and call.at_ms <= end for begin, end in spans)
            found.append(Answered(call, *send(call), steady))
    return found


def deleted_before(answered: list[Answered]) -> Iterator[tuple[Answered, set[str]]]:
    """Yield each call to the provider with the instances that were deleted before it."""
    deleted: set[str] = set()
    for one in answered:
        yield one, deleted
        if one.call.name == "NodeGroupDeleteNodes":
            deleted |= {node.provider_id for node in pb.NodeGroupDeleteNodesRequest.FromString(one.call.request).nodes}


@EACH_RECORDING
def test_every_call_has_the_status_that_it_had(name: str) -> None:
    assert [(one.call.name, one.code) for one in replayed(name)] == [
        (call.name, call.code) for call in calls_of(conversation(name), PROVIDER)
    ]


@EACH_RECORDING
def test_answers_that_do_not_depend_on_time_are_the_same_bytes(name: str) -> None:
    for one in replayed(name):
        if one.call.name in TIMELESS:
            assert one.answer == one.call.answer, one.call.name


@EACH_RECORDING
def test_groups_and_sizes_are_those_of_the_recording(name: str) -> None:
    sizes = 0
    for one in replayed(name):
        if one.call.name == "NodeGroups":
            then, now = (pb.NodeGroupsResponse.FromString(data).node_groups for data in (one.call.answer, one.answer))
            assert [(group.id, group.min_size, group.max_size) for group in now] == [
                (group.id, group.min_size, group.max_size) for group in then
            ]
            assert all(group.debug for group in now)
        elif one.call.name == "NodeGroupTargetSize" and one.steady:
            sizes += 1
            assert one.answer == one.call.answer, one.call
    assert sizes > 10


@EACH_RECORDING
def test_nodes_and_instances_are_those_of_the_recording(name: str) -> None:
    for one, deleted in deleted_before(replayed(name)):
        if one.call.name == "NodeGroupForNode" and one.steady:
            node = pb.NodeGroupForNodeRequest.FromString(one.call.request).node
            then, now = (pb.NodeGroupForNodeResponse.FromString(data) for data in (one.call.answer, one.answer))
            assert now.node_group.id == then.node_group.id or node.provider_id in deleted, node
        elif one.call.name == "NodeGroupNodes" and one.steady:
            found = pb.NodeGroupNodesResponse.FromString(one.answer).instances
            then_ids = {instance.id for instance in pb.NodeGroupNodesResponse.FromString(one.call.answer).instances}
            assert {instance.id for instance in found} ^ then_ids <= deleted
            # A state that is not set would be read as "running".
            assert all(instance.status.instance_state for instance in found)


@EACH_RECORDING
def test_answers_have_what_the_cluster_autoscaler_cannot_do_without(name: str) -> None:
    """An empty template makes it exit, and an omitted field of the options counts as 0."""
    for one in replayed(name):
        assert len(one.answer) < MOST_BYTES
        if one.call.name == "NodeGroupTemplateNodeInfo":
            template = pb.NodeGroupTemplateNodeInfoResponse.FromString(one.answer)
            node = core_pb2.Node.FromString(template.node_bytes)
            assert {entry.key for entry in node.status.allocatable} >= {"cpu", "memory", "pods"}
            assert "kubernetes.io/hostname" in {label.key for label in node.metadata.labels}
        elif one.call.name == "NodeGroupGetOptions" and one.answer:
            options = pb.NodeGroupAutoscalingOptionsResponse.FromString(one.answer).node_group_autoscaling_options
            assert options.scale_down_utilization_threshold > 0
            assert options.scale_down_unneeded_duration.seconds > 0
            assert options.scale_down_unready_duration.seconds > 0
            assert options.max_node_provision_duration.seconds > 0


def test_the_recordings_have_what_they_are_for() -> None:
    made = {call.name for name in names for call in calls_of(conversation(name), PROVIDER)}
    # The Cluster Autoscaler lowers a target size only where instances are missing from the list for 15 minutes.
    assert made == {method.name for method in pb.DESCRIPTOR.services_by_name["CloudProvider"].methods} - {
        "NodeGroupDecreaseTargetSize"
    }
    options = [answer for name in IN_SUITE for answer in replayed(name) if answer.call.name == "NodeGroupGetOptions"]
    assert {bool(one.answer) for one in options} == {False, True}


@pytest.mark.parametrize("chain", ["least-waste", "balanced", "cheapest-plan,price", "price", "most-pods,least-nodes"])
def test_questions_to_the_expander_are_read_and_never_vetoed(chain: str) -> None:
    asked = [call for name in names for call in calls_of(conversation(name), EXPANDER)]
    assert asked
    with expander(chain) as send:
        for call in asked:
            code, data = send(call)
            offered = [option.node_group_id for option in ca.BestOptionsRequest.FromString(call.request).options]
            left = [option.node_group_id for option in ca.BestOptionsResponse.FromString(data).options]
            assert code == "OK"
            assert left
            assert set(left) <= set(offered)


def test_the_expander_chooses_what_it_chose_when_it_was_recorded() -> None:
    calls = calls_of(conversation("grpc"), EXPANDER)
    with expander("least-waste") as send:
        assert [send(call) for call in calls] == [("OK", call.answer) for call in calls]
