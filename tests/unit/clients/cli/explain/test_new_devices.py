"""Why a node group does not help a pod with claims: claim, request, pool and reason on a new node."""

from random import Random
from typing import Any

import pytest

from tests.builders import device_objects as dra
from tests.builders import kubernetes as k8s
from tests.builders.doubled_texts import double_device_texts
from trimtab.clients.cli.explain.growth import explain_growth, refusal_groups
from trimtab.clients.cli.planners import open_planner
from trimtab.clients.cluster_view import ClusterView
from trimtab.v1 import plan_pb2

Json = dict[str, Any]
CLASS = dra.device_class("gpu", f'device.driver == "{dra.DRIVER}"')
TEMPLATE: Json = {"status": {"allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"}}}


def because(*objects: Json, is_doubled: bool = False) -> dict[str, str]:
    """Return why each node group does not help the pod `p`. is_doubled : texts of devices have several indices."""
    snapshot = k8s.snapshot_of(*objects)
    if is_doubled:
        double_device_texts(snapshot.devices, Random(1))
    view = ClusterView(snapshot)
    pod = view.pod("default/p")
    assert pod is not None
    request = plan_pb2.PlanRequest()
    request.now.seconds = 1_800_000_000
    with open_planner(None) as planner:
        found = refusal_groups(explain_growth(planner, view, pod, request))
    return {group: text for (_, text), groups in found for group in groups}


def claiming(spec: Json) -> list[Json]:
    return [CLASS, dra.claim_template("wanted", spec), dra.claiming_pod("p", templates={"gpu": "wanted"})]


def big() -> Json:
    expression = f'device.attributes["{dra.DRIVER}"].model == "big"'
    return dra.claim_spec(dra.request(selectors=[{"cel": {"expression": expression}}]))


def small_slice(name: str) -> Json:
    devices = [dra.device(f"gpu-{at}", attributes={"model": "small"}) for at in range(2)]
    return dra.resource_slice(f"{name}-gpu", devices, node=name)


@pytest.mark.parametrize("is_declared", [False, True], ids=["published by its nodes", "declared"])
def test_a_group_whose_devices_do_not_match_is_explained_by_claim_request_and_pool(is_declared: bool) -> None:
    group = k8s.node_group("gpu", nodes=["g-1"], max_size=9)
    if is_declared:
        declared = small_slice("new")["spec"]
        del declared["nodeName"]
        group["spec"]["template"] = TEMPLATE | {"resourceSlices": [{"spec": declared}]}
    found = because(*claiming(big()), k8s.node("g-1"), small_slice("g-1"), group)
    assert found == {"gpu": f"on a new node: claim gpu, request {request_name()}: no device matches in pool new/gpu"}


def test_texts_with_several_indices_explain_the_same() -> None:
    nodes = [k8s.node("g-1"), k8s.node("g-2"), small_slice("g-1"), small_slice("g-2")]
    cluster = [*claiming(big()), *nodes, k8s.node_group("gpu", nodes=["g-1", "g-2"], max_size=9)]
    assert because(*cluster, is_doubled=True) == because(*cluster)
    assert "no device matches in pool new/gpu" in because(*cluster, is_doubled=True)["gpu"]


def request_name() -> str:
    name: str = dra.request()["name"]
    return name


def test_a_group_without_devices_is_explained_by_claim_and_request() -> None:
    group = k8s.node_group("cpu", nodes=["c-1"], max_size=9)
    found = because(*claiming(big()), k8s.node("c-1"), k8s.node("g-1"), small_slice("g-1"), group)
    assert found == {"cpu": f"on a new node: claim gpu, request {request_name()}: no device matches"}


def test_a_group_with_too_few_devices_on_a_node_is_explained_though_those_of_its_nodes_are_in_use() -> None:
    spec = dra.claim_spec(dra.request(count=3))
    group = k8s.node_group("gpu", nodes=["g-1"], max_size=9)
    found = because(*claiming(spec), k8s.node("g-1"), small_slice("g-1"), group)
    assert list(found) == ["gpu"]
    assert found["gpu"].startswith(f"on a new node: claim gpu, request {request_name()}: ")
    assert "new/gpu" in found["gpu"]
