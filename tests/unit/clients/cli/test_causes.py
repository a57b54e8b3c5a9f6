"""Every refusal has its concrete cause from the snapshot. Also why claims get no devices."""

from typing import Any

import pytest

from tests.builders import kubernetes as k8s
from trimtab.clients.cli.blocks import plain_text
from trimtab.clients.cli.causes import cause, device_cause, device_kinds
from trimtab.clients.cli.explain.pods import ShownRefusal, explain_pod, pod_sentences
from trimtab.clients.cluster_view import ClusterView, ShownPod
from trimtab.common.objects import build_snapshot, decode_objects
from trimtab.v1 import planner_pb2, reason_pb2
from trimtab.v1.reason_pb2 import DeviceReason

Reason = reason_pb2.PredicateReason


def view_of(*objects: dict[str, Any]) -> ClusterView:
    return ClusterView(build_snapshot(decode_objects(objects)).snapshot)


def pod_of(view: ClusterView, key: str) -> ShownPod:
    pod = view.pod(key)
    assert pod is not None
    return pod


TAINTED = k8s.node("n1", taints=["dedicated=batch:NoSchedule", "soft=x:PreferNoSchedule", "gone:NoExecute"])
SSD = {"disk": "ssd"}


@pytest.mark.parametrize(
    ("node", "pod", "reason", "told"),
    [
        pytest.param(
            TAINTED,
            k8s.pod(),
            Reason.TAINT_NOT_TOLERATED,
            "no toleration for the taints dedicated=batch:NoSchedule, gone:NoExecute",
            id="every taint that is in the way",
        ),
        pytest.param(
            TAINTED,
            k8s.pod(tolerations=[{"key": "gone", "operator": "Exists"}]),
            Reason.TAINT_NOT_TOLERATED,
            "no toleration for the taint dedicated=batch:NoSchedule",
            id="only the taint that is not tolerated",
        ),
        pytest.param(
            k8s.node("n1", taints=["class=5:NoSchedule"]),
            k8s.pod(tolerations=[{"key": "class", "operator": "Gt", "value": "5"}]),
            Reason.TAINT_NOT_TOLERATED,
            "no toleration for the taint class=5:NoSchedule",
            id="a comparison, which the scheduler does not make",
        ),
        pytest.param(
            k8s.node("n1", labels={"disk": "hdd"}),
            k8s.pod(node_selector=SSD),
            Reason.NODE_AFFINITY_NOT_MATCHED,
            "wants disk=ssd, the node has hdd",
            id="another value",
        ),
        pytest.param(
            k8s.node("n1"),
            k8s.pod(node_selector=SSD),
            Reason.NODE_AFFINITY_NOT_MATCHED,
            "wants disk=ssd, the node has no such label",
            id="no such label",
        ),
        pytest.param(
            k8s.node("n1", cpu="1"),
            k8s.pod(cpu="2500m"),
            Reason.INSUFFICIENT_RESOURCES,
            "wants 2.5 cores, 1 core free",
            id="too little cpu",
        ),
        pytest.param(
            k8s.node("n1"),
            k8s.pod(spread=[k8s.spread(k8s.labelled(app="web"))]),
            Reason.TOPOLOGY_SPREAD_VIOLATED,
            "it is to be spread over topology.kubernetes.io/zone, a label that the node lacks",
            id="spread over a label that is missing",
        ),
        pytest.param(
            k8s.node("n1"),
            k8s.pod(affinity=k8s.anti_affinity(k8s.labelled(app="web"))),
            Reason.POD_ANTI_AFFINITY_VIOLATED,
            "must not share its kubernetes.io/hostname with pods of app in (web)",
            id="anti-affinity",
        ),
        pytest.param(
            k8s.node("n1", unschedulable=True),
            k8s.pod(),
            Reason.NODE_UNSCHEDULABLE,
            "the node is cordoned",
            id="cordoned",
        ),
    ],
)
def test_the_cause_is_reported_with_its_values(
    node: dict[str, Any], pod: dict[str, Any], reason: int, told: str
) -> None:
    view = view_of(node, pod)
    assert cause(view, pod_of(view, "default/p1"), "n1", reason) == told


