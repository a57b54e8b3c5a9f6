"""Problems of the cheapest plan as clusters, for tests of the whole decision.

The numbers of a problem become constraints and resources of a cluster: the groups that take a class become node
affinity, the number of pods per node an extra resource, an even spread over zones a topology spread constraint, or node
selectors if the problem says which zones get one pod more. So a bound of the problem is also one of the cluster.
"""

from random import Random

import numpy as np

from tests.builders.rows import NodeRow, PodRow
from tests.builders.snapshots import Cluster, Group
from trimtab.planner.cheapest.problem import UNLIMITED, Problem
from trimtab.planner.model.values import LabelRequirement, NodeAffinityTerm, PodRequirements, SpreadConstraint
from trimtab.v1.snapshot_pb2 import LabelOperator

ZONE = "topology.kubernetes.io/zone"
MARKED = 32
"""Flag of a pod that the scheduler could not place."""


def cluster_of(asked: Problem) -> Cluster:
    """Return a cluster without nodes, with the problem's groups and pods. Resources 0 to 3: cpu, memory, pods, GPUs."""
    names = ["cpu", "memory", "pods", "nvidia.com/gpu"]
    names += [f"example.com/together-{at}" for at in range(len(names), asked.demand.shape[1])]
    alone = {at: f"example.com/class-{at}" for at in np.flatnonzero(asked.per_node < UNLIMITED).tolist()}
    groups = {}
    for at, amounts in enumerate(asked.capacity.tolist()):
        offered = dict(zip(names, amounts, strict=True))
        offered |= {name: int(asked.per_node[of_class]) for of_class, name in alone.items()}
        allocatable = {name: amount for name, amount in offered.items() if amount}
        labels = {"group": f"g{at:02}"}
        if asked.zone[at] >= 0:
            labels[ZONE] = f"zone-{asked.zone[at]}"
        template = NodeRow(labels=labels, allocatable=allocatable)
        groups[f"g{at:02}"] = Group(max_size=5_000, target_size=0, template=template, price=float(asked.price[at]))
    pods = {}
    for of_class, count in enumerate(asked.pods.tolist()):
        spec = _spec(asked, of_class, names, alone)
        for number, zone in enumerate(_zones(asked, of_class) or [""] * count):
            name = f"p{of_class:02}-{number:04}"
            bound = spec._replace(node_selector=((ZONE, zone),)) if zone else spec
            pods["default", name] = PodRow(name, bound, labels={"class": f"c{of_class}"}, phase=1, flags=MARKED)
    return Cluster(groups=groups, pods=pods)


def _zones(asked: Problem, of_class: int) -> list[str]:
    """Return the zone of each pod of a class that is spread unevenly over zones; nothing for others."""
    most = asked.zone_most[of_class]
    if len(set(most.tolist())) <= 1:
        return []
    return [f"zone-{zone}" for zone, count in enumerate(most.tolist()) for _ in range(count)]


def _spec(asked: Problem, of_class: int, names: list[str], alone: dict[int, str]) -> PodRequirements:
    takes = {name: amount for name, amount in zip(names, asked.demand[of_class].tolist(), strict=True) if amount}
    del takes["pods"]  # every pod takes one
    if of_class in alone:
        takes[alone[of_class]] = 1
    spec = PodRequirements(requests=tuple(sorted(takes.items())))
    if not asked.allowed[of_class].all():
        values = tuple(f"g{at:02}" for at in np.flatnonzero(asked.allowed[of_class]).tolist())
        spec = spec._replace(node_affinity=(NodeAffinityTerm((_in("group", *values),), ()),))
    zones = int((asked.zone_most[of_class] > 0).sum())
    if (asked.zone_most[of_class] < UNLIMITED).any() and zones > 1 and not _zones(asked, of_class):
        own = (_in("class", f"c{of_class}"),)
        spec = spec._replace(topology_spread=(SpreadConstraint(1, ZONE, own, zones, True, False, ()),))
    return spec


def _in(key: str, *values: str) -> LabelRequirement:
    return LabelRequirement(key, LabelOperator.IN, values)


def small_problem(seed: int) -> Problem:
    """Return a problem of up to 6 classes, 5 groups, 2 resources and 2 zones; some pods fit nowhere."""
    random = Random(seed)
    classes, groups, zones = random.randint(1, 6), random.randint(1, 5), random.randint(0, 2)

    def table(rows: int, columns: int, *choices: int) -> np.ndarray:
        return np.array([[random.choice(choices) for _ in range(columns)] for _ in range(rows)], np.int64)

    return Problem(
        demand=table(classes, 2, 0, 1, 2, 3, 5, 7),
        pods=table(1, classes, 1, 2, 5, 12, 40)[0],
        allowed=table(classes, groups, 0, 1, 1, 1) > 0,
        capacity=table(groups, 2, 0, 4, 8, 10, 16, 21),
        price=np.array([random.choice([1.0, 2.0, 0.7, random.random() + 0.1]) for _ in range(groups)]),
        max_nodes=table(1, groups, 0, 1, 3, UNLIMITED, UNLIMITED)[0],
        per_node=table(1, classes, 1, 2, UNLIMITED, UNLIMITED)[0],
        zone=table(1, groups, *range(-1, zones))[0].astype(np.int32),
        zone_most=table(classes, zones, 0, 3, 10, UNLIMITED, UNLIMITED).reshape(classes, zones),
    )
