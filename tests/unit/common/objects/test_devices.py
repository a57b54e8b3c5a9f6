"""Devices, classes and claims of files become the columns of the contract; what cannot be used is named."""

from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict

from tests.builders import device_objects as dra
from tests.builders import kubernetes as k8s
from tests.unit.common.objects.reading import build, column, notes
from trimtab.common.objects import decode_objects
from trimtab.common.objects.devices.readable_attributes import attribute_filter, reads_any_attribute
from trimtab.v1 import snapshot_pb2 as pb

Json = dict[str, Any]
MODEL = 'device.attributes["gpu.example.com"].model == "A100"'


def strings_of(devices: pb.Devices, data: bytes) -> list[str]:
    return [devices.strings[at] for at in column(data)]


def claims_of(snapshot: pb.ClusterSnapshot, pod: int = 0) -> list[Json]:
    """Return the claims of a pod's spec row."""
    row = snapshot.pod_specs[column(snapshot.pods.spec)[pod]]
    return [MessageToDict(one) for one in row.claims]


def test_the_defaults_of_the_api_server_are_applied() -> None:
    wanted = [
        dra.request("a"),
        dra.request("b", allocationMode="All"),
        {
            "name": "c",
            "firstAvailable": [
                {"name": "x", "deviceClassName": "gpu"},
                {"name": "y", "deviceClassName": "g", "count": 2},
            ],
        },
    ]
    (spec,) = build(dra.resource_claim("c", dra.claim_spec(*wanted))).devices.claim_specs
    exact = pb.DeviceAllocationMode.EXACT_COUNT
    found = [[(one.name, one.mode, one.count) for one in request.alternatives] for request in spec.requests]
    assert found == [[("", exact, 1)], [("", pb.DeviceAllocationMode.ALL, 0)], [("x", exact, 1), ("y", exact, 2)]]
    assert [request.first_available for request in spec.requests] == [False, False, True]


def test_devices_that_no_claim_can_tell_apart_are_one_and_slices_share_their_list() -> None:
    devices = build(dra.device_class("gpu", MODEL), *map(dra.gpus, ("n1", "n2", "n3"))).devices
    assert len(devices.contents) == len(devices.device_sets) == 1
    assert [one.name for one in devices.contents[0].attributes] == ["model"]
    assert [devices.strings[at] for at in devices.device_sets[0].names] == ["gpu-0", "gpu-1"]
    assert strings_of(devices, devices.slices.node) == strings_of(devices, devices.slices.pool) == ["n1", "n2", "n3"]
    assert column(devices.slices.device_set) == [1, 1, 1]


@pytest.mark.parametrize(
    "reader",
    [
        pytest.param(dra.device_class("gpu", 'device.attributes["gpu.example.com"].uuid != ""'), id="a class"),
        pytest.param(
            dra.resource_claim("c", dra.claim_spec(constraints=[{"matchAttribute": "gpu.example.com/uuid"}])),
            id="a constraint of a claim",
        ),
        pytest.param(
            dra.claim_template(
                "t",
                dra.claim_spec(dra.request(selectors=[{"cel": {"expression": '"uuid" in device.attributes["d"]'}}])),
            ),
            id="a request of a template",
        ),
        pytest.param(dra.device_class("gpu", "device.attributes[device.driver].exists(a, true)"), id="any attribute"),
    ],
)
def test_an_attribute_that_is_read_is_part_of_a_device(reader: Json) -> None:
    devices = build(reader, dra.gpus("n1"), dra.gpus("n2")).devices
    assert len(devices.contents) == 4
    assert "uuid" in {one.name for one in devices.contents[0].attributes}