def test_free_room_counts_the_pods_that_run_and_not_those_that_ended() -> None:
    ended = k8s.pod("done", cpu="1", node="n1", status={"phase": "Succeeded"})
    view = view_of(k8s.node("n1", cpu="4", pods="10"), k8s.pod("a", cpu="1500m", node="n1"), ended)
    assert (view.free("n1")["cpu"], view.free("n1")["pods"]) == (2500, 9)


def test_a_pod_is_not_in_its_own_way() -> None:
    view = view_of(k8s.node("n1", cpu="1"), k8s.pod("a", cpu="700m", node="n1"))
    assert view.free("n1", without=pod_of(view, "default/a"))["cpu"] == 1000


def test_usage_is_the_share_that_is_requested() -> None:
    view = view_of(k8s.node("n1", cpu="4", memory="8Gi"), k8s.pod("a", cpu="1", memory="4Gi", node="n1"))
    assert view.usage() == {"cpu": 0.25, "memory": 0.5}


def test_a_node_that_fits_but_is_not_ready_is_named_as_such() -> None:
    view = view_of(k8s.node("n1"), k8s.node("n2", ready=False), k8s.pod(cpu="1"))
    answer = planner_pb2.CheckFitResponse(pod="default/p1")
    for name in ("n1", "n2"):
        answer.nodes.add(node=name, fits=True)
    explanation = explain_pod(view, pod_of(view, "default/p1"), answer)
    assert (explanation.fits, explanation.not_ready) == (("n1", "n2"), ("n2",))
    assert "Not ready, so no plan moves a pod there" in "\n".join(map(plain_text, pod_sentences(explanation)))


def explained() -> tuple[ClusterView, planner_pb2.CheckFitResponse]:
    view = view_of(k8s.node("n1"), k8s.node("n2", cpu="1"), k8s.node("n3", cpu="2"), k8s.pod(cpu="3"))
    answer = planner_pb2.CheckFitResponse(pod="default/p1")
    answer.nodes.add(node="n1", fits=True)
    for name in ("n2", "n3"):
        answer.nodes.add(node=name, reasons=[Reason.INSUFFICIENT_RESOURCES], insufficient=["cpu"])
    return view, answer


def test_a_pod_is_explained_by_reason_and_cause() -> None:
    view, answer = explained()
    found = explain_pod(view, pod_of(view, "default/p1"), answer)
    assert found.fits == ("n1",)
    causes = (("wants 3 cores, 1 core free", ("n2",)), ("wants 3 cores, 2 cores free", ("n3",)))
    assert found.refusals == (ShownRefusal("INSUFFICIENT_RESOURCES", ("n2", "n3"), causes),)


def test_the_explanation_reads_as_text() -> None:
    view, answer = explained()
    text = "\n".join(map(plain_text, pod_sentences(explain_pod(view, pod_of(view, "default/p1"), answer))))
    assert "waits for a node" in text
    assert "It fits 1 of 3 nodes" in text
    assert "wants 3 cores, 1 core free" in text


def test_a_pod_with_claims_is_explained_by_claim_request_and_pool_once_for_alike_nodes() -> None:
    view = view_of(k8s.node("n1"), k8s.node("n2"), k8s.node("n3"), k8s.pod(cpu="1"))
    answer = planner_pb2.CheckFitResponse(pod="default/p1")
    devices = reason_pb2.DeviceReason
    reasons = {"n1": devices.IN_USE, "n2": devices.IN_USE, "n3": devices.TAINTED}
    for name, reason in reasons.items():
        node = answer.nodes.add(node=name, reasons=[Reason.DEVICES_NOT_AVAILABLE])
        node.devices.add(claim="gpu", request="main", driver="d", pool=f"pool-{name}", reason=reason)
    (refusal,) = explain_pod(view, pod_of(view, "default/p1"), answer).refusals
    assert (refusal.reason, refusal.nodes) == ("DEVICES_NOT_AVAILABLE", ("n1", "n2", "n3"))
    assert refusal.causes == (
        ("claim gpu, request main: devices are in use in pools such as pool-n1", ("n1", "n2")),
        ("claim gpu, request main: devices have taints that it does not tolerate in pool pool-n3", ("n3",)),
    )


