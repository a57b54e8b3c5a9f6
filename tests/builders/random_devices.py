"""Random devices and claims of them as plain JSON dicts, as an API server would print them: quantities are in their
canonical form, and fields without a value are left out. Some objects are such that an API server would refuse them.
"""

from collections.abc import Sequence
from random import Random
from typing import Any

Json = dict[str, Any]
API = "resource.k8s.io/v1"
DRIVERS = ("gpu.example.com", "nic.example.com")
CLASSES = ("gpu", "nic", "any")
EXTENDED = ("nvidia.com/gpu", "deviceclass.resource.kubernetes.io/nic")
_EXPRESSIONS = (
    'device.driver == "gpu.example.com"',
    'device.attributes["gpu.example.com"].model == "A100"',
    "device.attributes['gpu.example.com']['cores'] > 4",
    '"rack" in device.attributes["gpu.example.com"]',
    'device.capacity["gpu.example.com"].memory.compareTo(quantity("10Gi")) > 0',
    'device.attributes["gpu.example.com"].?model.orValue("") == "B"',
    'device.attributes["gpu.example.com"].exists(k, k == "x")',
    "device.attributes.size() > 1",
    "",
)
_AMOUNTS = ("40Gi", "1", "500m", "10", "1Ti")


class _Random(Random):
    """A source of chance with the two questions that are asked here."""

    def may(self, chance: float) -> bool:
        return self.random() < chance

    def some(self, items: Sequence[Any], chance: float = 0.5) -> list[Any]:
        return [one for one in items if self.may(chance)]


def device_objects(seed: float, nodes: Sequence[str], namespaces: Sequence[str], pods: Sequence[Json]) -> list[Json]:
    """Return classes, slices, rules, templates and claims; `pods` may own claims."""
    random = _Random(seed)
    out = [_class(random, name) for name in random.some(CLASSES, 0.8)]
    out += [_slice(random, f"slice-{at}", [*nodes, "gone"]) for at in range(random.randint(0, 6))]
    out += [_rule(random, f"rule-{at}") for at in range(random.randint(0, 2))]
    for namespace in namespaces:
        out += [_template(random, name, namespace) for name in random.some(("template", "more"), 0.6)]
        owned = [pod for pod in pods if pod["metadata"]["namespace"] == namespace]
        out += [_claim(random, name, namespace, owned, nodes) for name in random.some(("shared", "made", "x"), 0.6)]
    return out


def group_slices(seed: float) -> list[Json]:
    """Return the slices that a node group declares."""
    random = _Random(seed)
    return [_slice(random, f"new-{at}", ()) for at in range(random.randint(0, 2))]


def _object(kind: str, name: str, spec: Json, namespace: str = "", **more: Any) -> Json:
    meta = {"name": name, **({"namespace": namespace} if namespace else {}), **more}
    return {"apiVersion": API, "kind": kind, "metadata": meta, "spec": spec}


def _selectors(random: _Random) -> Json:
    found = [{"cel": {"expression": text} if text else {}} for text in random.some(_EXPRESSIONS, 0.2)]
    return {"selectors": found} if found else {}


def _class(random: _Random, name: str) -> Json:
    spec = _selectors(random)
    if name == "gpu" and random.may(0.6):
        spec["extendedResourceName"] = EXTENDED[0]
    if random.may(0.1):
        spec["config"] = [{"opaque": {"driver": DRIVERS[0], "parameters": {"a": 1}}}]
    return _object("DeviceClass", name, spec, creationTimestamp="2026-01-01T00:00:00Z")


def _node_selector(random: _Random, nodes: Sequence[str]) -> Json:
    field = {"key": "metadata.name", "operator": "In", "values": [random.choice([*nodes, "gone"])]}
    zone = {"key": "topology.kubernetes.io/zone", "operator": random.choice(("In", "NotIn")), "values": ["b", "a"]}
    terms = random.choice(
        (
            [{"matchFields": [field]}],
            [{"matchExpressions": [zone]}],
            [{"matchExpressions": [zone], "matchFields": [field]}],
        )
    )
    return {"nodeSelectorTerms": terms}