@pytest.mark.parametrize(
    ("expression", "reads_any"),
    [
        ('device.driver == "d"', False),
        ('device.attributes["d"].model == "x" && device.attributes [ "d" ] . index > 3', False),
        ('has(device.attributes["d"].model) || "model" in device.attributes["d"]', False),
        ("device.attributes['d'].?model.orValue('') != ''", False),
        ('device.attributes["d"]["model"] == "x"', False),
        ('cel.bind(a, device.attributes["d"], a.model == "x")', True),
        ('device.attributes["d"].exists(k, k == "x")', True),
        ('"model" in device.attributes["d"].map(k, k)', True),
        ('device.attributes["d"] [device.driver] == 1', True),
        ("device.attributes.exists(d, true)", True),
        ('"d" in device.attributes', True),
        ('device.attributes["d"]["\\x6dodel"] == 1', True),
    ],
)
def test_which_expressions_may_read_any_attribute(expression: str, *, reads_any: bool) -> None:
    assert reads_any_attribute(expression) is reads_any


def test_without_expressions_no_attribute_is_read() -> None:
    is_read = attribute_filter([], ["vendor.com/numa"])
    assert is_read is not None
    assert [is_read(name) for name in ("vendor.com/numa", "numa", "vendor.com/uuid")] == [True, True, False]


@pytest.mark.parametrize(
    ("spec", "field", "value"),
    [
        ({"nodeName": "n1"}, "node", [1]),
        ({"allNodes": True}, "flags", [1]),
        ({"perDeviceNodeSelection": True}, "flags", [2]),
    ],
)
def test_a_slice_says_in_one_of_four_ways_which_nodes_reach_its_devices(
    spec: Json, field: str, value: list[int]
) -> None:
    slices = build(dra.resource_slice("s", [dra.device("d")], pool="p", **spec)).devices.slices
    dtype = "u1" if field == "flags" else "<i4"
    assert [bool(one) for one in column(getattr(slices, field), dtype)] == [True]
    if field == "flags":
        assert column(slices.flags, dtype) == value


def test_node_selectors_of_slices_devices_and_allocations_are_in_one_dictionary() -> None:
    zone = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}
    claim = dra.resource_claim("c", devices=["p/d"])
    claim["status"]["allocation"]["nodeSelector"] = zone
    devices = build(
        dra.resource_slice("s", [dra.device("d")], pool="p", nodeSelector=zone),
        dra.resource_slice("t", [dra.device("d", nodeSelector=zone)], pool="q", perDeviceNodeSelection=True),
        claim,
    ).devices
    (selector,) = devices.node_selectors
    (requirement,) = selector.terms[0].match_expressions
    assert [devices.strings[at] for at in (requirement.key, *requirement.values)] == ["zone", "a"]
    assert column(devices.slices.node_selector) == [1, 0]
    assert column(devices.claims.node_selector) == [1]
    assert {one.node_selector for one in devices.contents} == {0, 1}


def test_counters_capacities_and_taints_of_devices_are_passed_on() -> None:
    policy = {"default": "1Gi", "validRange": {"min": "1Gi", "step": "2Gi"}}
    shared = [{"name": "set", "counters": {"slots": {"value": "7"}}}]
    used = [{"counterSet": "set", "counters": {"slots": {"value": "2"}}}]
    taint = {"key": "old", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}
    part = dra.device("d", consumesCounters=used, taints=[taint], allowMultipleAllocations=True)
    part["capacity"] = {"memory": {"value": "8Gi", "requestPolicy": policy}}
    devices = build(
        dra.resource_slice("s", [part], node="n", count=2),
        dra.resource_slice("t", node="n", count=2, sharedCounters=shared),
    ).devices
    (content,) = devices.contents
    assert MessageToDict(content) == {
        "capacities": [
            {
                "name": "memory",
                "value": "8Gi",
                "hasPolicy": True,
                "defaultRequest": "1Gi",
                "validRange": {"min": "1Gi", "step": "2Gi"},
            }
        ],
        "consumedCounters": [{"name": "set", "counters": [{"name": "slots", "value": "2"}]}],
        "taints": [{"key": "old", "effect": "NoSchedule"}],
        "allowMultipleAllocations": True,
    }
    assert column(devices.slices.counter_set) == [0, 1]
    (sets,) = devices.counter_sets
    assert MessageToDict(sets) == {"sets": [{"name": "set", "counters": [{"name": "slots", "value": "7"}]}]}


