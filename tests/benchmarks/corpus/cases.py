"""The clusters of the corpus: those recorded in the repository, and generated ones for each kind of decision.

A case never changes once it has results: a changed cluster is another case, with another name.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from google.protobuf.json_format import ParseDict

from tests.benchmarks.clusters import snapshot
from tests.builders import kubernetes as k8s
from tests.builders.device_objects import claim_template, claiming_pod, device_class, gpus, resource_claim
from tests.builders.pod_group_objects import pod_group
from tests.builders.priced_clusters import ZONE_LABEL, ZONES, mixed_pools, shrunk_fleet
from tests.builders.shop_and_batch_clusters import batch, shops
from trimtab.clients.cluster_generator import ClusterShape
from trimtab.common.objects import read_files
from trimtab.v1 import plan_pb2
from trimtab.v1 import snapshot_pb2 as pb

Json = dict[str, Any]
RECORDINGS = Path(__file__).parents[3] / "clients" / "data" / "recordings"
NOW_S = 1_800_000_000
GENERATORS: dict[str, Callable[[int], Any]] = {
    "pools": mixed_pools,
    "fleet": shrunk_fleet,
    "shops": shops,
    "batch": batch,
}
MACHINES = (("small", 2, 8, 0.10), ("even", 8, 32, 0.37), ("cores", 16, 32, 0.62), ("memory", 8, 64, 0.51))
"""Name, cores, GiB and price of new nodes."""


class Case(NamedTuple):
    """A cluster and what is asked about it."""

    name: str
    snapshot: pb.ClusterSnapshot
    request: plan_pb2.PlanRequest


def cases() -> Iterator[Case]:
    """Yield all cases. Each is made when it is asked for."""
    for path in sorted(RECORDINGS.glob("*.json.gz")):
        yield _case(f"recorded {path.name.partition('.')[0]}", read_files([path]).snapshot, "SCALE_DOWN", "SCALE_UP")
    for kind, make in GENERATORS.items():
        for seed in range(7000, 7005):
            threshold = {"utilizationThreshold": (1.0, 0.7, 0.5)[seed % 3]}
            yield _case(f"money {kind} {seed}", make(seed).objects(), "SCALE_DOWN", scaleDown=threshold)
        yield _case(f"count {kind}", make(7010).objects(), "SCALE_DOWN", scaleDown={"objective": "COUNT"})
        yield _case(f"replacement {kind}", make(7020).objects(), "REPLACEMENT", scaleUp={"maxNewNodes": 50})
        for seed in range(7030, 7033):
            yield _case(f"growth {kind} {seed}", list(_waiting(make(seed), seed)), "SCALE_UP")
        yield _case(f"slack {kind}", make(7040).objects(), "SLACK", "SCALE_DOWN", slack={"extraCapacityMinRate": 0.1})
    for seed in range(7050, 7053):
        yield _case(f"gangs {seed}", list(_gangs(seed)), "SCALE_UP")
        yield _case(f"devices {seed}", list(_devices(seed)), "SCALE_DOWN")
    for nodes, seed in ((60, 2), (60, 3), (120, 4), (300, 2)):
        generated = snapshot(ClusterShape(nodes=nodes, pods=20 * nodes, seed=seed))
        yield _case(f"generated {nodes} {seed}", generated, "SCALE_DOWN", "REPLACEMENT")


def _case(name: str, cluster: pb.ClusterSnapshot | list[Json], *decisions: str, **settings: Json) -> Case:
    snapshot = cluster if isinstance(cluster, pb.ClusterSnapshot) else k8s.snapshot_of(*cluster)
    request = ParseDict({"decisions": decisions, "settings": settings}, plan_pb2.PlanRequest())
    request.now.seconds = NOW_S
    return Case(name, snapshot, request)


def _groups(zones: Sequence[str] = ZONES) -> Iterator[Json]:
    """Yield priced node groups of several machines, in each zone."""
    for name, cores, memory, price in MACHINES:
        for at, zone in enumerate(zones):
            template = k8s.node(f"new-{name}-{zone}", f"{cores}", f"{memory}Gi", zone=zone)
            yield k8s.node_group(f"{name}-{zone}", 0, 200, price=round(price * (1 + 0.01 * at), 4), template=template)


def _waiting(cluster: Any, seed: int) -> Iterator[Json]:
    """Yield a cluster's pods without their nodes, and groups that could take them."""
    objects, random = cluster.objects(), Random(seed)
    zones = sorted({one["metadata"]["labels"][ZONE_LABEL] for one in objects if one["kind"] == "Node"})
    yield from _groups(zones)
    for one in objects:
        owners = {owner["kind"] for owner in one["metadata"].get("ownerReferences", ())}
        if one["kind"] == "Pod" and "DaemonSet" not in owners:
            waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
            spec = {key: value for key, value in one["spec"].items() if key != "nodeName"}
            if random.random() < 0.1:
                spec["nodeSelector"] = {ZONE_LABEL: random.choice(zones)}
            yield {**one, "spec": spec, "status": {"phase": "Pending", "conditions": [waits]}}
        elif one["kind"] not in ("Pod", "Node", "NodeGroup", "DaemonSet"):
            yield one


def _gangs(seed: int) -> Iterator[Json]:
    """Yield gangs of several sizes that wait, beside single pods."""
    random = Random(seed)
    yield from _groups()
    for number in range(6):
        least = random.randint(2, 12)
        yield pod_group(f"team-{number}", least)
        for member in range(least + random.randint(0, 2)):
            spec = {"schedulingGroup": {"podGroupName": f"team-{number}"}}
            yield k8s.pod(f"t{number}-{member}", f"{random.choice((500, 1500, 3000))}m", "2Gi", spec=spec)
    for number in range(20):
        yield k8s.pod(f"single-{number}", f"{random.randint(1, 20) * 100}m", "1Gi")


def _devices(seed: int) -> Iterator[Json]:
    """Yield nodes with devices that few pods use, of two prices, and pods that move with their claims or without."""
    random = Random(seed)
    yield device_class()
    yield claim_template()
    owner = k8s.replica_set("train", 12)
    yield owner
    names = [f"gpu-{number}" for number in range(8)]
    for price, mine in ((3.0, names[:4]), (3.4, names[4:])):
        yield k8s.node_group(f"at-{price}", 0, 20, nodes=mine, target=len(mine), price=price)
    for name in names:
        yield k8s.node(name, "32", "128Gi", zone=ZONES[0])
        yield gpus(name, 4)
    for number, name in enumerate(names):
        for device in range(random.randint(0, 2)):
            pod = claiming_pod(
                f"train-{number}-{device}", templates={"gpu": "one-gpu"}, made={"gpu": f"claim-{number}-{device}"},
                cpu=f"{random.randint(1, 6)}", memory="4Gi", node=name, owner=owner,
            )  # fmt: skip
            yield pod
            yield resource_claim(
                f"claim-{number}-{device}", of=pod, entry="gpu", devices=[f"{name}/gpu-{device}"], node=name,
                users=[pod["metadata"]["name"]],
            )  # fmt: skip
        for plain in range(random.randint(0, 5)):
            yield k8s.pod(f"plain-{number}-{plain}", f"{random.randint(2, 30) * 100}m", "2Gi", node=name, owner=owner)