def _attribute(random: _Random) -> Json:
    return random.choice(
        (
            {"int": random.randint(0, 9)},
            {"bool": random.may(0.5)},
            {"string": random.choice(("A100", "B", "é"))},
            {"version": "1.2.3"},
            {"strings": ["a", "b"]},
            {"ints": [1, 2]},
        )
    )


def _capacity(random: _Random) -> Json:
    out: Json = {"value": random.choice(_AMOUNTS)}
    if random.may(0.3):
        policy: Json = {"default": random.choice(_AMOUNTS)} if random.may(0.7) else {}
        if random.may(0.5):
            policy["validValues"] = random.some(_AMOUNTS) or ["1"]
        elif random.may(0.5):
            policy["validRange"] = {"min": "1", **({"max": "10"} if random.may(0.5) else {"step": "1"})}
        out["requestPolicy"] = policy or {"default": "1"}
    return out


def _device(random: _Random, name: str, per_device: bool, nodes: Sequence[str]) -> Json:
    names = ("model", "gpu.example.com/cores", "uuid", "rack")
    out: Json = {"name": name}
    if attributes := {key: _attribute(random) for key in random.some(names)}:
        out["attributes"] = attributes
    if capacity := {key: _capacity(random) for key in random.some(("memory", "gpu.example.com/slots"))}:
        out["capacity"] = capacity
    if random.may(0.15):
        out["consumesCounters"] = [{"counterSet": "set-0", "counters": {"memory": {"value": random.choice(_AMOUNTS)}}}]
    if random.may(0.2):
        out["taints"] = [
            {"key": "broken", "effect": random.choice(("NoSchedule", "None")), "timeAdded": "2026-01-02T03:04:05Z"}
        ]
    if per_device:
        out |= random.choice(({"nodeName": "n0"}, {"allNodes": True}, {"nodeSelector": _node_selector(random, nodes)}))
    for key in random.some(("bindsToNode", "allowMultipleAllocations"), 0.2):
        out[key] = True
    if random.may(0.2):
        out |= {"bindingConditions": ["Ready"], "bindingFailureConditions": ["Failed"]}
    return out


def _slice(random: _Random, name: str, nodes: Sequence[str]) -> Json:
    driver, node = random.choice(DRIVERS), random.choice([*nodes, "shared"])
    pool = {"name": node, "generation": random.randint(1, 3), "resourceSliceCount": random.randint(1, 2)}
    spec: Json = {"driver": driver if random.may(0.95) else "", "pool": pool}
    spec |= random.choice(
        (
            {"nodeName": node},
            {"allNodes": True},
            {"nodeSelector": _node_selector(random, nodes)},
            {"perDeviceNodeSelection": True},
            {"nodeName": node, "allNodes": True} if random.may(0.2) else {"nodeName": node},
        )
    )
    if random.may(0.2):
        counters = {"memory": {"value": random.choice(_AMOUNTS)}}
        spec["sharedCounters"] = [{"name": f"set-{at}", "counters": counters} for at in range(random.randint(1, 9))]
    else:
        per_device = "perDeviceNodeSelection" in spec
        kinds = [_device(random, "", per_device, nodes) for _ in range(2)]
        count = random.choice((0, 1, 2, 4, 70))
        names = [f"device-{at if random.may(0.97) else 0}" for at in range(count)]
        if names:
            spec["devices"] = [random.choice(kinds) | {"name": one} for one in names]
    return _object("ResourceSlice", name, spec)


def _rule(random: _Random, name: str) -> Json:
    taint = {"key": random.choice(("broken", "broken", "")), "effect": "NoExecute", "value": "x"}
    selector = dict(random.some((("driver", DRIVERS[0]), ("pool", "shared"), ("device", "device-0"))))
    spec: Json = {"taint": taint, **({"deviceSelector": selector} if selector else {})}
    return _object("DeviceTaintRule", name, spec) | {"apiVersion": "resource.k8s.io/v1beta2"}


