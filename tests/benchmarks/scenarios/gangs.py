"""1,000 gangs of 8 to 128 pods on 5,000 nodes with 20 node groups, over a snapshot that is kept. Synthetic.

Three cases: limits leave enough for all gangs; they leave about a third of what is asked; one gang in five must be in
one zone. The answer is checked: no gang has places for fewer pods than its minimum.
"""

from functools import partial
from random import Random

from tests.benchmarks.registry import Stages, scenario
from tests.benchmarks.scenarios.scale_up import GIB, MARKED, NOW_S, Growing, prepare, run
from tests.builders.rows import NodeRow, PodRow
from tests.builders.snapshots import Cluster, Group, write
from tests.certificates.gangs import offences
from trimtab.planner.model.values import PodGroup, PodRequirements
from trimtab.v1 import plan_pb2 as pb

NODES, GROUPS, GANGS, NODE_CPU = 5000, 20, 1000, 32_000
COUNTS = (8, 16, 24, 32, 64, 96, 128)
SHAPES = ((1000, 4), (2000, 8), (4000, 16), (8000, 32), (16_000, 64))
"""Requests of the pods of a gang: cpu in milli-cores, memory in GiB."""
ZONE = "zone"


def cluster(*, scarce: bool, in_zones: bool) -> Cluster:
    """Return the cluster. scarce : groups may grow by a third of what is asked; in_zones : one gang in five is."""
    random = Random(1)
    nodes = {
        f"n{i:05}": NodeRow(
            labels={ZONE: f"z{i % 3}"},
            allocatable={"cpu": NODE_CPU, "memory": 128 * GIB, "pods": 110},
            group=f"g{i % GROUPS:02}",
        )
        for i in range(NODES)
    }
    running = PodRequirements(requests=(("cpu", 3500), ("memory", 8 * GIB)))
    pods = {
        ("default", f"r{i:05}-{k}"): PodRow(spec=running, node=f"n{i:05}", phase=2)
        for i in range(NODES)
        for k in range(8)
    }
    groups, asked = {}, 0
    for number in range(GANGS):
        name, count, (cpu, memory) = f"gang-{number:04}", random.choice(COUNTS), random.choice(SHAPES)
        spec = PodRequirements(requests=(("cpu", cpu), ("memory", memory * GIB)))
        row = PodRow(spec=spec, phase=1, flags=MARKED, pod_group=name, created_s=NOW_S - 10_000 + number)
        pods |= {("batch", f"{name}-{k:03}"): row for k in range(count)}
        least = count if random.random() < 0.7 else count // 2
        key = ZONE if in_zones and random.random() < 0.2 else ""
        groups["batch", name] = PodGroup("batch", name, f"PodGroup/batch/{name}", min_count=least, topology_key=key)
        asked += count * cpu
    wanted, size = asked // NODE_CPU, NODES // GROUPS
    most = size + (wanted // (3 * GROUPS) if scarce else 5 * wanted)
    node_groups = {}
    for number in range(GROUPS):
        cpu = random.choice((16_000, 32_000, 64_000))
        template = NodeRow(
            labels={ZONE: f"z{number % 3}"}, allocatable={"cpu": cpu, "memory": cpu // 250 * GIB, "pods": 110}
        )
        price = cpu / NODE_CPU * random.choice((0.9, 1.0, 1.1))
        node_groups[f"g{number:02}"] = Group(max_size=most, target_size=size, template=template, price=price)
    return Cluster(pods=pods, nodes=nodes, groups=node_groups, pod_groups=groups)


def timed(made: Growing, stages: Stages) -> pb.PlanResponse:
    """Take the decision, and note how many gangs are served."""
    answer = run(made, stages)
    stages.fact("gangs served", sum(not one.reason for one in answer.scale_up.gangs))
    return answer


def verify(made: Growing, answer: pb.PlanResponse) -> None:
    """Check that every gang is whole or has no place, and that some are served."""
    assert offences(write(made.cluster, in_order=True), answer.scale_up) == []
    assert any(one.placed_count for one in answer.scale_up.gangs)


for name, scarce, in_zones in (("enough", False, False), ("scarce", True, False), ("in zones", False, True)):
    scenario(
        name=f"gangs, {name}",
        what=f"1,000 gangs of 8 to 128 pods, 5,000 nodes, 20 groups: {name}",
        setup=partial(prepare, partial(cluster, scarce=scarce, in_zones=in_zones)),
        run=timed,
        verify=verify,
        aims={"total": 2.0},
        repeats=3,
    )