def test_a_claim_has_its_devices_its_pod_and_those_who_use_it() -> None:
    pod = k8s.pod("web", node="n1")
    share = dra.resource_claim("shared", devices=["n1/gpu-0", "n1/gpu-1"], users=["web", "other"])
    results = share["status"]["allocation"]["devices"]["results"]
    results[1] |= {"shareID": "x", "consumedCapacity": {"memory": "1Gi"}, "adminAccess": True}
    share["status"]["reservedFor"].append({"apiGroup": "g", "resource": "things", "name": "web"})
    devices = build(
        pod, dra.resource_claim("web-gpu", of=pod, entry="gpu", devices=["n1/gpu-2"], node="n1"), share
    ).devices
    claims = devices.claims
    assert claims.count == 2
    assert (claims.names, column(claims.name_lengths)) == (b"sharedweb-gpu", [6, 7])
    assert (claims.pods, column(claims.pod_lengths)) == (b"web", [0, 3])
    assert strings_of(devices, claims.pod_claim) == ["", "gpu"]
    assert column(claims.flags, "u1") == [1, 1]
    assert strings_of(devices, claims.node) == ["", "n1"]
    assert column(claims.result_claim) == [0, 0, 1]
    assert strings_of(devices, claims.result_device) == ["gpu-0", "gpu-1", "gpu-2"]
    assert column(claims.result_flags, "u1") == [0, 3, 0]
    assert column(claims.capacity_result) == [1]
    assert strings_of(devices, claims.capacity_name + claims.capacity_amount) == ["memory", "1Gi"]
    assert column(claims.consumer_claim) == [0, 0, 0]
    assert (claims.consumers, column(claims.consumer_lengths)) == (b"webother", [3, 5, 0])


def test_a_claim_that_goes_or_whose_device_could_not_be_bound_says_so() -> None:
    going = dra.resource_claim("a", deletionTimestamp="2026-01-01T00:00:00Z")
    failed = dra.resource_claim("b", devices=["p/d"])
    failed["status"]["allocation"]["devices"]["results"][0]["bindingFailureConditions"] = ["Broken"]
    failed["status"]["devices"] = [
        {"driver": dra.DRIVER, "pool": "p", "device": "d", "conditions": [{"type": "Broken", "status": "True"}]}
    ]
    assert column(build(going, failed).devices.claims.flags, "u1") == [2, 1 | 4]


