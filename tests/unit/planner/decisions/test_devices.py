"""Pods with claims of devices, from Kubernetes objects to the answers of all decisions."""

from typing import Any

import pytest

from tests.builders import device_objects as dra
from tests.builders import kubernetes as k8s
from tests.builders import pod_group_objects as groups
from tests.builders import scale_down, scale_up
from trimtab.places import moves_by_node, on_existing
from trimtab.planner.decisions import device_plan
from trimtab.planner.decisions.fit import check_fit
from trimtab.planner.device_amounts.placements import PlannedPods
from trimtab.planner.device_amounts.planned import MixtureLimits, PlannedDevices, planned_snapshot
from trimtab.planner.round.round import Work
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2, planner_pb2
from trimtab.v1 import snapshot_pb2 as pb
from trimtab.v1.reason_pb2 import DeviceReason, PredicateReason

Json = dict[str, Any]
CLASS = dra.device_class("gpu", f'device.driver == "{dra.DRIVER}"')
BASE: list[Json] = [CLASS, dra.claim_template()]


def gpu_node(name: str, count: int = 2, **more: Any) -> list[Json]:
    return [k8s.node(name, **more), dra.gpus(name, count)]


def holder(name: str, node: str, *devices: int, owner: Json | None = None) -> list[Json]:
    """Return a pod on a node with the claim that was made for it."""
    template = "one-gpu" if len(devices) == 1 else f"{len(devices)}-gpus"
    pod = dra.claiming_pod(name, templates={"gpu": template}, made={"gpu": f"{name}-gpu"}, node=node, owner=owner)
    spec = dra.claim_spec(dra.request(count=len(devices)))
    held = [f"{node}/gpu-{at}" for at in devices]
    return [
        pod,
        dra.resource_claim(f"{name}-gpu", spec, of=pod, entry="gpu", devices=held, node=node, users=[name]),
        dra.claim_template(template, spec),
    ]


def waiting(name: str, **more: Any) -> Json:
    return dra.claiming_pod(name, templates={"gpu": "one-gpu"}, **more)


def fit(*objects: Json, pod: str = "") -> dict[str, list[str]]:
    """Return why each node refuses a pod, [] = it fits."""
    distinct = {(one["kind"], one["metadata"]["name"]): one for one in objects}
    message = k8s.snapshot_of(*distinct.values())
    request = plan_pb2.PlanRequest(fit_pods=[pod] if pod else [])
    (answer,) = answers(message, request)
    return {one.node: [PredicateReason.Code.Name(reason) for reason in one.reasons] for one in answer.nodes}


def answers(message: pb.ClusterSnapshot, request: plan_pb2.PlanRequest) -> list[planner_pb2.CheckFitResponse]:
    sent = canonicalize(message)
    return list(check_fit(planned_snapshot(sent, is_together=False).snapshot, request, Work(), sent))


def told(*objects: Json) -> dict[str, list[tuple[str, str, str, str]]]:
    """Return claim, request, pool and reason of what stands in the way, by node."""
    (answer,) = answers(k8s.snapshot_of(*distinct(*objects)), plan_pb2.PlanRequest())
    return {
        one.node: [(r.claim, r.request, r.pool, DeviceReason.Code.Name(r.reason)) for r in one.devices]
        for one in answer.nodes
    }


def distinct(*objects: Json) -> list[Json]:
    return list({(one["kind"], one["metadata"]["name"]): one for one in objects}.values())


def test_a_pod_fits_where_a_device_is_free() -> None:
    objects = [*BASE, *gpu_node("free"), *gpu_node("full", 1), k8s.node("none"), *holder("h", "full", 0), waiting("p")]
    lacking = ["DEVICES_NOT_AVAILABLE"]
    assert fit(*objects) == {"free": [], "full": lacking, "none": lacking}


def test_a_pod_that_takes_fewer_devices_if_need_be_fits_beside_others() -> None:
    either = [{"name": "many", "deviceClassName": "gpu", "count": 3}, {"name": "one", "deviceClassName": "gpu"}]
    template = dra.claim_template("either", dra.claim_spec({"name": "main", "firstAvailable": either}))
    pod = dra.claiming_pod("p", templates={"gpu": "either"})
    objects = [*BASE, *gpu_node("a", 3), *holder("h", "a", 0), template, pod]
    assert fit(*objects) == {"a": []}
    without_devices = dra.claiming_pod("j", templates={"gpu": "one-gpu"}, node="a")
    assert fit(*objects, without_devices, pod="default/p") == {"a": []}


