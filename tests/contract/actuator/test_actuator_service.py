"""The actuator over loopback gRPC: the contract's promises, and every kind of bad request."""

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import grpc
import pytest

from tests.builders.actuator_service import ONCE, SETTINGS, Service, refusal
from tests.builders.waiting import LIMIT_S
from trimtab.actuator.cloud.provider import CloudError
from trimtab.actuator.kube.cluster import ClusterError, ForbiddenError, RefusedError, TooManyRequestsError
from trimtab.actuator.store.records import StoreError
from trimtab.clients.actuator_client import ActuatorClient
from trimtab.clients.simulation.cluster.faults import Fault
from trimtab.common.rpc.errors import Reason
from trimtab.v1 import actuator_pb2, actuator_pb2_grpc, plan_pb2, reason_pb2

State = actuator_pb2.DeletionState
PodCostReason = reason_pb2.PodCostReason


@pytest.fixture
def service() -> Iterator[Service]:
    running = Service()
    yield running
    running.close()


@pytest.fixture(scope="module")
def unchanged() -> Iterator[Service]:
    """Yield a service for requests that change nothing."""
    running = Service()
    yield running
    running.close()


def test_get_info_names_what_is_implemented(service: Service) -> None:
    info = service.client.get_info()
    assert info.cloud == "memory"
    assert info.leader
    assert "StartDeletion" in info.rpcs
    assert "ApplyPodCosts" in info.rpcs


def test_nodes_are_tainted_when_the_call_returns_and_deleted_later(service: Service) -> None:
    service.cluster.faults.add(Fault("evict", error=TooManyRequestsError("a budget")))
    assert service.start("r1", "n0", "n6", "nowhere") == {"n0": "yes", "n6": "yes", "nowhere": "NODE_NOT_FOUND"}
    assert service.cluster.get_node("n0").taints
    service.cluster.faults.clear()
    assert service.wait("n0", "n6") == {"n0": "DELETED", "n6": "DELETED"}
    (group,) = service.client.get_status().node_groups
    assert (group.target_size, group.instance_count, group.deletion_count) == (6, 6, 0)


