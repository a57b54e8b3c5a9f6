"""StartReplacement and CancelReplacement over gRPC: the contract's promises, bad requests, a process that is killed."""

import json
import os
import random
import signal
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration

from tests.builders.actuator import sql_store
from tests.builders.actuator_processes import running
from tests.builders.actuator_service import SETTINGS, Service, refusal
from tests.builders.kubernetes import listed
from tests.builders.metrics import REPLACEMENTS, check_page
from tests.builders.places import move
from tests.builders.replacements import BIG, NEW, wasteful_cluster, wave
from tests.builders.waiting import LIMIT_S
from trimtab.actuator.cloud.provider import CloudError
from trimtab.clients.actuator_client import ActuatorClient
from trimtab.clients.simulation.cluster.faults import Fault
from trimtab.common.rpc.errors import Reason, TrimtabError
from trimtab.v1 import actuator_pb2, reason_pb2

Stage, Why = actuator_pb2.ReplacementStage, reason_pb2.ReplacementReason
Request = actuator_pb2.StartReplacementRequest


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    service = Service(objects=wasteful_cluster(), store=sql_store(tmp_path / "store.sqlite")())
    yield service
    service.close()


@pytest.fixture(scope="module")
def unchanged() -> Iterator[Service]:
    """Yield a service for requests that change nothing."""
    service = Service(objects=wasteful_cluster())
    yield service
    service.close()


def order(client: ActuatorClient, request_id: str = "w1") -> Request:
    """Return the request that replaces the large nodes; the plan assumes the pods that an embedded cluster has."""
    uids: dict[str, list[str]] = {name: [] for name in BIG}
    pods: dict[str, list[str]] = {name: [] for name in BIG}
    for item in json.loads(client.list_objects())["items"]:
        node = item["spec"].get("nodeName") if item["kind"] == "Pod" else None
        if node in uids:
            uids[node].append(item["metadata"]["uid"])
            pods[node].append(f"default/{item['metadata']['name']}")
    return Request(request_id=request_id, wave=wave(uids, pods))


def ended(client: ActuatorClient, request_id: str = "w1") -> actuator_pb2.Replacement:
    """Watch until a replacement has ended."""
    for status in client.watch_status():
        for one in status.replacements:
            if one.request_id == request_id and one.stage in (Stage.DONE, Stage.FAILED, Stage.CANCELLED):
                return one
    raise AssertionError("the stream ended")


def test_nodes_are_replaced_and_watchers_see_how(service: Service) -> None:
    seen: list[int] = []
    answer = service.client.start_replacement(order(service.client))
    assert (answer.accepted, answer.reason) == (True, Why.UNSPECIFIED)
    for status in service.client.watch_status():
        (one,) = status.replacements
        seen.append(one.stage)
        if one.stage >= Stage.DONE:
            break
    assert seen == sorted(seen)
    assert one.stage == Stage.DONE
    assert one.achieved_saving_per_hour == pytest.approx(0.8)
    sizes = {group.id: group.target_size for group in service.client.get_status().node_groups}
    assert sizes == {"big": 0, "small": 2, "spare": 0, "dear": 0}
    assert list(service.client.get_status(without_finished=True).replacements) == [one]


def test_the_same_request_starts_nothing_twice(service: Service) -> None:
    request = order(service.client)
    assert service.client.start_replacement(request).accepted
    assert service.client.start_replacement(request).accepted
    ended(service.client)
    assert service.client.start_replacement(request).accepted
    assert len(service.client.get_status().replacements) == 1
    other = order(service.client)
    other.wave.leaving[0].price_per_hour += 1
    error = refusal(lambda: service.client.start_replacement(other))
    assert (error.code, error.reason) == (grpc.StatusCode.ALREADY_EXISTS, Reason.REQUEST_ID_REUSED)


def test_a_caller_that_no_longer_leads_is_refused(service: Service) -> None:
    request = order(service.client)
    request.epoch = 5
    assert service.client.start_replacement(request).accepted
    ended(service.client)
    late = Request(request_id="w2", wave=request.wave, epoch=4)
    error = refusal(lambda: service.client.start_replacement(late))
    assert (error.code, error.reason) == (grpc.StatusCode.FAILED_PRECONDITION, Reason.EPOCH_SUPERSEDED)