def test_a_pod_on_a_node_is_checked_without_its_own_devices() -> None:
    objects = [*BASE, *gpu_node("a", 1), *gpu_node("b", 1), *holder("h", "a", 0), *holder("i", "b", 0)]
    assert fit(*objects, pod="default/h") == {"a": [], "b": ["DEVICES_NOT_AVAILABLE"]}


def test_a_claim_of_a_class_that_is_missing_is_refused_everywhere() -> None:
    template = dra.claim_template("odd", dra.claim_spec(dra.request(of_class="missing")))
    pod = dra.claiming_pod("p", templates={"x": "odd"})
    assert fit(*BASE, *gpu_node("a"), template, pod) == {"a": ["CLAIM_UNUSABLE"]}


def test_pods_that_share_an_allocated_claim_go_where_its_devices_are() -> None:
    shared = dra.resource_claim("shared", devices=["a/gpu-0"], node="a", users=["h"])
    holding = dra.claiming_pod("h", claims={"x": "shared"}, node="a")
    joining = dra.claiming_pod("p", claims={"x": "shared"})
    objects = [*BASE, *gpu_node("a", 1), *gpu_node("b", 1), shared, holding, joining]
    assert fit(*objects) == {"a": [], "b": ["CLAIM_ALLOCATED_ELSEWHERE"]}


def test_a_claim_with_more_devices_than_the_api_allows_keeps_its_pods_waiting_and_no_others() -> None:
    """A file may have one; it holds the first devices of the node."""
    many = dra.resource_claim("many", devices=[f"a/gpu-{at}" for at in range(33)], node="a")
    objects = [*BASE, *gpu_node("a", 34), many, dra.claiming_pod("p", claims={"x": "many"}), waiting("q")]
    assert fit(*objects, pod="default/p") == {"a": ["CLAIM_UNUSABLE"]}
    assert fit(*objects, pod="default/q") == {"a": []}
    assert scale_up.plan(distinct(*objects)).on_existing == {"default/q": "a"}


def test_a_claim_for_administration_takes_no_devices_and_needs_none_that_are_free() -> None:
    """The node has two devices, both in use; the group grows for the pod that needs one, not for the monitors."""
    monitor = dra.claim_template("monitor", dra.claim_spec(dra.request(count=2, adminAccess=True)))
    monitors = [dra.claiming_pod(f"m{at}", templates={"x": "monitor"}) for at in range(3)]
    full = [*holder("h", "g-1", 0, 1), *gpu_node("g-1", 2), k8s.node("c-1")]
    group = k8s.node_group("gpu", nodes=["g-1"], max_size=9)
    alone = scale_up.plan(distinct(*BASE, *full, monitor, *monitors, group))
    assert alone.on_existing == {f"default/m{at}": "g-1" for at in range(3)}
    plan = scale_up.plan(distinct(*BASE, *full, monitor, *monitors, waiting("p"), waiting("q"), group))
    assert plan.on_existing == {f"default/m{at}": "g-1" for at in range(3)}
    assert (plan.growth, plan.on_new["gpu"]) == ({"gpu": 1}, ["default/p", "default/q"])
    more = dra.claim_template("monitor", dra.claim_spec(dra.request(count=3, adminAccess=True)))
    none = scale_up.plan(distinct(*BASE, *full, more, *monitors, group))
    assert none.pending == {f"default/m{at}": {"gpu": "DEVICES_NOT_AVAILABLE"} for at in range(3)}


def sharers(count: int, node: str = "", owner: Json | None = None, prefix: str = "s", **more: Any) -> list[Json]:
    """Return pods that share one claim."""
    names = [f"{prefix}{at}" for at in range(count)]
    return [dra.claiming_pod(one, claims={"x": "shared"}, node=node, owner=owner, **more) for one in names]


