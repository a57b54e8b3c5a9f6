"""Taints, pods and evictions with an API server that fails, reports conflicts and forbids calls."""

import json
import threading
from collections.abc import Iterator

import pytest

from tests.builders.json_api import Fault, JsonApiServer
from trimtab.actuator.kube.cluster import (
    NO_SCHEDULE,
    ClusterError,
    ConflictError,
    CostWrite,
    ForbiddenError,
    ForeignCostError,
    GroupCost,
    GroupCostStatus,
    InvalidError,
    KnownBuffer,
    KnownGroupCost,
    NotFoundError,
    NotLeaderError,
    NotServedError,
    RefusedError,
    TaintView,
    TooManyRequestsError,
)
from trimtab.actuator.kube.live import KubeCluster
from trimtab.actuator.settings import KubeSettings
from trimtab.common.kubernetes.errors import MissingPermissionError
from trimtab.common.kubernetes.names import HARD_TAINT_KEY, SOFT_TAINT_KEY
from trimtab.common.kubernetes.permissions import require
from trimtab.common.kubernetes.registry import User, rules_of

FIVE = CostWrite(5, "2026-01-01T00:00:00Z")
HARD = TaintView(HARD_TAINT_KEY, "1700000000", NO_SCHEDULE)


@pytest.fixture
def server() -> Iterator[JsonApiServer]:
    with JsonApiServer() as started:
        started.put("/api/v1/nodes", {"metadata": {"name": "n1"}, "spec": {"providerID": "x://n1"}})
        yield started


def put_pod(server: JsonApiServer, name: str, **more: object) -> None:
    owner = {"kind": "ReplicaSet", "name": "web", "uid": "rs", "controller": True}
    meta = {"name": name, "namespace": "ns", "ownerReferences": [{"kind": "X", "name": "x", "uid": "x"}, owner]}
    spec = {"nodeName": "n1", "priority": 7, "terminationGracePeriodSeconds": 9, **more}
    server.put("/api/v1/namespaces/ns/pods", {"metadata": meta, "spec": spec, "status": {"phase": "Running"}})


def test_a_taint_is_added_once_and_taken_away_again(server: JsonApiServer) -> None:
    cluster = KubeCluster(server.api())
    assert [cluster.add_taint("n1", HARD) for _ in range(2)] == [True, False]
    assert cluster.get_node("n1").taints == (HARD,)
    assert [cluster.remove_taint("n1", HARD_TAINT_KEY) for _ in range(2)] == [True, False]
    assert cluster.get_node("n1").taints == ()
    assert "unschedulable" not in server.objects["/api/v1/nodes/n1"]["spec"]


def test_other_taints_stay_as_they_are(server: JsonApiServer) -> None:
    other = {"key": "other", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}
    server.put("/api/v1/nodes", {"metadata": {"name": "n1"}, "spec": {"taints": [other]}})
    cluster = KubeCluster(server.api())
    cluster.add_taint("n1", HARD)
    cluster.add_taint("n1", TaintView(SOFT_TAINT_KEY, "1", "PreferNoSchedule"))
    cluster.remove_taint("n1", HARD_TAINT_KEY)
    left = server.objects["/api/v1/nodes/n1"]["spec"]["taints"]
    assert left == [other, {"key": SOFT_TAINT_KEY, "value": "1", "effect": "PreferNoSchedule"}]


def test_cordoning_comes_and_goes_with_the_hard_taint(server: JsonApiServer) -> None:
    cluster = KubeCluster(server.api(), KubeSettings(cordon=True))
    cluster.add_taint("n1", TaintView(SOFT_TAINT_KEY, "1", "PreferNoSchedule"))
    assert "unschedulable" not in server.objects["/api/v1/nodes/n1"]["spec"]
    cluster.add_taint("n1", HARD)
    assert server.objects["/api/v1/nodes/n1"]["spec"]["unschedulable"] is True
    cluster.remove_taint("n1", HARD_TAINT_KEY)
    assert server.objects["/api/v1/nodes/n1"]["spec"]["unschedulable"] is False


def test_a_node_that_another_client_cordoned_stays_so_when_the_taint_is_taken_back(server: JsonApiServer) -> None:
    server.put("/api/v1/nodes", {"metadata": {"name": "n1"}, "spec": {"unschedulable": True}})
    cluster = KubeCluster(server.api(), KubeSettings(cordon=True))
    cluster.add_taint("n1", HARD)
    cluster.remove_taint("n1", HARD_TAINT_KEY)
    assert server.objects["/api/v1/nodes/n1"]["spec"] == {"unschedulable": True, "taints": []}