def test_an_actuator_whose_caller_sets_the_sizes_refuses_to_replace_and_says_what_to_do() -> None:
    settings = replace(SETTINGS, groups=replace(SETTINGS.groups, sized_by_caller=True))
    service = Service(settings, objects=wasteful_cluster())
    try:
        error = refusal(lambda: service.client.start_replacement(order(service.client)))
        assert (error.code, error.reason) == (grpc.StatusCode.UNIMPLEMENTED, Reason.DECISION_UNAVAILABLE)
        assert "without --serve-externalgrpc" in str(error)
        rpcs = set(service.client.get_info().rpcs)
        status = service.client.get_status()
    finally:
        service.close()
    assert not {"StartReplacement", "LowerTargets"} & rpcs
    assert {"CancelReplacement", "StartDeletion", "ScaleUp"} <= rpcs
    assert not status.replacements
    assert {group.id: group.target_size for group in status.node_groups}["small"] == 0


def test_a_replacement_that_began_is_known_after_the_caller_sets_the_sizes(tmp_path: Path) -> None:
    store = sql_store(tmp_path / "store.sqlite")
    before = Service(objects=wasteful_cluster(), store=store())
    request = order(before.client)
    assert before.client.start_replacement(request).accepted
    ended(before.client)
    before.close()
    settings = replace(SETTINGS, groups=replace(SETTINGS.groups, sized_by_caller=True))
    after = Service(settings, objects=wasteful_cluster(), store=store())
    try:
        assert after.client.start_replacement(request).accepted
    finally:
        after.close()


def test_a_cancelled_replacement_is_rolled_back(service: Service) -> None:
    service.cluster.faults.add(Fault("set_size", error=CloudError("throttled"), times=1_000_000))
    assert service.client.start_replacement(order(service.client)).accepted
    answer = service.client.cancel_replacement(["w1", "nothing"], "an operator")
    assert (list(answer.cancelled), list(answer.not_cancelled)) == (["w1"], ["nothing"])
    service.cluster.faults.clear()
    one = ended(service.client)
    assert (one.stage, one.reason, one.detail) == (Stage.CANCELLED, Why.REPLACEMENT_CANCELLED, "an operator")
    groups = service.client.get_status().node_groups
    assert {group.id: group.target_size for group in groups}["small"] == 0


Change = Callable[[Request], object]
INVALID: dict[str, tuple[str, Change]] = {
    "no id": ("request_id", lambda one: setattr(one, "request_id", "")),
    "a reserved id": ("request_id", lambda one: setattr(one, "request_id", "wave/x")),
    "a negative epoch": ("epoch", lambda one: setattr(one, "epoch", -1)),
    "no node that leaves": ("wave.leaving", lambda one: one.wave.ClearField("leaving")),
    "a node twice": ("wave.leaving", lambda one: one.wave.leaving.append(one.wave.leaving[0])),
    "an invalid node": ("wave.leaving", lambda one: setattr(one.wave.leaving[0], "node", "No Node")),
    "a new node twice": ("wave.new_nodes", lambda one: one.wave.new_nodes.append(one.wave.new_nodes[0])),
    "a new node without group": (
        "wave.new_nodes.node_group", lambda one: setattr(one.wave.new_nodes[0], "node_group", "")
    ),
    "a price below 0": (
        "wave.new_nodes.price_per_hour", lambda one: setattr(one.wave.new_nodes[0], "price_per_hour", -1)
    ),
    "a price that is no number": (
        "wave.leaving.price_per_hour", lambda one: setattr(one.wave.leaving[0], "price_per_hour", float("nan"))
    ),
    "an infinite price": ("prices_per_hour", lambda one: one.prices_per_hour.update({"x": float("inf")})),
    "no saving": ("min_saving_per_hour", lambda one: setattr(one, "min_saving_per_hour", float("nan"))),
    "many alternatives": ("max_alternatives", lambda one: setattr(one, "max_alternatives", 21)),
    "no time": ("ready_timeout", lambda one: one.ready_timeout.CopyFrom(Duration())),
    "much time": ("ready_timeout", lambda one: one.ready_timeout.FromSeconds(86_401)),
    "an impossible time of the plan": ("plan_time", lambda one: one.plan_time.FromSeconds(0) or _break(one)),
    "half an assumption": (
        "wave.leaving.assumption", lambda one: setattr(one.wave.leaving[0].assumption, "pods_to_move_digest", "x")
    ),
    "a pod without destination": (
        "wave.places", lambda one: move(one.wave.places, {one.wave.places.pods[0]: ""})
    ),
    "columns of different lengths": ("wave.places", lambda one: one.wave.places.sources.pop()),
    "a place on a node without a name": ("wave.places", lambda one: one.wave.places.destinations.__setitem__(0, 99)),
    "a node that is new and leaves": (
        "wave.leaving", lambda one: setattr(one.wave.new_nodes[0], "name", BIG[0])
    ),
}  # fmt: skip