def test_pods_that_share_a_claim_without_devices_get_a_node_for_all_of_them() -> None:
    """The node has two devices, of which the claim needs both."""
    shared = dra.resource_claim("shared", dra.claim_spec(dra.request(count=2)))
    plan = scale_up.plan(
        distinct(
            CLASS, *holder("h", "g-1", 0), *gpu_node("g-1", cpu="4"), shared, *sharers(3, cpu="1"), k8s.node("c-1"),
            k8s.node_group("gpu", nodes=["g-1"], max_size=9), k8s.node_group("cpu", nodes=["c-1"], max_size=9),
        )
    )  # fmt: skip
    assert plan.growth == {"gpu": 1}
    assert plan.on_new["gpu"] == [f"default/s{at}" for at in range(3)]


def test_pods_that_share_a_claim_and_do_not_fit_one_node_together_get_none() -> None:
    shared = dra.resource_claim("shared")
    group = k8s.node_group("gpu", nodes=["g-1"], max_size=9)
    nodes = [*holder("h", "g-1", 0, 1), *gpu_node("g-1", cpu="4")]
    plan = scale_up.plan(distinct(CLASS, *nodes, shared, *sharers(3, cpu="2"), group))
    assert plan.growth == {}
    assert plan.pending == {f"default/s{at}": {"gpu": "INSUFFICIENT_RESOURCES"} for at in range(3)}
    full = k8s.node_group("gpu", nodes=["g-1"], max_size=1)
    plan = scale_up.plan(distinct(CLASS, *nodes, shared, *sharers(3, cpu="1"), full))
    assert plan.pending == {f"default/s{at}": {"gpu": "MAX_SIZE_REACHED"} for at in range(3)}


def test_pods_that_share_a_claim_take_room_on_one_node_that_there_is() -> None:
    shared = dra.resource_claim("shared")
    nodes = [*gpu_node("a", 1, cpu="2"), *gpu_node("b", 1, cpu="4"), *gpu_node("c", 1, cpu="4")]
    plan = scale_up.plan(distinct(CLASS, *nodes, *holder("h", "c", 0), shared, *sharers(3, cpu="1")))
    assert plan.on_existing == dict.fromkeys(["default/s0", "default/s1", "default/s2"], "b")


def test_each_pod_that_shares_a_claim_is_checked_for_itself() -> None:
    shared = dra.resource_claim("shared")
    objects = [*BASE, *gpu_node("a", 1, cpu="2"), k8s.node("b"), shared, *sharers(3, cpu="1")]
    assert fit(*objects, pod="default/s2") == {"a": [], "b": ["DEVICES_NOT_AVAILABLE"]}


@pytest.mark.parametrize(("left", "goes"), [(2, True), (1, False)])
def test_pods_that_share_a_claim_move_together_or_not_at_all(left: int, goes: bool) -> None:
    """The claim has two devices; the other node has room for all pods, and so many devices left."""
    owner = k8s.replica_set("web", 9)
    users = [f"s{at}" for at in range(3)]
    spec = dra.claim_spec(dra.request(count=2))
    shared = dra.resource_claim("shared", spec, devices=["a/gpu-0", "a/gpu-1"], node="a", users=users)
    busy = [one for at in range(4 - left) for one in holder(f"h{at}", "b", at, owner=owner)]
    objects = [
        *BASE, *gpu_node("a", 4, cpu="16"), *gpu_node("b", 4, cpu="16"), shared, *busy, owner,
        *sharers(3, "a", owner, cpu="1"), k8s.node_group("gpu", nodes=["a"]),
    ]  # fmt: skip
    plan = scale_down.plan(distinct(*objects), settings={"utilizationThreshold": 0.9})
    assert [one.node for one in plan.decision.unneeded if one.node == "a"] == (["a"] if goes else [])
    there = moves_by_node(plan.decision.places).get("a", {})
    assert there == (dict.fromkeys([f"default/{one}" for one in users], "b") if goes else {})


@pytest.mark.parametrize(("user", "goes"), [("s1", True), ("somebody", False)])
def test_pods_on_one_node_stay_while_their_claim_is_reserved_for_somebody_else(user: str, goes: bool) -> None:
    owner = k8s.replica_set("web", 9)
    shared = dra.resource_claim("shared", devices=["a/gpu-0"], node="a", users=["s0", user])
    group = k8s.node_group("gpu", nodes=["a"])
    objects = [*BASE, *gpu_node("a", 4), *gpu_node("b", 4), shared, owner, *sharers(2, "a", owner), group]
    assert scale_down.plan(distinct(*objects)).unneeded == (["a"] if goes else [])