def test_a_node_that_another_autoscaler_cordoned_with_its_taint_is_uncordoned_with_it(server: JsonApiServer) -> None:
    server.put("/api/v1/nodes", {"metadata": {"name": "n1"}, "spec": {"unschedulable": True}})
    cluster = KubeCluster(server.api())
    cluster.add_taint("n1", HARD)
    assert cluster.remove_taint("n1", HARD_TAINT_KEY, uncordon=True)
    assert server.objects["/api/v1/nodes/n1"]["spec"] == {"unschedulable": False, "taints": []}


def test_a_node_that_was_cordoned_is_uncordoned_whatever_the_setting_says_by_then(server: JsonApiServer) -> None:
    server.put("/api/v1/nodes", {"metadata": {"name": "n1", "annotations": {"a": "b"}}})
    KubeCluster(server.api(), KubeSettings(cordon=True)).add_taint("n1", HARD)
    KubeCluster(server.api()).remove_taint("n1", HARD_TAINT_KEY)
    assert server.objects["/api/v1/nodes/n1"]["spec"] == {"unschedulable": False, "taints": []}
    assert server.objects["/api/v1/nodes/n1"]["metadata"]["annotations"] == {"a": "b"}


@pytest.mark.parametrize("count", [3, 25], ids=["read one by one", "read by namespace"])
def test_pod_costs_are_read_written_and_taken_away(
    server: JsonApiServer, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trimtab.actuator.kube.api.PAGE", 10)
    cluster = KubeCluster(server.api())
    for number in range(count):
        put_pod(server, f"p{number}")
    keys = [f"ns/p{number}" for number in range(1, count + 1)]
    found = cluster.pod_costs(keys)
    assert sorted(found) == sorted(keys[:-1])
    assert found["ns/p1"].owner == "ReplicaSet/ns/web"
    cluster.write_pod_cost(found["ns/p1"], FIVE)
    assert cluster.pod_costs(keys)["ns/p1"][3:6] == ("5", "-5", FIVE.made)
    assert [pod.key for pod in cluster.own_pod_costs()] == ["ns/p1"]
    for unfinished in (True, False):
        cluster.write_pod_cost(found["ns/p1"], FIVE._replace(unfinished=unfinished))
        assert cluster.pod_costs(keys)["ns/p1"].unfinished is unfinished
    cluster.write_pod_cost(found["ns/p1"], None)
    assert cluster.pod_costs(keys)["ns/p1"][3:6] == (None, None, None)
    assert not cluster.own_pod_costs()
    with pytest.raises(NotFoundError):
        cluster.write_pod_cost(found["ns/p1"]._replace(uid="another"), FIVE)


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param([Fault(500)], id="an error of the server"),
        pytest.param([Fault(503), Fault(504)], id="two errors"),
        pytest.param([Fault(429, retry_after=0)], id="overload"),
        pytest.param([Fault(0)], id="cut before"),
        pytest.param([Fault(0, after=True)], id="cut after it was done"),
        pytest.param([Fault(409)], id="conflict"),
    ],
)
def test_a_taint_is_written_in_spite_of(server: JsonApiServer, faults: list[Fault]) -> None:
    server.fail("PATCH", *faults)
    KubeCluster(server.api()).add_taint("n1", HARD)
    assert server.taints("n1") == [HARD_TAINT_KEY]


def test_a_node_that_changes_again_and_again_is_tainted_in_the_end_and_keeps_what_others_wrote(
    server: JsonApiServer,
) -> None:
    api = server.api()
    real, left = api.call, [1, 2, 3]

    def call(request: object) -> bytes:
        if request.method == "PATCH" and left:  # type: ignore[attr-defined]
            taints = [{"key": f"other-{number}", "effect": "NoSchedule"} for number in range(left.pop(0))]
            server.put("/api/v1/nodes", {"metadata": {"name": "n1"}, "spec": {"taints": taints}})
        return real(request)  # type: ignore[arg-type]

    api.call = call  # type: ignore[method-assign]
    KubeCluster(api).add_taint("n1", HARD)
    assert server.taints("n1") == ["other-0", "other-1", "other-2", HARD_TAINT_KEY]