def _break(request: Request) -> None:
    request.plan_time.nanos = 2_000_000_000


@pytest.mark.parametrize("case", INVALID)
def test_an_invalid_request_names_the_field(unchanged: Service, case: str) -> None:
    field, change = INVALID[case]
    request = order(unchanged.client)
    change(request)
    error = refusal(lambda: unchanged.client.start_replacement(request))
    assert (error.code, error.reason) == (grpc.StatusCode.INVALID_ARGUMENT, Reason.REQUEST_INVALID)
    assert error.metadata["field"] == field
    assert not unchanged.client.get_status().replacements


def test_nothing_to_cancel_is_invalid(unchanged: Service) -> None:
    error = refusal(lambda: unchanged.client.cancel_replacement([]))
    assert error.metadata["field"] == "request_ids"
    assert refusal(lambda: unchanged.client.cancel_replacement(map(str, range(101)))).metadata["field"] == "request_ids"


@pytest.mark.ci
@pytest.mark.parametrize("lives", [2, pytest.param(8, marks=pytest.mark.nightly)])
def test_a_process_that_is_killed_repeatedly_replaces_each_node_once(tmp_path: Path, lives: int) -> None:
    (tmp_path / "cluster.json").write_text(json.dumps(listed(*wasteful_cluster())))
    chance = random.Random(lives)
    request: Request | None = None
    for life in range(lives + 1):
        with running(tmp_path, "--replace-poll=0.05") as (process, client):
            request = request or order(client)
            try:
                assert client.start_replacement(request).accepted
            except TrimtabError:
                continue
            if life < lives:
                time.sleep(chance.uniform(0.05, 0.7))
                os.kill(process.pid, signal.SIGKILL)
                process.wait()
                continue
            until = time.monotonic() + LIMIT_S
            while client.get_status().replacements[0].stage != Stage.DONE:
                assert time.monotonic() < until, client.get_status().replacements
                time.sleep(0.05)
            check_replaced(client)


def test_replacements_are_measured_under_the_documented_metric_names(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text(json.dumps(listed(*wasteful_cluster())))
    more = ("--replace-poll=0.05", "--metrics-address=127.0.0.1:0", "--log-level=info")
    with running(tmp_path, *more) as (process, client):
        assert process.stderr is not None
        address = next(line for line in map(json.loads, process.stderr) if line["event"] == "listening")
        assert client.start_replacement(order(client)).accepted
        ended(client)
        with urllib.request.urlopen(f"http://{address['metrics_address']}/metrics", timeout=LIMIT_S) as response:
            page = response.read().decode()
    check_page(page, REPLACEMENTS)


def check_replaced(client: ActuatorClient) -> None:
    status = client.get_status()
    assert {group.id: group.target_size for group in status.node_groups} == {
        "big": 0,
        "small": 2,
        "spare": 0,
        "dear": 0,
    }
    assert {one.node for one in status.finished} == set(BIG)
    assert [node.name for node in status.replacements[0].new_nodes] == list(NEW)
    uids = [eviction.uid for eviction in status.recent_evictions]
    assert len(uids) == len(set(uids)) == 6
    items = json.loads(client.list_objects())["items"]
    nodes = [one for one in items if one["kind"] == "Node"]
    assert len(nodes) == 2
    assert not any(one["spec"].get("taints") for one in nodes)
    live = [one for one in items if one["kind"] == "Pod" and not one["metadata"].get("deletionTimestamp")]
    assert len([one for one in live if one["metadata"]["name"].startswith("web")]) == 6