def members(count: int, *, made: str = "", node: str = "") -> list[Json]:
    """Return a PodGroup with a claim, and its pods. made : the claim, "" = not yet; node : where all of it is."""
    entry = {"name": "x", "resourceClaimTemplateName": "one-gpu"}
    group = groups.pod_group("team", count, resourceClaims=[entry])
    more = {"made": {"x": made}} if made else {}
    names = [f"m{at}" for at in range(count)]
    pods = [dra.claiming_pod(one, templates={"x": "one-gpu"}, node=node, cpu="1", **more) for one in names]
    for pod in pods:
        pod["spec"]["schedulingGroup"] = {"podGroupName": "team"}
    claims = []
    if made:
        held = {"devices": [f"{node}/gpu-0"], "node": node} if node else {}
        claim = dra.resource_claim(made, **held)
        owner = {
            "apiVersion": groups.V1ALPHA2,
            "kind": "PodGroup",
            "name": "team",
            "uid": "uid-team",
            "controller": True,
        }
        claim["metadata"]["ownerReferences"] = [owner]
        if node:
            claim["status"]["reservedFor"] = [
                {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "team"}
            ]
        claims.append(claim)
    return [group, *claims, *pods]


@pytest.mark.parametrize("made", ["", "team-x"])
def test_a_pod_group_with_a_claim_of_its_own_gets_one_node_and_the_devices_once(made: str) -> None:
    full = [*holder("h", "g-1", 0), *gpu_node("g-1", 1, cpu="4")]
    group = k8s.node_group("gpu", nodes=["g-1"], max_size=9)
    plan = scale_up.plan(distinct(*BASE, *full, *members(3, made=made), group))
    assert plan.growth == {"gpu": 1}
    assert plan.on_new["gpu"] == [f"default/m{at}" for at in range(3)]
    four = scale_up.plan(distinct(*BASE, *full, *members(5, made=made), group))
    assert four.growth == {}


def test_pods_of_a_pod_group_stay_where_the_claim_of_the_group_has_devices() -> None:
    held = members(2, made="team-x", node="a")
    objects = [*BASE, *gpu_node("a", 4), *gpu_node("b", 4), *held, k8s.node_group("gpu", nodes=["a"])]
    for pod in held[2:]:
        pod["metadata"]["ownerReferences"] = [k8s.owner_of(k8s.replica_set("web", 9))]
    assert scale_down.plan(distinct(*objects, k8s.replica_set("web", 9))).unneeded == []


def test_a_group_grows_by_the_nodes_that_the_devices_need() -> None:
    held = [one for at in range(2) for one in holder(f"h{at}", "g-1", at)]
    plan = scale_up.plan(
        distinct(
            *BASE, *gpu_node("g-1"), *held, k8s.node("c-1"), *(waiting(f"p{at}") for at in range(5)),
            k8s.node_group("gpu", nodes=["g-1"], max_size=9), k8s.node_group("cpu", nodes=["c-1"], max_size=9),
        )
    )  # fmt: skip
    assert plan.growth == {"gpu": 3}
    assert sorted(plan.on_new["gpu"]) == [f"default/p{at}" for at in range(5)]


def test_a_group_without_devices_says_that_it_has_none() -> None:
    plan = scale_up.plan([*BASE, k8s.node("c-1"), waiting("p"), k8s.node_group("cpu", nodes=["c-1"])])
    assert plan.pending == {"default/p": {"cpu": "DEVICES_NOT_AVAILABLE"}}


def test_a_node_goes_when_its_pods_get_devices_elsewhere_and_stays_when_they_do_not() -> None:
    owner = k8s.replica_set("web", 3)
    objects = [
        *BASE, *gpu_node("a", 2), *gpu_node("b", 2), *holder("h", "a", 0, owner=owner),
        *holder("i", "b", 1, owner=owner), owner, k8s.node_group("gpu", nodes=["a", "b"]),
    ]  # fmt: skip
    assert len(scale_down.plan(distinct(*objects)).unneeded) == 1
    full = [*objects, *holder("j", "a", 1, owner=owner)]
    assert scale_down.plan(distinct(*full)).unneeded == []