def test_a_patch_that_is_refused_though_nothing_has_changed_is_not_tried_again(server: JsonApiServer) -> None:
    server.fail("PATCH", *[Fault(422, "a webhook says no")] * 3)
    with pytest.raises(RefusedError, match="a webhook says no"):
        KubeCluster(server.api()).add_taint("n1", HARD)
    assert server.requests.count("PATCH /api/v1/nodes/n1") == 1


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        pytest.param(Fault(403), ForbiddenError, id="forbidden"),
        pytest.param(Fault(404), NotServedError, id="not served"),
        pytest.param(Fault(400), RefusedError, id="bad request"),
    ],
)
def test_permanent_errors_are_not_retried(server: JsonApiServer, fault: Fault, error: type[ClusterError]) -> None:
    server.fail("PATCH", fault)
    with pytest.raises(error, match=str(fault.status)):
        KubeCluster(server.api()).add_taint("n1", HARD)
    assert server.requests.count("PATCH /api/v1/nodes/n1") == 1


def test_a_node_that_the_server_does_not_have_is_gone(server: JsonApiServer) -> None:
    with pytest.raises(NotFoundError, match='nodes "n2" not found'):
        KubeCluster(server.api()).get_node("n2")


@pytest.mark.parametrize(
    "name", ["kwok://g/g-1", "aws:///eu-west-1a/i-0123", "clusterapi://ns/m-1", "Node-1", "a" * 254, "..", ""]
)
def test_a_name_that_no_node_can_have_is_no_node_and_makes_no_call(server: JsonApiServer, name: str) -> None:
    cluster = KubeCluster(server.api())
    for call in (
        lambda: cluster.get_node(name),
        lambda: cluster.add_taint(name, HARD),
        lambda: cluster.remove_taint(name, HARD_TAINT_KEY),
    ):
        with pytest.raises(NotFoundError, match="is not the name of a Node"):
            call()
    assert cluster.list_pods(name) == []
    cluster.delete_node(name, "uid")
    assert server.requests == []


def status_of(kind: str, name: str, reason: str = "NotFound") -> bytes:
    details = {"name": name, "kind": kind}
    return json.dumps({"kind": "Status", "reason": reason, "message": "no", "details": details, "code": 404}).encode()


@pytest.mark.parametrize(
    ("body", "error"),
    [
        pytest.param(status_of("nodes", "n1"), NotFoundError, id="the node"),
        pytest.param(status_of("nodes", "n2"), ClusterError, id="another node"),
        pytest.param(status_of("pods", "n1"), ClusterError, id="another kind"),
        pytest.param(status_of("nodes", "n1", reason=""), ClusterError, id="no reason"),
        pytest.param(status_of("", ""), NotServedError, id="an unknown path"),
        pytest.param(b"404 page not found\n", NotServedError, id="a server that starts"),
        pytest.param(b'{"message": "no route"}', NotServedError, id="a proxy that answers in JSON"),
        pytest.param(b'["nodes", "n1"]', NotServedError, id="a list"),
        pytest.param(b"", NotServedError, id="nothing"),
    ],
)
def test_only_a_status_about_the_very_node_proves_that_it_is_gone(
    server: JsonApiServer, body: bytes, error: type[ClusterError]
) -> None:
    server.fail("GET", Fault(404, body=body))
    with pytest.raises(ClusterError) as raised:
        KubeCluster(server.api()).get_node("n1")
    assert raised.type is error


def test_a_server_that_does_not_answer_times_out(server: JsonApiServer) -> None:
    given_up = threading.Event()
    server.fail("GET", *[Fault(held=given_up)] * 4)
    with pytest.raises(ClusterError, match="timed out"):
        KubeCluster(server.api(timeout_s=0.1)).get_node("n1")
    given_up.set()