def _kind(random: _Random, name: str = "") -> Json:
    out: Json = {"name": name} if name else {}
    out["deviceClassName"] = random.choice(CLASSES) if random.may(0.99) else ""
    out |= _selectors(random)
    out |= random.choice(
        ({}, {"allocationMode": "ExactCount", "count": 2}, {"allocationMode": "All"}, {"allocationMode": "Other"})
    )
    if random.may(0.2):
        out["tolerations"] = [{"key": "broken", "operator": "Exists", "tolerationSeconds": random.randint(1, 2)}]
    if random.may(0.2):
        out["capacity"] = {"requests": {"memory": random.choice(_AMOUNTS)}}
    return out


def _request(random: _Random, name: str) -> Json:
    form = random.random()
    if form < 0.7:
        more = {"adminAccess": True} if random.may(0.1) else {}
        return {"name": name, "exactly": _kind(random) | more}
    if form < 0.99:
        return {"name": name, "firstAvailable": [_kind(random, f"sub-{at}") for at in range(random.randint(1, 3))]}
    return {"name": name}


def claim_spec(random: _Random) -> Json:
    """Return what a claim asks for."""
    names = ["main", *random.some(("more", "third"), 0.3), *random.some(("main",), 0.03)]
    devices: Json = {"requests": [_request(random, name) for name in names]}
    if random.may(0.2):
        key = random.choice(("matchAttribute", "distinctAttribute"))
        devices["constraints"] = [{key: "gpu.example.com/rack", **({"requests": ["main"]} if random.may(0.5) else {})}]
    if random.may(0.03):
        devices["constraints"] = [{"requests": ["main"]}]
    if random.may(0.1):
        devices["config"] = [{"opaque": {"driver": DRIVERS[0], "parameters": {"a": random.randint(1, 2)}}}]
    return {"devices": devices}


def _template(random: _Random, name: str, namespace: str) -> Json:
    return _object("ResourceClaimTemplate", name, {"spec": claim_spec(random)}, namespace)


def _result(random: _Random, nodes: Sequence[str]) -> Json:
    out: Json = {
        "request": "main",
        "driver": DRIVERS[0],
        "pool": random.choice([*nodes, "shared"]),
        "device": "device-0",
    }
    if random.may(0.2):
        out["adminAccess"] = True
    if random.may(0.2):
        out |= {"shareID": "11111111-1111-1111-1111-111111111111", "consumedCapacity": {"memory": "1Gi", "b": "2"}}
    if random.may(0.3):
        out["bindingFailureConditions"] = ["Failed"]
    return out


def _claim(random: _Random, name: str, namespace: str, pods: Sequence[Json], nodes: Sequence[str]) -> Json:
    more: Json = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if random.may(0.1) else {}
    if pods and random.may(0.5):
        meta = random.choice(list(pods))["metadata"]
        uid = random.choice((meta.get("uid", ""), "another"))
        kind = random.choice(("Pod", "Pod", "PodGroup"))
        owner = {"apiVersion": "v1", "kind": kind, "name": meta["name"], "uid": uid, "controller": random.may(0.9)}
        more["ownerReferences"] = [owner]
        if random.may(0.8):
            more["annotations"] = {"resource.kubernetes.io/pod-claim-name": "nic"}
    status: Json = {}
    if random.may(0.6):
        allocation: Json = {"devices": {"results": [_result(random, nodes) for _ in range(random.randint(0, 2))]}}
        if random.may(0.7):
            allocation["nodeSelector"] = _node_selector(random, nodes)
        status["allocation"] = allocation
        if random.may(0.3):
            conditions = [{"type": "Failed", "status": random.choice(("True", "False"))}]
            device = {"driver": DRIVERS[0], "pool": "shared", "device": "device-0", "conditions": conditions}
            status["devices"] = [device]
    if random.may(0.6):
        users = [{"resource": "pods", "name": f"p{at}", "uid": "u"} for at in range(random.randint(0, 2))]
        status["reservedFor"] = [*users, {"apiGroup": "example.com", "resource": "jobs", "name": "j", "uid": "u"}]
    return _object("ResourceClaim", name, claim_spec(random), namespace, **more) | {"status": status}