@pytest.mark.parametrize("count", [1, 2])
def test_the_cheapest_plan_counts_devices(count: int) -> None:
    template = dra.claim_template("one-gpu", dra.claim_spec(dra.request(count=count)))
    plan = scale_up.plan(
        distinct(
            CLASS, template, *gpu_node("s-1", 2), *gpu_node("b-1", 8), *(waiting(f"p{at}") for at in range(4)),
            *holder("x", "s-1", 0, 1), *holder("y", "b-1", *range(8)),
            k8s.node_group("small", nodes=["s-1"], price=1.0, max_size=9),
            k8s.node_group("big", nodes=["b-1"], price=3.0, max_size=9),
        ),
        settings={"expanders": ["CHEAPEST_PLAN"]},
    )  # fmt: skip
    assert plan.growth == ({"small": 2} if count == 1 else {"big": 1})


def test_an_answer_names_the_request_the_pool_and_the_reason() -> None:
    odd = dra.device_class("odd", 'device.driver == "other.example.com"')
    template = dra.claim_template("odd", dra.claim_spec(dra.request("wanted", of_class="odd")))
    objects = [*BASE, odd, template, *gpu_node("full", 1), *holder("h", "full", 0), k8s.node("none")]
    assert told(*objects, waiting("p")) == {
        "full": [("gpu", "main", "full", "IN_USE")], "none": [("gpu", "main", "", "NO_MATCH")],
    }  # fmt: skip
    pod = dra.claiming_pod("p", templates={"x": "odd"})
    assert told(*objects, *gpu_node("free"), pod)["free"] == [("x", "wanted", "free", "NO_MATCH")]


ALL = dra.claim_spec(dra.request(allocationMode="All"))
FIRST = dra.claim_spec(
    {"name": "main", "firstAvailable": [{"name": "many", "deviceClassName": "gpu", "count": 9},
                                        {"name": "one", "deviceClassName": "gpu"}]}
)  # fmt: skip
SAME = dra.claim_spec(dra.request(count=2), constraints=[{"matchAttribute": f"{dra.DRIVER}/model"}])


@pytest.mark.parametrize(
    ("spec", "fitting"),
    [
        pytest.param(ALL, ["free"], id="all devices"),
        pytest.param(FIRST, ["free", "half"], id="the first alternative that there is"),
        pytest.param(SAME, ["free"], id="devices of one model"),
    ],
)
def test_claims_that_plans_do_not_count_are_decided_by_the_allocator(spec: Json, fitting: list[str]) -> None:
    template = dra.claim_template("odd", spec)
    objects = [*BASE, template, *gpu_node("free", 2), *gpu_node("half", 2), *holder("h", "half", 0), k8s.node("none")]
    found = fit(*objects, dra.claiming_pod("p", templates={"x": "odd"}), pod="default/p")
    assert [node for node, reasons in found.items() if not reasons] == fitting
    assert {reason for reasons in found.values() for reason in reasons} == {"DEVICES_NOT_AVAILABLE"}


def test_a_group_grows_by_a_node_for_each_pod_that_claims_all_devices_of_one() -> None:
    template = dra.claim_template("all", ALL)
    pods = [dra.claiming_pod(f"p{at}", templates={"x": "all"}) for at in range(3)]
    group = k8s.node_group("gpu", nodes=["g-1"], max_size=9)
    plan = scale_up.plan(distinct(CLASS, template, *gpu_node("g-1", 4), *pods, group))
    assert plan.growth == {"gpu": 2}