def test_the_same_request_many_times_at_once_starts_nothing_twice(service: Service) -> None:
    found: list[dict[str, str]] = []
    threads = [threading.Thread(target=lambda: found.append(service.start("r1", "n0", "n1"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [{"n0": "yes", "n1": "yes"}] * 8
    service.wait("n0", "n1")
    assert len(service.client.get_status().finished) == 2


def test_a_request_id_with_other_content_is_refused(service: Service) -> None:
    service.start("r1", "n0")
    error = refusal(lambda: service.start("r1", "n1"))
    assert (error.code, error.reason) == (grpc.StatusCode.ALREADY_EXISTS, Reason.REQUEST_ID_REUSED)
    assert error.metadata == {"request_id": "r1"}


def test_one_node_without_taint_rolls_back_the_set_before_the_call_returns(service: Service) -> None:
    service.cluster.faults.add(Fault("add_taint", "n1", RefusedError("forbidden")))
    assert service.start("r1", "n0", "n1") == {"n0": "SET_ROLLED_BACK", "n1": "FAILED_TO_MARK_TO_BE_DELETED"}
    assert service.cluster.get_node("n0").taints == ()
    service.cluster.faults.clear()
    assert service.start("r2", "n0", "n1") == {"n0": "yes", "n1": "yes"}


def test_limits_count_what_is_in_progress_and_a_request_may_only_lower_them(service: Service) -> None:
    service.cluster.faults.add(Fault("evict", error=ClusterError("busy")))
    assert list(service.start("r1", "n0", "n1", "n2", max_drain_parallelism=2).values()).count("LIMIT_EXCEEDED") == 1
    assert list(service.start("r2", "n3", "n4", "n5", max_drain_parallelism=99).values()).count("yes") == 2


def test_empty_nodes_do_not_wait_behind_drains(service: Service) -> None:
    answered = threading.Event()

    def wait(operation: str, subject: str) -> None:
        if operation == "evict":
            assert answered.wait(LIMIT_S)

    # As many as there are threads for drains.
    drained = ["n0", "n1", "n2", "n3"]
    service.cluster.faults.before = wait
    try:
        service.start("r1", *drained)
        service.start("r2", "n6", "n7", drain=False)
        service.wait("n6", "n7")
        assert [d.node for d in service.client.get_status().deletions] == drained
    finally:
        answered.set()


def test_a_cancelled_deletion_gives_its_node_back_before_the_call_returns(service: Service) -> None:
    service.cluster.faults.add(Fault("evict", error=ClusterError("busy")))
    service.start("r1", "n0")
    response = service.client.cancel_deletion(["n0", "n5"], "changed my mind")
    assert (list(response.cancelled), list(response.not_cancelled)) == (["n0"], ["n5"])
    assert service.cluster.get_node("n0").taints == ()
    (deletion,) = service.client.get_status().finished
    assert (deletion.state, deletion.detail) == (State.CANCELLED, "changed my mind")


def split(group: str = "g", now: int = 8, then: int = 10) -> plan_pb2.ScaleUpSplit:
    return plan_pb2.ScaleUpSplit(node_group=group, current_size=now, new_size=then)


def test_growth_is_made_once_for_each_request(service: Service) -> None:
    for _ in range(3):
        response = service.client.scale_up("g1", [split()])
        assert [(answer.node_group, answer.accepted) for answer in response.splits] == [("g", True)]
    assert service.client.get_status().node_groups[0].target_size == 10


def test_growth_beyond_the_maximum_or_of_an_unknown_group_is_answered_not_raised(service: Service) -> None:
    response = service.client.scale_up("g1", [split(then=9), split("nowhere"), split("h")])
    assert [answer.accepted for answer in response.splits] == [True, False, False]
    assert "does not exist" in response.splits[1].detail
    response = service.client.scale_up("g2", [split(now=9, then=100)])
    assert "exceeds the maximum" in response.splits[0].detail
    assert response.splits[0].reason == reason_pb2.GrowthReason.REFUSED


def test_orders_of_a_leader_that_was_replaced_are_refused(service: Service) -> None:
    old, new = service.client, ActuatorClient(service.shell.address, ONCE)
    old.epoch, new.epoch = lambda: 4, lambda: 5
    assert old.scale_up("g1", [split()]).splits[0].accepted
    assert new.start_deletion(deletion("r1", "n6")).nodes[0].accepted
    for order in (
        lambda: old.scale_up("g2", [split(now=10, then=11)]),
        lambda: old.start_deletion(deletion("r2", "n7")),
    ):
        error = refusal(order)
        assert (error.code, error.reason) == (grpc.StatusCode.FAILED_PRECONDITION, Reason.EPOCH_SUPERSEDED)
        assert error.metadata["epoch"] == "5"
    # Anybody may ask for the result of an accepted order.
    assert old.start_deletion(deletion("r1", "n6")).nodes[0].accepted
    assert new.scale_up("g1", [split()]).splits[0].accepted
    new.close()


def test_growth_from_a_size_that_the_group_does_not_have_is_refused(service: Service) -> None:
    response = service.client.scale_up("g1", [split(now=9999, then=10_000)])
    assert response.splits[0].reason == reason_pb2.GrowthReason.SIZE_CHANGED
    assert service.client.get_status().node_groups[0].target_size == 8


def test_a_target_is_lowered_only_by_nodes_that_have_not_started(service: Service) -> None:
    one = actuator_pb2.TargetReduction(node_group="g", current_size=8, new_size=7)
    answers = service.client.lower_targets("l1", [one]).reductions
    assert [(one.node_group, one.accepted, one.reason) for one in answers] == [
        ("g", False, reason_pb2.GrowthReason.REFUSED)
    ]
    assert service.client.get_status().node_groups[0].target_size == 8
    assert "LowerTargets" in service.client.get_info().rpcs


def test_a_scale_up_without_an_answer_of_the_cloud_can_be_queried(service: Service) -> None:
    service.cluster.faults.add(Fault("set_size", error=CloudError("timeout"), times=5))
    response = service.client.scale_up("g1", [split()])
    assert response.splits[0].accepted
    assert service.client.get_status().node_groups[0].target_size == 10


def test_soft_taints_follow_the_unneeded_set_within_the_bound() -> None:
    service = Service(replace(SETTINGS, soft_taints=replace(SETTINGS.soft_taints, max_count=2)))
    try:
        response = service.client.apply_taints(["n0", "n1", "n2", "gone"])
        assert (response.tainted_count, response.untainted_count, response.left_count) == (2, 0, 1)
        response = service.client.apply_taints(["n0", "n1", "n2"])
        assert (response.tainted_count, response.left_count) == (1, 0)
        response = service.client.apply_taints(["n2", "n3"])
        assert (response.tainted_count, response.untainted_count, response.left_count) == (0, 2, 1)
    finally:
        service.close()


def test_the_embedded_cluster_lists_its_objects_as_they_are_now(service: Service) -> None:
    before = json.loads(service.client.list_objects())
    service.start("r1", "n0")
    service.wait("n0")
    after = json.loads(service.client.list_objects())
    names = {(o["kind"], o["metadata"]["name"]) for o in after["items"]}
    assert after["kind"] == "List"
    assert ("Node", "n0") in {(o["kind"], o["metadata"]["name"]) for o in before["items"]}
    assert ("Node", "n0") not in names
    group = next(o for o in after["items"] if o["kind"] == "NodeGroup")
    assert group["spec"]["targetSize"] == 7
    assert "n0" not in group["spec"]["nodes"]


def test_a_replica_set_of_the_embedded_cluster_can_be_scaled(service: Service) -> None:
    listed = json.loads(service.client.list_objects())["items"]
    owner = next(one for one in listed if one["kind"] == "ReplicaSet")["metadata"]
    service.client.scale_replica_set(owner["namespace"], owner["name"], 0)
    after = json.loads(service.client.list_objects())["items"]
    (scaled,) = [one for one in after if one["kind"] == "ReplicaSet" and one["metadata"]["name"] == owner["name"]]
    assert scaled["spec"]["replicas"] == 0
    error = refusal(lambda: service.client.scale_replica_set("default", "nothing", 1))
    assert (error.code, error.reason) == (grpc.StatusCode.NOT_FOUND, Reason.NOT_FOUND)
    for size in (-1, 10_001):
        error = refusal(lambda size=size: service.client.scale_replica_set(owner["namespace"], owner["name"], size))
        assert (error.code, error.reason) == (grpc.StatusCode.INVALID_ARGUMENT, Reason.REQUEST_INVALID)
        assert "replicas" in error.message


def test_pod_costs_are_written_once_and_what_cannot_be_written_is_reported(service: Service) -> None:
    service.cluster.faults.add(Fault("write_pod_cost", "default/web-1", ForbiddenError("pods are forbidden")))
    costs = {"default/web-0": 7, "default/web-1": 8, "default/gone": 9}
    groups = [plan_pb2.PodCostGroup(owner="ReplicaSet/default/web", pods=costs, costs=costs.values())]
    for written, unchanged in ((1, 0), (0, 1)):
        response = service.client.apply_pod_costs(groups)
        assert (response.written_count, response.unchanged_count, response.failed_count) == (written, unchanged, 2)
        assert [(one.pod, PodCostReason.Code.Name(one.reason)) for one in response.failures] == [
            ("default/gone", "POD_NOT_FOUND"),
            ("default/web-1", "FORBIDDEN"),
        ]


def test_a_cancelled_deletion_may_be_cancelled_again(service: Service) -> None:
    service.cluster.faults.add(Fault("evict", error=TooManyRequestsError("a budget")))
    service.start("r1", "n0")
    for _ in range(3):
        response = service.client.cancel_deletion(["n0", "n1"])
        assert (list(response.cancelled), list(response.not_cancelled)) == (["n0"], ["n1"])


def test_an_unreachable_cluster_is_unavailable_and_nothing_is_decided(service: Service) -> None:
    service.cluster.faults.add(Fault("list_pods", error=ClusterError("connection refused"), times=1))
    error = refusal(lambda: service.start("r1", "n0"))
    assert (error.code, error.reason) == (grpc.StatusCode.UNAVAILABLE, Reason.BACKEND_UNAVAILABLE)
    assert service.start("r1", "n0") == {"n0": "yes"}


def test_when_the_store_fails_all_work_stops_and_the_process_ends(service: Service) -> None:
    told = threading.Event()
    service.actuator.on_broken = told.set

    def fail(first_seq: int, records: object) -> None:
        raise StoreError("disk full")

    service.store.append = fail  # type: ignore[method-assign, assignment]
    error = refusal(lambda: service.start("r1", "n0"))
    assert (error.code, error.reason) == (grpc.StatusCode.UNAVAILABLE, Reason.BACKEND_UNAVAILABLE)
    assert error.message == "the actuator's store has failed; its log says why"
    assert told.wait(LIMIT_S)
    assert service.cluster.get_node("n0").taints == ()
    assert refusal(service.client.get_status).reason == Reason.BACKEND_UNAVAILABLE


def deletion(request_id: str = "r1", *nodes: str, **more: Any) -> actuator_pb2.StartDeletionRequest:
    entries = [actuator_pb2.NodeToDelete(node=node, drain=True) for node in nodes]
    return actuator_pb2.StartDeletionRequest(request_id=request_id, nodes=entries, **more)


def lowering(request_id: str, current: int, new: int) -> actuator_pb2.LowerTargetsRequest:
    one = actuator_pb2.TargetReduction(node_group="g", current_size=current, new_size=new)
    return actuator_pb2.LowerTargetsRequest(request_id=request_id, reductions=[one])


def assuming(count: int, digest: str) -> actuator_pb2.StartDeletionRequest:
    request = deletion("r1", "n0")
    request.nodes[0].assumption.CopyFrom(plan_pb2.NodeAssumption(pods_to_move_count=count, pods_to_move_digest=digest))
    return request


@pytest.mark.parametrize(
    ("request_", "names"),
    [
        pytest.param(deletion("", "n0"), "request_id", id="no request id"),
        pytest.param(deletion("externalgrpc/7", "n0"), "reserved", id="an id of an autoscaler's orders"),
        pytest.param(deletion("registration/7", "n0"), "reserved", id="an id of the upkeep of groups"),
        pytest.param(deletion("x" * 129, "n0"), "129 bytes", id="request id too long"),
        pytest.param(deletion("ü" * 65, "n0"), "130 bytes", id="request id too long in bytes"),
        pytest.param(deletion("r1"), "nodes is empty", id="no nodes"),
        pytest.param(deletion("r1", "n0", ""), "nodes[1]", id="node without name"),
        pytest.param(deletion("r1", "n" * 254), "nodes[0]", id="node name too long"),
        pytest.param(
            deletion("r1", "../namespaces/kube-system/secrets/token"), "not the name of a node", id="a path for a node"
        ),
        pytest.param(
            actuator_pb2.CancelDeletionRequest(nodes=["n0?watch=1"]), "not the name of a node", id="a query for a node"
        ),
        pytest.param(
            actuator_pb2.ApplyTaintsRequest(unneeded_nodes=[".."]), "not the name of a node", id="dots for a node"
        ),
        pytest.param(
            actuator_pb2.ApplyPodCostsRequest(remove=["../pods/web"]), "is not a pod", id="a path for a namespace"
        ),
        pytest.param(deletion("r1", "n0", "n1", "n0"), "nodes[2]: n0 was given before, at 0", id="node twice"),
        pytest.param(deletion("r1", *map(str, range(10_001))), "10001 entries", id="too many nodes"),
        pytest.param(deletion("r1", "n0", max_parallelism=-1), "max_parallelism", id="negative limit"),
        pytest.param(
            deletion("r1", "n0", max_drain_parallelism=-1), "max_drain_parallelism", id="negative drain limit"
        ),
        pytest.param(deletion("r1", "n0", plan_time={"seconds": 1 << 60}), "plan_time", id="a time beyond all times"),
        pytest.param(
            actuator_pb2.StartDeletionRequest(request_id="r", nodes=[actuator_pb2.NodeToDelete(node="n0", gang="a/g")]),
            "nodes[0] (n0): gang needs drain",
            id="gang without drain",
        ),
        pytest.param(
            actuator_pb2.StartDeletionRequest(
                request_id="r", nodes=[actuator_pb2.NodeToDelete(node="n0", drain=True, gang="g" * 508)]
            ),
            "more than 507 bytes",
            id="a gang with too long a name",
        ),
        pytest.param(assuming(-1, "0" * 16), "assumption", id="negative count"),
        pytest.param(assuming(1, "0" * 15), "assumption", id="digest too short"),
        pytest.param(assuming(1, "G" * 16), "assumption", id="digest not hexadecimal"),
        pytest.param(actuator_pb2.CancelDeletionRequest(), "nodes is empty", id="cancel nothing"),
        pytest.param(actuator_pb2.CancelDeletionRequest(nodes=["a", "a"]), "given before", id="cancel twice"),
        pytest.param(actuator_pb2.ScaleUpRequest(request_id="g1"), "splits is empty", id="grow nothing"),
        pytest.param(actuator_pb2.ScaleUpRequest(splits=[split()]), "request_id", id="growth without id"),
        pytest.param(
            actuator_pb2.ScaleUpRequest(request_id="replacement/3", splits=[split()]), "reserved", id="a reserved id"
        ),
        pytest.param(
            actuator_pb2.ScaleUpRequest(request_id="g", splits=[split(then=8)]), "not a growth", id="not a growth"
        ),
        pytest.param(actuator_pb2.ScaleUpRequest(request_id="g", splits=[split(now=-2)]), "not a growth", id="size -2"),
        pytest.param(
            actuator_pb2.ScaleUpRequest(request_id="g", splits=[split(), split()]), "before", id="group twice"
        ),
        pytest.param(actuator_pb2.LowerTargetsRequest(request_id="l"), "reductions is empty", id="lower nothing"),
        pytest.param(lowering("l", 8, 8), "not a reduction", id="not a reduction"),
        pytest.param(lowering("l", 8, -1), "not a reduction", id="below 0 nodes"),
        pytest.param(lowering("l", 0, 0), "not a reduction", id="a reduction from nothing"),
        pytest.param(lowering("lowering/1", 8, 7), "reserved", id="a reserved id of a reduction"),
        pytest.param(lowering("", 8, 7), "request_id", id="a reduction without id"),
        pytest.param(actuator_pb2.ApplyTaintsRequest(unneeded_nodes=["a", "a"]), "given before", id="soft taint twice"),
    ],
)
def test_a_bad_request_names_what_is_wrong_and_the_next_call_works(
    unchanged: Service, request_: Any, names: str
) -> None:
    method = type(request_).__name__.removesuffix("Request")
    stub = getattr(actuator_pb2_grpc.ActuatorStub(unchanged.client._channel), method)
    from trimtab.common.rpc.client import invoke

    error = refusal(lambda: invoke(lambda: stub(request_), ONCE))
    assert (error.code, error.reason) == (grpc.StatusCode.INVALID_ARGUMENT, Reason.REQUEST_INVALID)
    assert names in error.message
    assert error.metadata["field"]
    assert unchanged.client.get_status().revision == 0


@pytest.mark.parametrize("size", [1, 10, 1000, 100_000])
def test_random_bytes_are_refused_and_the_next_call_works(unchanged: Service, size: int) -> None:
    import random

    noise = b"\xff" + random.Random(size).randbytes(size)
    raw = unchanged.client._channel.unary_unary("/trimtab.v1.Actuator/StartDeletion")
    with pytest.raises(grpc.RpcError) as caught:
        raw(noise)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT  # type: ignore[attr-defined]
    assert unchanged.client.get_status().revision == 0


def test_a_message_beyond_the_limit_is_refused(unchanged: Service) -> None:
    raw = unchanged.client._channel.unary_unary("/trimtab.v1.Actuator/StartDeletion")
    with pytest.raises(grpc.RpcError) as caught:
        raw(b"x" * (5 << 20))
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED  # type: ignore[attr-defined]