def test_rules_and_classes_are_passed_on() -> None:
    devices = build(
        dra.device_class("gpu", MODEL, extended="example.com/gpu", created="2026-01-01T00:00:00Z"),
        dra.taint_rule("r", pool="p"),
    ).devices
    assert MessageToDict(devices.classes[0]) == {
        "name": "gpu", "selectors": [MODEL], "extendedResourceName": "example.com/gpu",
        "createTime": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    (rule,) = devices.taint_rules
    assert (rule.pool, rule.HasField("driver"), rule.taint.key) == ("p", False, "broken")


def test_a_node_group_declares_the_slices_of_new_nodes() -> None:
    group = k8s.node_group("g", template=k8s.node())
    group["spec"]["template"]["resourceSlices"] = [{"spec": dra.gpus("n1")["spec"] | {"nodeName": None}}]
    devices = build(group, dra.gpus("n2")).devices
    (template,) = devices.templates
    assert template.node_group == "g"
    assert [(one.driver, one.pool, one.device_set) for one in template.slices] == [(dra.DRIVER, "n1", 1)]


def test_the_version_of_the_allocator_is_that_of_the_newest_kubelet() -> None:
    node = k8s.node() | {"status": {"nodeInfo": {"kubeletVersion": "v1.36.3"}}}
    assert build(node, dra.gpus("n1")).devices.kubernetes_minor == 36
    assert build(k8s.node(), dra.gpus("n1")).devices.kubernetes_minor == 0
    assert not build(node, k8s.pod()).HasField("devices")


def test_a_cluster_without_devices_has_no_message() -> None:
    assert not build(k8s.node(), k8s.pod()).HasField("devices")


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        pytest.param(
            dra.resource_slice("s", [dra.device("d")], node="n", sharedCounters=[{"name": "c"}]),
            "ResourceSlice s: spec.sharedCounters: the slice has devices too",
            id="devices and counters",
        ),
        pytest.param(
            dra.resource_slice("s", [dra.device("d"), dra.device("d")], node="n"),
            "ResourceSlice s: spec.devices: d is given twice; nothing of its pool is allocated",
            id="a device twice",
        ),
        pytest.param(
            dra.resource_slice("s", [dra.device(f"d{at}") for at in range(129)], node="n"),
            "ResourceSlice s: spec.devices: there are 129; give at most 128",
            id="too many devices",
        ),
        pytest.param(
            dra.resource_slice("s", [dra.device(f"d{at}", taints=[{"key": "k"}]) for at in range(65)], node="n"),
            "ResourceSlice s: spec.devices: there are 65; give at most 64",
            id="too many devices with taints",
        ),
        pytest.param(
            dra.resource_slice("s", [dra.device("d")], node="n", allNodes=True),
            "ResourceSlice s: spec: more than one of nodeName, nodeSelector, allNodes",
            id="two places",
        ),
        pytest.param(
            dra.resource_slice("s", [dra.device("d")]),
            "ResourceSlice s: spec.pool.name: it is missing",
            id="no pool",
        ),
        pytest.param(
            dra.resource_slice(
                "s",
                pool="p",
                nodeSelector={"nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "Is"}]}]},
            ),
            "ResourceSlice s: spec.nodeSelector",
            id="a broken selector",
        ),
        pytest.param(
            dra.resource_claim("c", dra.claim_spec(*[dra.request(f"r{at}") for at in range(33)])),
            "ResourceClaim default/c: spec.devices.requests: there are 33; give at most 32",
            id="too many requests",
        ),
        pytest.param(
            dra.resource_claim("c", dra.claim_spec({"name": "a"})),
            "ResourceClaim default/c: spec.devices.requests[0]: neither of `exactly` and `firstAvailable` is given",
            id="neither form",
        ),
        pytest.param(
            dra.resource_claim("c", dra.claim_spec(dra.request("a", ""))),
            "ResourceClaim default/c: spec.devices.requests[0].exactly.deviceClassName: it is missing",
            id="no class",
        ),
        pytest.param(
            dra.resource_claim("c", dra.claim_spec(constraints=[{"requests": ["main"]}])),
            "ResourceClaim default/c: spec.devices.constraints[0]: neither of `matchAttribute`",
            id="an empty constraint",
        ),
        pytest.param(
            dra.resource_claim("c", devices=[f"n/gpu-{at}" for at in range(33)], node="n"),
            "ResourceClaim default/c: status.allocation.devices.results: there are 33; the API allows at most 32; pods",
            id="more devices than a claim may have",
        ),
        pytest.param(
            dra.device_class("gpu", "x" * 10241),
            "DeviceClass gpu: spec.selectors[0].cel.expression: the expression has more than 10240 bytes",
            id="a long expression",
        ),
        pytest.param(
            {"apiVersion": dra.VERSION, "kind": "DeviceTaintRule", "metadata": {"name": "r"}, "spec": {}},
            "DeviceTaintRule r: spec.taint.key: it is missing; the rule is left out",
            id="a rule without taint",
        ),
    ],
)
def test_what_cannot_be_used_is_named_with_object_and_field_and_all_else_is_decided(item: Json, expected: str) -> None:
    (found,) = [note for note in notes(item, dra.gpus("n9"), k8s.pod()) if note.startswith(item["kind"])]
    assert found.startswith(expected)
    assert build(item, dra.gpus("n9")).devices.slices.count >= 1


def test_a_slice_of_a_wrong_type_is_refused_with_its_field() -> None:
    broken = dra.resource_slice("s", [dra.device("d", attributes={"model": {"int": "x"}})], node="n")
    with pytest.raises(ValueError, match=r"ResourceSlice s: spec.devices\[0\].attributes"):
        decode_objects([broken])


def test_the_table_follows_from_the_objects_alone_whatever_their_order() -> None:
    objects = [dra.device_class(), *map(dra.gpus, ("n2", "n1")), dra.resource_claim("b"), dra.resource_claim("a")]
    first, second = (build(*items).devices.SerializeToString(deterministic=True) for items in (objects, objects[::-1]))
    assert first == second