def test_a_pod_whose_extended_resource_cannot_be_counted_fits_where_the_allocator_finds_devices() -> None:
    """Such a resource is no amount of any node; the other pod's request overlaps with it in part."""
    name = "example.com/accelerator"
    models = [dra.device(f"gpu-{at}", attributes={"model": "ab"[at], "size": 1 + at % 1}) for at in range(2)]
    of_model = dra.device_class("model-a", f'device.attributes["{dra.DRIVER}"].model == "a"', extended=name)
    of_size = dra.claim_spec(dra.request(count=2), constraints=[{"matchAttribute": f"{dra.DRIVER}/size"}])
    extended = k8s.pod("p", cpu="100m", memory="1Mi")
    amounts = extended["spec"]["containers"][0]["resources"]
    for part in ("requests", "limits"):
        amounts.setdefault(part, {})[name] = "1"
    other = dra.claiming_pod("other", templates={"gpu": "pair"})
    nodes = [k8s.node("a"), dra.resource_slice("a-s", models, node="a"), k8s.node("b")]
    objects = [CLASS, of_model, dra.claim_template("pair", of_size), *nodes, other, extended]
    assert fit(*objects, pod="default/p") == {"a": [], "b": ["DEVICES_NOT_AVAILABLE"]}


def test_nodes_with_a_device_plugin_and_nodes_with_devices_serve_one_extended_resource_each_in_its_way() -> None:
    """A claim for devices fits where devices are alone, and takes from the extended resource there."""
    name = "example.com/accelerator"
    extended = [k8s.pod(f"p{at}", cpu="100m", memory="1Mi") for at in range(3)]
    for one in extended:
        amounts = one["spec"]["containers"][0]["resources"]
        for part in ("requests", "limits"):
            amounts.setdefault(part, {})[name] = "1"
    plugin = k8s.node("plugin")
    for part in ("capacity", "allocatable"):
        plugin["status"][part][name] = "1"
    devices = [k8s.node("devices"), dra.resource_slice("s", [dra.device("gpu-0"), dra.device("gpu-1")], node="devices")]
    served = dra.device_class("served", f'device.driver == "{dra.DRIVER}"', extended=name)
    claiming = dra.claiming_pod("claiming", templates={"gpu": "one"})
    objects = [served, dra.claim_template("one", dra.claim_spec(dra.request(of_class="served"))), plugin, *devices]
    assert fit(*objects, extended[0], pod="default/p0") == {"devices": [], "plugin": []}
    assert fit(*objects, *extended[:1], claiming, pod="default/claiming") == {
        "devices": [],
        "plugin": ["DEVICES_NOT_AVAILABLE"],
    }
    plan = scale_up.plan(distinct(*objects, *extended, claiming))
    places = plan.on_existing
    assert sorted(places.values()) == ["devices", "devices", "plugin"]
    assert places["default/claiming"] == "devices"


@pytest.mark.parametrize("minor", [0, 36, 37])
@pytest.mark.parametrize(("gates", "expected"), [([], True), (["DRADeviceTaintRules=false"], False)])
def test_rules_that_taint_devices_count_where_there_are_any_unless_the_gate_is_off(
    minor: int, gates: list[str], expected: bool
) -> None:
    """An API server has the kind only if the gate is on, which 1.36 leaves to the administrator."""
    message = k8s.snapshot_of(*BASE, *gpu_node("a"), waiting("p"), dra.taint_rule("old", pool="a"))
    message.devices.kubernetes_minor = minor
    message.devices.feature_gates.extend(gates)
    (answer,) = answers(message, plan_pb2.PlanRequest())
    assert [one.fits for one in answer.nodes] == [not expected]


SIZES = {"1g": 1, "2g": 2, "4g": 4}


def partitioned(name: str, gpus: int = 2) -> list[Json]:
    """Return a node whose GPUs of four parts have partitions of three sizes."""
    devices = [
        dra.device(
            f"gpu-{gpu}-{size}-{first}",
            attributes={"profile": size},
            consumesCounters=[
                {
                    "counterSet": f"gpu-{gpu}",
                    "counters": {f"part-{at}": {"value": "1"} for at in range(first, first + parts)},
                }
            ],
        )
        for gpu in range(gpus)
        for size, parts in SIZES.items()
        for first in range(0, 4, parts)
    ]
    counters = [
        {"name": f"gpu-{gpu}", "counters": {f"part-{at}": {"value": "1"} for at in range(4)}} for gpu in range(gpus)
    ]
    with_counters = dra.resource_slice(f"{name}-counters", node=name, count=2, sharedCounters=counters)
    del with_counters["spec"]["devices"]
    return [k8s.node(name), dra.resource_slice(f"{name}-devices", devices, node=name, count=2), with_counters]


