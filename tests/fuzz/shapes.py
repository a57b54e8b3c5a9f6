"""Requests whose work follows from a number or a text in them: each shape makes a valid request of any size.

A size is the number that is large in the shape: rules, pod sets, groups, levels of an expression. Small sizes are read
in full; large ones have to be refused, or ended at the deadline, within the memory of requests.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from trimtab.planner.service.warm_up import NOW_S, growing_cluster, small_cluster
from trimtab.v1 import plan_pb2
from trimtab.v1 import snapshot_pb2 as pb

Code = plan_pb2.Decision.Code
SCALING = (plan_pb2.Decision.SCALE_UP, plan_pb2.Decision.SCALE_DOWN)
CHECK = "check-capacity.autoscaling.x-k8s.io"
ATOMIC = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
EXPRESSIONS = (
    "[[1, 2, 3, 4, 5, 6, 7, 8]]{levels}.size() > 0",
    "['aaaaaaaa']{levels}.size() > 0",
    "['aaaaaaaa']{levels}.join(',').matches('(a*)*b')",
    "[[1, 2, 3, 4, 5, 6, 7, 8]]{levels} == [[1, 2, 3, 4, 5, 6, 7, 8]]{levels}",
    "['aaaaaaaa']{levels}.map(x, x.replace('', x)).size() > 0",
    "[[1, 2, 3, 4, 5, 6, 7, 8]]{levels}[0].sort().distinct().size() > 0",
    "lists.range(1000000){levels}.size() > 0",
    "lists.range(1000).all(a, lists.range(1000).all(b, a in [b]{levels}))",
)
"""Device selectors; {levels} stands for steps of which each makes the value eight times as large."""
_DEVICES = 128
"""Most devices of a slice."""
_LEVEL = ".map(x, x + x + x + x + x + x + x + x)"


class Shape(NamedTuple):
    """make : the request and the snapshot of a size; most : the size with which it was found to be too large."""

    make: Callable[[int], tuple[plan_pb2.PlanRequest, pb.ClusterSnapshot]]
    most: int


def asking(*decisions: "Code.ValueType") -> plan_pb2.PlanRequest:
    """Return a request for some decisions, complete except for the snapshot."""
    request = plan_pb2.PlanRequest(decisions=decisions or SCALING)
    request.now.seconds = NOW_S
    return request


def _int32(values: Iterable[int]) -> bytes:
    return np.fromiter(values, "<i4").tobytes()


def _add_slices(devices: pb.Devices, nodes: Iterable[str], device_set: Sequence[int], driver: str = "gpu") -> None:
    """Put a slice on each node, with its device set, numbered from 1."""
    strings = {text: at for at, text in enumerate(devices.strings)}
    names = list(nodes)
    node = [strings.setdefault(name, len(strings)) for name in names]
    of_driver = strings.setdefault(driver, len(strings))
    del devices.strings[:]
    devices.strings.extend(strings)
    table, count = devices.slices, len(names)
    table.count = count
    texts = [f"slice-{name}".encode() for name in names]
    table.names, table.name_lengths = b"".join(texts), _int32(map(len, texts))
    table.driver, table.pool, table.node = _int32([of_driver] * count), _int32(node), _int32(node)
    table.generation = table.slice_count = np.ones(count, "<i8").tobytes()
    table.node_selector, table.flags = _int32([0] * count), bytes(count)
    table.device_set, table.counter_set = _int32(device_set), _int32([0] * count)


def _with_devices(count: int = 1, selector: str = "true") -> pb.ClusterSnapshot:
    """Return a cluster with devices on a node, and a pod that waits for one of them."""
    cluster = growing_cluster()
    devices = cluster.devices
    devices.strings.extend(["", *(f"gpu-{at}" for at in range(count))])
    devices.contents.add()
    devices.device_sets.add(names=range(1, count + 1), contents=[0] * count)
    devices.classes.add(name="gpu", selectors=[selector])
    _add_slices(devices, ["a"], [1])
    claim = cluster.pod_specs[1].claims.add(name="gpu")
    claim.spec.requests.add(name="gpu").alternatives.add(
        device_class="gpu", count=1, mode=pb.DeviceAllocationMode.EXACT_COUNT
    )
    return cluster


def expressions(size: int) -> tuple[plan_pb2.PlanRequest, pb.ClusterSnapshot]:
    """Select devices by an expression whose values grow eightfold `size` times; which one follows from the size."""
    return asking(), _with_devices(3, EXPRESSIONS[size % len(EXPRESSIONS)].format(levels=_LEVEL * size))


def pod_sets(size: int) -> tuple[plan_pb2.PlanRequest, pb.ClusterSnapshot]:
    """Ask for room for `size` ProvisioningRequests with 32 sets of 100,000 pods each."""
    cluster = small_cluster()
    given = cluster.capacity_requests
    given.dictionary.strings.append("")
    given.dictionary.resources.append("cpu")
    given.dictionary.pod_specs.add().requests.add(resource=0, amount=100)
    given.dictionary.label_sets.offsets = bytes(8)
    for at in range(size):
        row = given.requests.add(namespace="default", name=f"r{at}", class_name=ATOMIC if at % 8 == 7 else CHECK)
        for _ in range(32):
            row.pod_sets.add(spec=0, count=100_000)
    return asking(plan_pb2.Decision.CAPACITY_REQUESTS), cluster


def taint_rules(size: int) -> tuple[plan_pb2.PlanRequest, pb.ClusterSnapshot]:
    """Give `size` DeviceTaintRules to as many devices."""
    cluster = _with_devices(1)
    devices = cluster.devices
    first = len(devices.strings)
    devices.strings.extend(f"gpu-{at}" for at in range(size))
    for start in range(0, size, _DEVICES):
        names = range(first + start, first + min(start + _DEVICES, size))
        devices.device_sets.add(names=names, contents=[0] * len(names))
    count = len(devices.device_sets) - 1
    _add_slices(devices, [f"node-{at}" for at in range(count)], range(2, count + 2))
    for at in range(size):
        rule = devices.taint_rules.add(device=f"gpu-{at}") if at % 2 else devices.taint_rules.add(driver="gpu")
        rule.taint.key, rule.taint.effect = f"broken-{at}", "NoSchedule"
    return asking(), cluster


def tainted_slices(size: int) -> tuple[plan_pb2.PlanRequest, pb.ClusterSnapshot]:
    """Give `size` DeviceTaintRules to as many slices, of which each is named by one of them and all by some."""
    cluster = _with_devices(1)
    devices = cluster.devices
    _add_slices(devices, [f"node-{at}" for at in range(size)], [1] * size)
    for at in range(size):
        rule = devices.taint_rules.add(pool=f"node-{at}") if at % 2 else devices.taint_rules.add(device=f"gpu-{at}")
        rule.taint.key, rule.taint.effect = f"broken-{at}", "NoSchedule"
    return asking(), cluster


def missing_members(size: int) -> tuple[plan_pb2.PlanRequest, pb.ClusterSnapshot]:
    """Name `size` gangs of which a thousand members are missing each."""
    cluster = growing_cluster()
    for at in range(size):
        group = cluster.pod_groups.add(
            namespace="default", name=f"g{at}", policy=pb.PodGroupPolicy.GANG, min_count=1000
        )
        group.desired_count = 1000
        group.pod_template.namespace, group.pod_template.spec = "default", 0
    request = asking()
    request.settings.gangs.count_missing_members = True
    return request, cluster


def own_claims(size: int) -> tuple[plan_pb2.PlanRequest, pb.ClusterSnapshot]:
    """Give `size` pod specs claims of their own, each unlike the others."""
    cluster = _with_devices(8)
    for at in range(size):
        spec = cluster.pod_specs.add()
        spec.CopyFrom(cluster.pod_specs[1])
        wanted = spec.claims[0].spec.requests[0].alternatives[0]
        wanted.selectors.append(f'device.driver == "gpu" && {at} >= 0')
        wanted.count = at % 8 + 1
    first = len(cluster.pod_specs) - size
    _add_pods(cluster, [first + at for at in range(size)])
    return asking(), cluster


def _add_pods(cluster: pb.ClusterSnapshot, specs: list[int]) -> None:
    """Add a pending pod of each spec."""
    table, count = cluster.pods, len(specs)
    names = [f"added-{at}".encode() for at in range(count)]
    table.count += count
    table.names += b"".join(names)
    table.uids += b"".join(names)
    lengths = _int32(map(len, names))
    table.name_lengths += lengths
    table.uid_lengths += lengths
    namespace = np.frombuffer(table.namespace, "<i4")[0]
    table.namespace += _int32([namespace] * count)
    table.spec += _int32(specs)
    for column in ("label_set", "node", "owner"):
        setattr(table, column, getattr(table, column) + _int32([0] * count))
    table.phase += bytes([pb.PodPhase.PENDING]) * count
    table.flags += bytes(count)


def template_slices(size: int) -> tuple[plan_pb2.PlanRequest, pb.ClusterSnapshot]:
    """Declare `size` slices for the new nodes of a group."""
    cluster = _with_devices(1)
    template = cluster.devices.templates.add(node_group="group")
    for at in range(size):
        template.slices.add(driver="gpu", pool=f"p{at}", device_set=1)
    return asking(), cluster


def groups_with_requests(size: int) -> tuple[plan_pb2.PlanRequest, pb.ClusterSnapshot]:
    """Name `size` node groups, and a ProvisioningRequest that they do not hold."""
    _, cluster = node_groups(size)
    cluster.capacity_requests.CopyFrom(pod_sets(1)[1].capacity_requests)
    del cluster.capacity_requests.requests[0].pod_sets[1:]
    cluster.capacity_requests.requests[0].pod_sets[0].count = 1000
    return asking(plan_pb2.Decision.CAPACITY_REQUESTS), cluster


def node_groups(size: int) -> tuple[plan_pb2.PlanRequest, pb.ClusterSnapshot]:
    """Name `size` node groups that may grow by one node, each unlike the others."""
    cluster = growing_cluster()
    for at in range(size):
        group = cluster.node_groups.add(id=f"group-{at}", max_size=1, price_per_hour=1 + at / 1000)
        group.template.CopyFrom(cluster.node_groups[0].template)
        group.template.allocatable[0] = 8000 + at
    return asking(), cluster


SHAPES: dict[str, Shape] = {
    "expressions": Shape(expressions, 112),
    "pod_sets": Shape(pod_sets, 10_000),
    "taint_rules": Shape(taint_rules, 100_000),
    "tainted_slices": Shape(tainted_slices, 100_000),
    "missing_members": Shape(missing_members, 20_000),
    "own_claims": Shape(own_claims, 3000),
    "template_slices": Shape(template_slices, 50_000),
    "groups_with_requests": Shape(groups_with_requests, 20_000),
    "node_groups": Shape(node_groups, 100_000),
}
