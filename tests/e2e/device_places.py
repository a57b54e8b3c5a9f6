"""Nodes with devices of several drivers, and pods with eight kinds of claims that compete for them."""

import random
from typing import Any

from tests.builders import device_objects as dra
from tests.e2e import workloads

Json = dict[str, Any]
NIC, PART, NET, FABRIC = "nic.example.com", "part.example.com", "net.example.com", "fabric.example.com"
NUMA = "example.com/numa"
EXTENDED = "example.com/accelerator"
GPU_NODES, PART_NODES, NET_NODES = 12, 6, 4
GPUS, NICS = 6, 3


def objects() -> list[Json]:
    """Return nodes, slices, classes, templates and shared claims."""
    gpu = [f"gpu-{number}" for number in range(1, GPU_NODES + 1)]
    part = [f"part-{number}" for number in range(1, PART_NODES + 1)]
    net = [f"net-{number}" for number in range(1, NET_NODES + 1)]
    slices = [_gpus(node, number) for number, node in enumerate(gpu)]
    slices += [_nics(node) for node in gpu[: GPU_NODES // 2]]
    slices += [one for node in part for one in _parts(node)]
    slices += [_network(node) for node in net]
    slices.append(_fabric())
    nodes = [
        *workloads.nodes("gpu", GPU_NODES, pool="gpu"),
        *workloads.nodes("part", PART_NODES, pool="part"),
        *workloads.nodes("net", NET_NODES, pool="net"),
    ]
    return [*nodes, *slices, *_classes(), *_templates(), *_shared_claims()]


def _gpus(node: str, number: int) -> Json:
    """Six devices; the model changes with the node, and the last ones of some nodes are tainted."""
    model = ("A100", "H100", "A100")[number % 3]
    devices = []
    for at in range(GPUS):
        taints = [{"key": "aged", "value": "yes", "effect": "NoSchedule"}] if number % 4 == 3 and at > 2 else []
        attributes = {"model": model, "uuid": f"{node}-{at}", NUMA: {"int": at // 2}}
        memory = "40Gi" if (number + at) % 3 else "80Gi"
        devices.append(dra.device(f"gpu-{at}", attributes=attributes, capacities={"memory": memory}, taints=taints))
    return dra.resource_slice(f"{node}-gpu", devices, node=node)


def _nics(node: str) -> Json:
    devices = [dra.device(f"nic-{at}", attributes={NUMA: {"int": at}}) for at in range(NICS)]
    return dra.resource_slice(f"{node}-nic", devices, node=node, driver=NIC)


def _parts(node: str) -> list[Json]:
    """One device of seven units, as a whole, as two of three units, or as seven of one."""
    sizes = {"whole": 7, "half-0": 3, "half-1": 3, **{f"unit-{at}": 1 for at in range(7)}}
    devices = [
        dra.device(
            name,
            attributes={"size": {"int": size}},
            consumesCounters=[{"counterSet": "card", "counters": {"units": {"value": str(size)}}}],
        )
        for name, size in sizes.items()
    ]
    counters = [{"name": "card", "counters": {"units": {"value": "7"}}}]
    common = {"node": node, "driver": PART, "count": 2}
    card = dra.resource_slice(f"{node}-card", **common, sharedCounters=counters)
    del card["spec"]["devices"]
    return [card, dra.resource_slice(f"{node}-parts", devices, **common)]


def _network(node: str) -> Json:
    """A device whose bandwidth is shared."""
    policy = {"default": "1G", "validRange": {"min": "1G", "step": "1G", "max": "10G"}}
    port = dra.device("port", allowMultipleAllocations=True)
    port["capacity"] = {"bandwidth": {"value": "10G", "requestPolicy": policy}}
    return dra.resource_slice(f"{node}-net", [port], node=node, driver=NET)


def _fabric() -> Json:
    """Devices that several nodes reach."""
    terms = [{"matchExpressions": [{"key": "pool", "operator": "In", "values": ["net", "part"]}]}]
    devices = [dra.device(f"link-{at}") for at in range(6)]
    spec = {"driver": FABRIC, "nodeSelector": {"nodeSelectorTerms": terms}}
    return dra.resource_slice("fabric", devices, pool="fabric", **spec)


def _classes() -> list[Json]:
    of_driver = {"gpu": dra.DRIVER, "nic": NIC, "part": PART, "net": NET, "fabric": FABRIC}
    made = [dra.device_class(name, f'device.driver == "{driver}"') for name, driver in of_driver.items()]
    accelerators = f'device.driver == "{dra.DRIVER}" && device.attributes["{dra.DRIVER}"].model == "A100"'
    return [*made, dra.device_class("accelerator", accelerators, extended=EXTENDED)]


def _template(name: str, *requests: Json, constraints: list[Json] | None = None) -> Json:
    return dra.claim_template(name, dra.claim_spec(*requests, constraints=constraints or []))


def _templates() -> list[Json]:
    def selected(text: str) -> Json:
        return {"selectors": [{"cel": {"expression": text}}]}

    large = f'device.capacity["{dra.DRIVER}"].memory.compareTo(quantity("80Gi")) >= 0'
    half = f'device.attributes["{PART}"].size == 3'
    unit = f'device.attributes["{PART}"].size == 1'
    h100 = f'device.attributes["{dra.DRIVER}"].model == "H100"'
    tolerated = {"tolerations": [{"key": "aged", "operator": "Exists"}]}
    either = [
        {"name": "new", "deviceClassName": "gpu", **selected(h100)},
        {"name": "two", "deviceClassName": "gpu", "count": 2},
    ]
    return [
        _template("large", dra.request("main", "gpu", **selected(large))),
        _template("aged", dra.request("main", "gpu", count=2, **tolerated)),
        _template("either", {"name": "main", "firstAvailable": either}),
        _template("near", dra.request("gpu", "gpu"), dra.request("nic", "nic"), constraints=[{"matchAttribute": NUMA}]),
        _template("half", dra.request("main", "part", **selected(half))),
        _template("unit", dra.request("main", "part", **selected(unit))),
        _template("all", dra.request("main", "nic", allocationMode="All")),
        _template("share", dra.request("main", "net", capacity={"requests": {"bandwidth": "3G"}})),
        _template("link", dra.request("main", "fabric")),
    ]


def _shared_claims() -> list[Json]:
    made = [dra.resource_claim(f"common-{at}", dra.claim_spec(dra.request("main", "gpu"))) for at in range(5)]
    for one in made:
        del one["status"]
    return made


KINDS = ("large", "aged", "either", "near", "half", "unit", "all", "share", "link", "common", "extended", "missing")
WEIGHTS = (5, 3, 4, 3, 3, 5, 1, 3, 2, 3, 4, 1)


def pods(count: int, seed: int) -> list[Json]:
    """Return pods with claims of all kinds, in a random order."""
    chance = random.Random(seed)
    kinds = [*KINDS, *chance.choices(KINDS, WEIGHTS, k=count - len(KINDS))]
    chance.shuffle(kinds)
    return [_pod(f"{kind}-{number:03}", kind, number) for number, kind in enumerate(kinds)]


def _pod(name: str, kind: str, number: int) -> Json:
    made = workloads.bare_pod(name, "20m")
    made["metadata"]["namespace"] = "default"
    spec = made["spec"]
    del spec["nodeSelector"]
    if kind == "extended":
        amounts = {EXTENDED: str(1 + number % 2)}
        spec["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    elif kind == "common":
        spec["resourceClaims"] = [{"name": "shared", "resourceClaimName": f"common-{number % 5}"}]
    elif kind == "missing":
        spec["resourceClaims"] = [{"name": "gone", "resourceClaimName": "nobody-made-it"}]
    else:
        spec["resourceClaims"] = [{"name": "own", "resourceClaimTemplateName": kind}]
    return made
