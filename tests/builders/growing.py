"""Random clusters in which node groups can grow, as a simulation and as its naive twin."""

from random import Random
from typing import NamedTuple

from tests.builders import random_rows
from tests.builders.columns import snapshot
from tests.builders.random_rows import HOST, RACK, ZONE
from tests.builders.rows import NodeRow, PodRow
from tests.reference.simulation.moves import Cluster
from trimtab.planner.model.values import HostPort, NodeGroupInfo, PodRequirements
from trimtab.planner.simulation.build import Simulation, build_simulation
from trimtab.planner.simulation.growth import Growth, growth_rows
from trimtab.planner.simulation.virtual_rows import GroupTemplate, NodeTemplate, VirtualNodes, VirtualPod, VirtualRows
from trimtab.v1.snapshot_pb2 import PodPhase


class GrowingCluster(NamedTuple):
    """`names` : of all nodes, by their number in the simulation; `pending` : numbers of pods on no node."""

    simulation: Simulation
    growth: Growth
    cluster: Cluster
    names: list[str]
    pending: list[int]


def node_group(name: str, size: int = 0, most: int = 10) -> NodeGroupInfo:
    """Return a group of the snapshot."""
    return NodeGroupInfo(name, 0, most, size, -1, 1.0, 1, 0, False)


def template(row: NodeRow, residents: list[PodRow]) -> GroupTemplate:
    """Return the planner's view of new nodes like a row, with residents like rows of pods."""
    pods = [VirtualPod(p.namespace, p.spec, tuple(sorted(p.labels.items()))) for p in residents]
    labels, amounts = tuple(sorted(row.labels.items())), tuple(sorted(row.allocatable.items()))
    node = NodeTemplate(labels, amounts, row.taints, row.unschedulable, row.traits)
    return GroupTemplate(node, tuple(pods))


def growing_cluster(
    nodes: list[NodeRow],
    pods: list[PodRow],
    groups: list[tuple[NodeRow, list[PodRow], int]],
    spare_nodes: int,
    namespaces: dict[str, dict[str, str]] | None = None,
) -> GrowingCluster:
    """Return both sides. groups : (template of new nodes, residents, number of upcoming nodes)."""
    nodes = sorted(nodes, key=lambda one: one.name.encode())
    made = snapshot(nodes, pods, namespaces)
    made = made._replace(groups=tuple(node_group(f"g{at}") for at in range(len(groups))))
    templates = [template(row, residents) for row, residents, _ in groups]
    rows = growth_rows(templates, [upcoming for *_, upcoming in groups], spare_nodes, made)
    simulation = build_simulation(made, VirtualRows(nodes=rows.nodes))
    cluster = Cluster(nodes, pods, namespaces)
    cluster.nodes = {one.name: one for one in nodes}
    for virtual in rows.nodes:
        _add(cluster, virtual, groups, templates)
    names = list(cluster.nodes)
    pending = [at for at, where in enumerate(cluster.at) if not where and not cluster.pods[at].ended]
    return GrowingCluster(simulation, rows.growth, cluster, names, pending)


def _add(
    cluster: Cluster,
    virtual: VirtualNodes,
    groups: list[tuple[NodeRow, list[PodRow], int]],
    templates: list[GroupTemplate],
) -> None:
    for name in virtual.names:
        row, residents = NodeRow(name, {HOST: name}, {}), list[PodRow]()
        if not virtual.is_spare:
            at = templates.index(GroupTemplate(virtual.template, virtual.residents))
            row, residents, _ = groups[at]
        labels = {key: value for key, value in row.labels.items() if key != HOST}
        cluster.nodes[name] = row._replace(name=name, labels=labels | {HOST: name})
        cluster.residents[name] = residents
        cluster.state[name] = "open" if virtual.is_open else "outside"


def mild_spec(random: Random) -> PodRequirements:
    """Return a spec that most nodes admit, with one constraint or none."""
    spec = PodRequirements(requests=(("cpu", random.choice((1, 1, 2))),))
    kind = random.randrange(7)
    if kind == 0:
        return spec._replace(topology_spread=(random_rows.spread(random)._replace(honor_node_taints=False),))
    if kind == 1:
        return spec._replace(pod_anti_affinity=(random_rows.affinity_term(random),))
    if kind == 2:
        return spec._replace(pod_affinity=(random_rows.affinity_term(random)._replace(namespaces=()),))
    if kind == 3:
        return spec._replace(host_ports=(HostPort("TCP", "0.0.0.0", 80),))
    return spec


def random_growing_cluster(seed: int, most_pending: int = 30) -> GrowingCluster:
    """Return a random cluster with every constraint; many of its pending pods are equal."""
    nodes, pods, namespaces = random_rows.rows(seed)
    random = Random(seed + 11)
    specs = [pod.spec for pod in pods] or [PodRequirements()]
    mild = [mild_spec(random) for _ in range(4)]
    count = 0
    while count < most_pending and random.random() < 0.9:
        model = random_rows.pod(random, 0, mild if random.random() < 0.9 else specs, len(nodes))
        equal = random.choice((1, 1, 2, 5, 9))
        model = model._replace(node="", phase=PodPhase.RUNNING, pinned=model.pinned if random.random() < 0.2 else "")
        if equal > 1:
            model = model._replace(volumes=model.volumes if random.random() < 0.2 else ())
        pods += [model._replace(name=f"w{count + n:02}") for n in range(equal)]
        count += equal
    groups = []
    for number in range(random.randint(1, 3)):
        row = random_rows.node(random, 90 + number)
        if random.random() < 0.8:
            labels = {ZONE: random.choice(("za", "zb", "zc")), RACK: "r1"} | row.labels
            row = row._replace(taints=(), unschedulable=False, labels=labels)
        row = row._replace(allocatable=row.allocatable | {"cpu": random.choice((3, 5, 9)), "pods": 7})
        residents = [resident(random, random.choice(specs)) for _ in range(random.choice((0, 0, 0, 1, 2)))]
        groups.append((row, residents, random.choice((0, 0, 1, 2))))
    return growing_cluster(nodes, pods, groups, random.randint(1, 9), namespaces)


def resident(random: Random, spec: PodRequirements) -> PodRow:
    """Return a pod of a DaemonSet."""
    labels = {"app": random.choice(("x", "y", "z"))} if random.random() < 0.5 else {}
    return PodRow("daemon", spec, random.choice(random_rows.NAMESPACES), labels)