def test_topology_spread_names_the_domain_with_the_fewest_pods_and_what_lowers_it() -> None:
    rule = k8s.spread(k8s.labelled(app="web"))
    view = view_of(
        k8s.node("n1", zone="a"),
        k8s.node("n2", zone="b", taints=["x:NoSchedule"]),
        k8s.pod("p0", node="n1", labels={"app": "web"}),
        k8s.pod("p1", labels={"app": "web"}, spread=[rule]),
    )
    assert cause(view, pod_of(view, "default/p1"), "n1", Reason.TOPOLOGY_SPREAD_VIOLATED) == (
        "spread over topology.kubernetes.io/zone by at most 1: 2 pods would be in a, 0 in b (b has only nodes with "
        "taints that it does not tolerate, which count unless nodeTaintsPolicy is Honor)"
    )


def test_a_volume_that_a_node_cannot_reach_is_named_with_its_place() -> None:
    only_b = {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-b"]}]}
    volume = k8s.persistent_volume("pv-1", affinity=[only_b])
    claim = k8s.persistent_volume_claim("data", volume="pv-1")
    nodes = k8s.node("n1", zone="zone-a"), k8s.node("n2", zone="zone-b")
    view = view_of(*nodes, volume, claim, k8s.pod(claims=["data"]))
    pod = pod_of(view, "default/p1")
    told = "the volume of claim default/data is for topology.kubernetes.io/zone in (zone-b)"
    assert cause(view, pod, "n1", Reason.VOLUME_NOT_BINDABLE) == told
    assert "for topology" not in cause(view, pod, "n2", Reason.VOLUME_NOT_BINDABLE)


def test_a_volume_in_another_zone_is_named_with_its_zones() -> None:
    volume = k8s.persistent_volume("pv-1", labels={"topology.kubernetes.io/zone": "zone-b__zone-c"})
    claim = k8s.persistent_volume_claim("data", volume="pv-1")
    view = view_of(k8s.node("n1", zone="zone-a"), volume, claim, k8s.pod(claims=["data"]))
    told = "the volume of claim default/data is in zone-b or zone-c (topology.kubernetes.io/zone)"
    assert cause(view, pod_of(view, "default/p1"), "n1", Reason.VOLUME_ZONE_MISMATCH) == told


FULL = planner_pb2.DeviceRefusal(claim="gpu", request="main", driver="d", pool="n1", reason=DeviceReason.IN_USE)
OTHER = planner_pb2.DeviceRefusal(claim="gpu", request="main", driver="d", pool="n2", reason=DeviceReason.TAINTED)
MISSING = planner_pb2.DeviceRefusal(claim="nic", detail="ResourceClaim a/b does not exist")


def test_the_claim_the_request_and_the_pool_are_named() -> None:
    assert device_cause([FULL, OTHER, MISSING]) == (
        "claim gpu, request main: devices are in use in pool n1, "
        "devices have taints that it does not tolerate in pool n2; claim nic: ResourceClaim a/b does not exist"
    )
    assert device_cause([]) == ""


def test_nodes_whose_pools_refuse_for_the_same_reasons_are_alike() -> None:
    other = planner_pb2.DeviceRefusal()
    other.CopyFrom(FULL)
    other.pool = "n3"
    one, two = (planner_pb2.NodeFit(devices=[refusal]) for refusal in (FULL, other))
    assert device_kinds(one) == device_kinds(two) != device_kinds(planner_pb2.NodeFit(devices=[MISSING]))