def of_size(size: str) -> Json:
    expression = f'device.attributes["{dra.DRIVER}"].profile == "{size}"'
    return dra.claim_template(size, dra.claim_spec(dra.request(selectors=[{"cel": {"expression": expression}}])))


def partition_holder(name: str, node: str, device: str, owner: Json) -> list[Json]:
    """Return a pod on a node with the partition that it has."""
    size = device.split("-")[2]
    pod = dra.claiming_pod(name, templates={"gpu": size}, made={"gpu": f"{name}-gpu"}, node=node, owner=owner)
    held = [f"{node}/{device}"]
    spec = of_size(size)["spec"]["spec"]
    return [pod, dra.resource_claim(f"{name}-gpu", spec, of=pod, entry="gpu", devices=held, node=node, users=[name])]


def test_a_group_grows_for_partitions_of_several_sizes() -> None:
    sizes = ["1g"] * 4 + ["2g"] * 2 + ["4g"] * 2
    pending = [dra.claiming_pod(f"p{at}", templates={"gpu": size}) for at, size in enumerate(sizes)]
    owner = k8s.replica_set("web", 2)
    plan = scale_up.plan(
        distinct(
            CLASS, *map(of_size, SIZES), *partitioned("g-1"), *pending, owner,
            *partition_holder("h", "g-1", "gpu-0-4g-0", owner), *partition_holder("i", "g-1", "gpu-1-4g-0", owner),
            k8s.node_group("gpu", nodes=["g-1"], max_size=9),
        )
    )  # fmt: skip
    # The node is full, and the pods need four GPUs.
    assert plan.growth == {"gpu": 2}
    assert len(plan.on_new["gpu"]) == len(sizes)


def test_a_node_goes_when_its_partitions_fit_elsewhere_beside_those_of_another_size() -> None:
    owner = k8s.replica_set("web", 3)
    objects = [
        CLASS, *map(of_size, SIZES), *partitioned("a", 3), *partitioned("b", 3), owner,
        *partition_holder("h", "a", "gpu-0-2g-0", owner), *partition_holder("i", "b", "gpu-0-1g-0", owner),
        k8s.node_group("gpu", nodes=["a", "b"]),
    ]  # fmt: skip
    assert len(scale_down.plan(distinct(*objects)).unneeded) == 1
    others = {"j": "gpu-0-2g-2", "k": "gpu-1-4g-0", "l": "gpu-2-4g-0"}
    full = [*objects, *(one for pod, device in others.items() for one in partition_holder(pod, "b", device, owner))]
    assert scale_down.plan(distinct(*full)).unneeded == []


@pytest.mark.parametrize(
    ("refused", "checked", "nodes"),
    [
        pytest.param(0, 1, 1, id="nothing is refused"),
        pytest.param(1, 2, 1, id="the first plan is refused"),
        pytest.param(2, 2, 2, id="the second one, too"),
    ],
)
def test_a_plan_that_is_refused_twice_puts_claims_of_one_kind_on_a_node(
    refused: int, checked: int, nodes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The refusals are given here, as no cluster is known whose second plan the allocator refuses."""
    looked_at: list[set[int]] = []

    def refuse(_: PlannedDevices, pods: PlannedPods) -> MixtureLimits | None:
        looked_at.append({node for node in pods.node.tolist() if node >= 0})
        return MixtureLimits() if len(looked_at) <= refused else None

    monkeypatch.setattr(device_plan, "refused_mixtures", refuse)
    pods = [dra.claiming_pod(size, templates={"gpu": size}) for size in ("1g", "2g")]
    message = k8s.snapshot_of(*distinct(CLASS, *map(of_size, SIZES), *partitioned("a"), *partitioned("b"), *pods))
    request = plan_pb2.PlanRequest(decisions=[plan_pb2.Decision.SCALE_UP])
    request.now.seconds = scale_up.NOW_S
    planned = device_plan.plan_devices(planned_snapshot(canonicalize(message)), request, None, Work())
    placed = on_existing(planned.answer.scale_up)
    assert (sorted(placed), len(set(placed.values()))) == (["default/1g", "default/2g"], nodes)
    # What is checked is the plan of both on one node; one kind on a node needs no check.
    assert [len(on) for on in looked_at] == [1] * checked
