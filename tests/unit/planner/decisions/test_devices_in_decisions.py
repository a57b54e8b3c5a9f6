"""Devices in limits, slack and replacement, from Kubernetes objects to the answers."""

from typing import Any

import pytest

from tests.builders import capacity_buffers as buffers
from tests.builders import device_objects as dra
from tests.builders import kubernetes as k8s
from tests.builders import replacement, scale_up
from tests.certificates import whole_plan
from trimtab.planner.decisions.device_plan import plan_devices
from trimtab.planner.device_amounts.planned import planned_snapshot
from trimtab.planner.round.round import Work
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2

Json = dict[str, Any]
NAME = "deviceclass.resource.kubernetes.io/gpu"
BASE: list[Json] = [dra.device_class("gpu", f'device.driver == "{dra.DRIVER}"'), dra.claim_template()]


def waiting(count: int) -> list[Json]:
    return [dra.claiming_pod(f"p{at}", templates={"gpu": "one-gpu"}) for at in range(count)]


def holders(node: str, count: int, owner: Json) -> list[Json]:
    """Return pods of an owner on a node, with the claims that hold its first devices."""
    made: list[Json] = []
    for at in range(count):
        name = f"{node}-p{at}"
        templates, claims = {"gpu": "one-gpu"}, {"gpu": f"{name}-gpu"}
        one = dra.claiming_pod(name, templates=templates, made=claims, node=node, owner=owner)
        held = {"devices": [f"{node}/gpu-{at}"], "node": node, "users": [name]}
        made += [one, dra.resource_claim(f"{name}-gpu", of=one, entry="gpu", **held)]
    return made


def declaring(group: Json, count: int) -> Json:
    """Return a group that declares devices of new nodes."""
    declared = dra.gpus("new", count)["spec"]
    del declared["nodeName"]
    group["spec"]["template"]["resourceSlices"] = [{"spec": declared}]
    return group


@pytest.mark.parametrize(("maximum", "new_nodes"), [(2, 0), (4, 1), (7, 2), (8, 3), (99, 3)])
def test_a_limit_on_a_class_counts_the_devices_of_nodes_that_are_there_and_of_new_ones(
    maximum: int, new_nodes: int
) -> None:
    group = k8s.node_group("gpu", nodes=["g-1"], max_size=9)
    settings = {"planner": {"limits": [{"resource": NAME, "maximum": maximum}]}}
    plan = scale_up.plan(*BASE, k8s.node("g-1"), dra.gpus("g-1", 2), group, *waiting(8), settings=settings)
    assert plan.growth == ({"gpu": new_nodes} if new_nodes else {})


@pytest.mark.parametrize(("replicas", "new_nodes"), [(1, 0), (2, 1), (5, 2)])
def test_room_kept_for_a_template_that_claims_devices_is_kept_where_devices_are(replicas: int, new_nodes: int) -> None:
    pods = {"spec": dra.claiming_pod("p", templates={"gpu": "one-gpu"})["spec"]}
    spare = buffers.buffer(podTemplateRef={"name": "chunk"}, replicas=replicas)
    nodes = [k8s.node("g-1"), dra.gpus("g-1", 2), k8s.node("c-1")]
    group = k8s.node_group("gpu", nodes=["g-1"], max_size=9)
    held = holders("g-1", 1, k8s.replica_set("web", 9))
    message = k8s.snapshot_of(*BASE, *nodes, *held, group, spare, buffers.template(of=pods))
    request = plan_pb2.PlanRequest(decisions=(plan_pb2.Decision.SLACK, plan_pb2.Decision.SCALE_UP))
    request.now.seconds = scale_up.NOW_S
    answer = plan_devices(planned_snapshot(canonicalize(message)), request, None, Work()).answer
    assert whole_plan.offences(message, request.settings, answer, scale_up.NOW_S) == []
    assert [one.node for one in answer.slack.placeholders if one.node] == ["g-1"]
    grown = {one.node_group: one.new_size - one.current_size for one in answer.scale_up.splits}
    assert grown == ({"gpu": new_nodes} if new_nodes else {})


@pytest.mark.parametrize(("devices", "cheaper"), [(4, True), (3, False)])
def test_nodes_are_replaced_by_a_cheaper_one_only_if_it_has_the_devices_of_their_pods(
    devices: int, cheaper: bool
) -> None:
    owner = k8s.replica_set("web", 9)
    old = replacement.group("old", "4", "16Gi", 1.0, ["old-1", "old-2"])
    new = replacement.group("new", "16", "64Gi", 1.2)
    held = [one for node in ("old-1", "old-2") for one in (dra.gpus(node, 2), *holders(node, 2, owner))]
    groups = [declaring(new[0], devices), declaring(old[0], 2)]
    plan = replacement.plan(*BASE, owner, *old[1:], *held, *groups)
    assert plan.waves == ([(["old-1", "old-2"], ["new"])] if cheaper else [])


@pytest.mark.parametrize(("devices", "cheaper"), [(2, True), (1, False)])
def test_pods_that_share_a_claim_move_together_to_a_replacement_that_has_its_devices(
    devices: int, cheaper: bool
) -> None:
    """Each old node has two pods that share one device."""
    owner = k8s.replica_set("web", 9)
    old = replacement.group("old", "4", "16Gi", 1.0, ["old-1", "old-2"])
    new = replacement.group("new", "16", "64Gi", 1.2)
    held: list[Json] = []
    for node in ("old-1", "old-2"):
        users = [f"{node}-p{at}" for at in range(2)]
        claim = dra.resource_claim(f"{node}-x", devices=[f"{node}/gpu-0"], node=node, users=users)
        pods = [dra.claiming_pod(one, claims={"x": f"{node}-x"}, node=node, owner=owner) for one in users]
        held += [dra.gpus(node, 1), claim, *pods]
    groups = [declaring(new[0], devices), declaring(old[0], 1)]
    plan = replacement.plan(*BASE, owner, *old[1:], *held, *groups)
    assert plan.waves == ([(["old-1", "old-2"], ["new"])] if cheaper else [])