def test_nodes_are_listed_page_by_page(server: JsonApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trimtab.actuator.kube.api.PAGE", 2)
    for number in range(4, 0, -1):
        server.put("/api/v1/nodes", {"metadata": {"name": f"n{number}"}})
    assert [node.name for node in KubeCluster(server.api()).list_nodes()] == ["n1", "n2", "n3", "n4"]


def test_a_pod_is_read_with_what_a_drain_needs(server: JsonApiServer) -> None:
    put_pod(server, "p2")
    put_pod(server, "p1", nodeName="n2")
    (pod,) = KubeCluster(server.api()).list_pods("n1")
    assert (pod.key, pod.uid, pod.priority, pod.grace_s, pod.phase) == ("ns/p2", "uid-p2", 7, 9, "Running")
    assert (pod.owner_kind, pod.owner_name, pod.owner_uid) == ("ReplicaSet", "web", "rs")
    assert (pod.mirror, pod.deletion_ms) == (False, 0)


def test_an_eviction_names_the_pod_by_uid_and_the_grace_only_if_it_differs(server: JsonApiServer) -> None:
    put_pod(server, "p1")
    cluster = KubeCluster(server.api())
    (pod,) = cluster.list_pods("n1")
    cluster.evict(pod, None)
    cluster.evict(pod, 3)
    assert [one["deleteOptions"] for one in server.evictions] == [
        {"preconditions": {"uid": "uid-p1"}},
        {"preconditions": {"uid": "uid-p1"}, "gracePeriodSeconds": 3},
    ]
    with pytest.raises(NotFoundError):
        cluster.evict(pod._replace(uid="another"), None)
    with pytest.raises(NotFoundError):
        cluster.evict(pod._replace(name="p9"), None)


@pytest.mark.parametrize(
    ("fault", "hint_s"),
    [pytest.param(Fault(429, retry_after=7), 7.0, id="with a hint"), pytest.param(Fault(429), None, id="without")],
)
def test_a_refused_eviction_is_left_to_the_drain_with_the_hint(
    server: JsonApiServer, fault: Fault, hint_s: float | None
) -> None:
    put_pod(server, "p1")
    cluster = KubeCluster(server.api())
    (pod,) = cluster.list_pods("n1")
    server.fail("POST", fault)
    with pytest.raises(TooManyRequestsError) as caught:
        cluster.evict(pod, None)
    assert caught.value.retry_after_s == hint_s
    assert server.evictions == []


def test_deleting_a_node_that_is_gone_is_not_an_error(server: JsonApiServer) -> None:
    cluster = KubeCluster(server.api())
    cluster.delete_node("n1", "uid-n1")
    cluster.delete_node("n1", "uid-n1")
    assert server.objects == {}


def test_a_process_that_may_not_act_can_only_read(server: JsonApiServer) -> None:
    def refuse() -> None:
        raise NotLeaderError("somebody")

    put_pod(server, "p1")
    api = server.api()
    api.http.guard = refuse
    cluster = KubeCluster(api)
    (pod,) = cluster.list_pods("n1")
    for change in (
        lambda: cluster.add_taint("n1", HARD),
        lambda: cluster.evict(pod, None),
        lambda: cluster.delete_node("n1", "uid-n1"),
    ):
        with pytest.raises(NotLeaderError, match="somebody"):
            change()
    assert {request.split()[0] for request in server.requests} == {"GET"}


def test_missing_permissions_are_reported_together_as_rules_to_add(server: JsonApiServer) -> None:
    server.forbidden = {"patch nodes", "create pods/eviction", "update leases"}
    with pytest.raises(MissingPermissionError) as caught:
        require(server.api().http, (*rules_of(User.ACTUATOR), *rules_of(User.LEADER, "here", "mine")))
    assert caught.value.rules.splitlines() == [
        '- {apiGroups: [""], resources: [nodes], verbs: [patch]}',
        '- {apiGroups: [""], resources: [pods/eviction], verbs: [create]}',
        '- {apiGroups: ["coordination.k8s.io"], resources: [leases], resourceNames: [mine], verbs: [update]}'
        "  # Role in namespace here",
    ]


def test_a_cluster_that_forbids_access_reviews_counts_as_allowing(server: JsonApiServer) -> None:
    server.fail("POST", *[Fault(403)] * 20)
    require(server.api().http, rules_of(User.ACTUATOR))


def test_a_cost_that_another_manager_has_set_stays(server: JsonApiServer) -> None:
    cluster = KubeCluster(server.api())
    put_pod(server, "p1")
    pod = server.objects["/api/v1/namespaces/ns/pods/p1"]
    pod["metadata"]["annotations"] = {"controller.kubernetes.io/pod-deletion-cost": "9"}
    found = cluster.pod_costs(["ns/p1"])["ns/p1"]
    assert found.is_foreign
    with pytest.raises(ForeignCostError, match="kubectl"):
        cluster.write_pod_cost(found, FIVE)
    cluster.write_pod_cost(found, None)
    assert cluster.pod_costs(["ns/p1"])["ns/p1"].cost == "9"


def test_objects_of_groups_are_written_read_and_deleted(server: JsonApiServer) -> None:
    cluster = KubeCluster(server.api())
    assert cluster.group_costs() == []
    cost = GroupCost("ns", "ReplicaSet", "web", {"p1": 4, "p2": -(2**31)}, 1, "", "2026-01-01T00:00:00Z")
    status = GroupCostStatus(2, 2, True, "", "2026-01-01T00:00:00Z")
    assert cluster.write_group_cost(cost) == 1
    assert cluster.group_costs() == [KnownGroupCost(cost, 1, None)]
    cluster.write_group_cost_status(cost, 1, status)
    assert cluster.group_costs() == [KnownGroupCost(cost, 1, status)]
    # A status refers to one generation of the costs.
    changed = cost._replace(costs={"p1": 5})
    assert cluster.write_group_cost(changed) == 2
    assert cluster.group_costs() == [KnownGroupCost(changed, 2, None)]
    for _ in range(2):
        cluster.delete_group_cost("ns", "replicaset-web")
    assert cluster.group_costs() == []


def test_buffers_are_read_in_the_version_that_the_server_has_and_their_status_is_written(
    server: JsonApiServer,
) -> None:
    of_shop = "/apis/autoscaling.x-k8s.io/v1alpha1/namespaces/shop/capacitybuffers"
    spec = {"podTemplateRef": {"name": "chunk"}, "provisioningStrategy": "active", "replicas": 3}
    server.put(of_shop, {"metadata": {"name": "spare", "namespace": "shop", "generation": 2}, "spec": spec})
    cluster = KubeCluster(server.api())
    (found,) = cluster.buffers()
    assert found == KnownBuffer("shop", "spare", 2, "chunk", "active", {})
    cluster.write_buffer_status(found, {"replicas": 3})
    assert cluster.buffers() == [found._replace(status={"replicas": 3})]
    del server.objects[f"{of_shop}/spare"]
    assert cluster.buffers() == []


def test_a_list_whose_pages_repeat_ends_with_an_error(server: JsonApiServer) -> None:
    page = json.dumps({"metadata": {"continue": "again"}, "items": []}).encode()
    server.fail("GET", *[Fault(200, body=page)] * 9)
    with pytest.raises(ClusterError, match="the list does not end"):
        KubeCluster(server.api()).list_nodes()
    assert server.requests.count("GET /api/v1/nodes") == 2


def test_a_conflict_means_another_node_or_pod_only_if_the_uid_shows_it(server: JsonApiServer) -> None:
    """The answer to a failed precondition has no code, and its text is not for programs."""
    put_pod(server, "p1")
    cluster = KubeCluster(server.api())
    (pod,) = cluster.list_pods("n1")
    conflict = Fault(409, "an answer in any language")
    uid = cluster.get_node("n1").uid
    server.fail("DELETE", conflict)
    cluster.delete_node("n1", "another")
    server.fail("DELETE", conflict)
    with pytest.raises(ConflictError):
        cluster.delete_node("n1", uid)
    server.fail("POST", conflict)
    with pytest.raises(ConflictError):
        cluster.evict(pod, None)
    server.fail("POST", conflict)
    with pytest.raises(NotFoundError):
        cluster.evict(pod._replace(uid="another"), None)
    (cost,) = cluster.pod_costs(["ns/p1"]).values()
    for status, error in ((409, ConflictError), (422, InvalidError)):
        server.fail("PATCH", Fault(status, "an answer in any language"))
        with pytest.raises(error) as caught:
            cluster.write_pod_cost(cost, FIVE)
        assert not isinstance(caught.value, ForeignCostError)
        server.fail("PATCH", Fault(status, "an answer in any language"))
        with pytest.raises(NotFoundError):
            cluster.write_pod_cost(cost._replace(uid="another"), FIVE)


def test_only_a_permission_that_is_missing_is_no_reason_to_read_the_pod_again(server: JsonApiServer) -> None:
    put_pod(server, "p1")
    cluster = KubeCluster(server.api())
    (cost,) = cluster.pod_costs(["ns/p1"]).values()
    server.fail("PATCH", Fault(403))
    with pytest.raises(ForbiddenError):
        cluster.write_pod_cost(cost._replace(uid="another"), FIVE)
