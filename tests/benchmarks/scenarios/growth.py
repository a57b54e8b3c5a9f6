"""Packing of pending pods onto new nodes of groups, without the decision that uses it. All clusters are synthetic."""

from typing import NamedTuple

import numpy as np

from tests.benchmarks.registry import Stages, scenario
from tests.builders.columns import snapshot as columns
from tests.builders.rows import NodeRow, PodRow
from trimtab.planner.model.values import LabelRequirement, NodeGroupInfo, PodRequirements, SpreadConstraint
from trimtab.planner.placement.packing import GrowingGroups, Packed, Packer, pack, packer, place_on_new_nodes
from trimtab.planner.simulation.build import build_simulation
from trimtab.planner.simulation.growth import growth_rows
from trimtab.planner.simulation.kernels import revert
from trimtab.planner.simulation.log import check_log
from trimtab.planner.simulation.virtual_rows import GroupTemplate, NodeTemplate, VirtualRows
from trimtab.planner.snapshot.columns import Int32, Int64
from trimtab.v1.snapshot_pb2 import LabelOperator

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
GIB = 1 << 30


class Waiting(NamedTuple):
    """A simulation in which groups can grow. pods : pending ones, those of a class together, the largest first."""

    within: Packer
    pods: Int32
    groups: int


def full_nodes(count: int) -> list[NodeRow]:
    """Nodes of three zones that have no room left."""
    room = {"cpu": 0, "memory": 0, "pods": 0}
    return [NodeRow(f"n{i:05}", {HOST: f"n{i:05}", ZONE: f"zone-{i % 3}"}, room) for i in range(count)]


def waiting(nodes: list[NodeRow], specs: list[PodRequirements], pods: int, templates: list[dict[str, int]]) -> Waiting:
    """Pods by specs in equal shares; one group for each template's amounts, their zones in turn."""
    rows = [PodRow(f"p{i:06}", specs[i % len(specs)], labels={"app": f"app-{i % len(specs)}"}) for i in range(pods)]
    groups = tuple(NodeGroupInfo(f"g{at:04}", 0, 5_000, 0, -1, 1.0, 1, 0, False) for at in range(len(templates)))
    made = columns(nodes, rows)._replace(groups=groups)
    given = [
        GroupTemplate(NodeTemplate(((ZONE, f"zone-{at % 3}"),), tuple(sorted(one.items()))))
        for at, one in enumerate(templates)
    ]
    grown = growth_rows(given, [0] * len(given), 1_000, made)
    simulation = build_simulation(made, VirtualRows(nodes=grown.nodes))
    state = simulation.state
    order = np.lexsort((state.pod_class, -state.resources.request[state.pod_class, 0])).astype(np.int32)
    return Waiting(packer(simulation, grown.growth), order, len(templates))


def requests(cpu: int, memory: int) -> PodRequirements:
    return PodRequirements(requests=(("cpu", cpu), ("memory", memory)))


def spread(app: int) -> PodRequirements:
    own = (LabelRequirement("app", LabelOperator.IN, (f"app-{app}",)),)
    return requests(100, 1 << 20)._replace(topology_spread=(SpreadConstraint(1, ZONE, own, 1, True, False, ()),))


def equal_pods() -> Waiting:
    return waiting(full_nodes(10), [requests(100, 1 << 20)], 50_000, [{"cpu": 5_000, "memory": 64 * GIB, "pods": 110}])


def many_groups(nodes: int) -> Waiting:
    specs = [requests(100 + 37 * (i % 10), (1 + i // 10) << 28) for i in range(100)]
    templates = [{"cpu": 4_000 + 1_000 * (i % 25), "memory": (16 + 2 * i) * GIB, "pods": 110} for i in range(50)]
    return waiting(full_nodes(nodes), specs, 10_000, templates)


def spread_pods(nodes: int, pods: int, workloads: int, groups: int) -> Waiting:
    template = {"cpu": 32_000, "memory": 64 * GIB, "pods": 110}
    return waiting(full_nodes(nodes), [spread(i) for i in range(workloads)], pods, [template] * groups)


def grow(made: Waiting, stages: Stages) -> tuple[Packed, Int32]:
    """Pack onto all groups together, then open the nodes and place the pods in earnest."""
    state, count = made.within.simulation.state, made.groups
    with stages.stage("pack"):
        found = pack(made.within, GrowingGroups(range(count), [0] * count, [5_000] * count), made.pods, 1_000)
    with stages.stage("place"):
        on = place_on_new_nodes(made.within, found.group_of, made.pods, found.node_of)
    check_log(state)
    cpu = used(made, on)
    revert(state, 0)
    assert (cpu <= 32_000).all()
    stages.fact("nodes", found.nodes)
    stages.fact("placed", found.placed)
    return found, on


def used(made: Waiting, on: Int32) -> Int64:
    """Cpu asked for on each node."""
    state = made.within.simulation.state
    cpu = state.resources.request[state.pod_class[made.pods], 0]
    amounts: Int64 = np.bincount(on[on >= 0], cpu[on >= 0], len(state.node_state)).astype(np.int64)
    return amounts


def grow_each(made: Waiting, stages: Stages) -> list[Packed]:
    """Pack onto each group alone, as to compare them."""
    with stages.stage("pack"):
        return [pack(made.within, GrowingGroups([g], [0], [5_000]), made.pods, 1_000) for g in range(made.groups)]


def verify_all_placed(made: Waiting, answer: tuple[Packed, Int32]) -> None:
    found, on = answer
    assert found.placed == len(made.pods)
    assert (on >= 0).all()


def verify_50(made: Waiting, answer: tuple[Packed, Int32]) -> None:
    verify_all_placed(made, answer)
    assert answer[0].nodes == 1_000
    assert (np.bincount(answer[0].node_of) == 50).all()


def verify_even(made: Waiting, answer: tuple[Packed, Int32]) -> None:
    verify_all_placed(made, answer)
    state, found = made.within.simulation.state, answer[0]
    zone = found.group_of[found.node_of] % 3
    counts = np.zeros((len(state.local_class), 3), np.int64)
    np.add.at(counts, (state.pod_class[made.pods], zone), 1)
    assert (counts.max(axis=1) - counts.min(axis=1) <= 1).all()


def verify_groups(made: Waiting, answer: list[Packed]) -> None:
    state = made.within.simulation.state
    for group, found in enumerate(answer):
        node = made.within.growth.template_node[group]
        need = state.resources.request[state.pod_class[made.pods]][found.node_of >= 0]
        for resource in range(need.shape[1]):
            by_node = np.bincount(found.node_of[found.node_of >= 0], need[:, resource], found.nodes)
            assert by_node.max() <= state.resources.free[node, resource]


scenario(
    name="pack 50,000 equal pods",
    what="50,000 pods without owner onto 1,000 new nodes of one group",
    setup=equal_pods,
    run=grow,
    verify=verify_50,
    aims={"total": 0.030},
    reference="the real autoscaler: 9.8 s",
)
for nodes in (1_000, 5_000):
    scenario(
        name=f"pack for 50 groups, {nodes:,} nodes",
        what=f"10,000 pods in 100 classes onto each of 50 groups, beside {nodes:,} nodes without room",
        setup=lambda nodes=nodes: many_groups(nodes),
        run=grow_each,
        verify=verify_groups,
        aims={"pack": 0.060},
        reference="the real autoscaler: 35 s with 1,000 nodes, 136 s with 5,000",
    )
scenario(
    name="pack spread pods for 10 groups, 1,000 nodes",
    what="1,000 pods of 20 workloads with a zonal skew of 1 onto 10 groups in three zones",
    setup=lambda: spread_pods(1_000, 1_000, 20, 10),
    run=grow,
    verify=verify_even,
    aims={"total": 0.020},
    reference="the real autoscaler: 91 s",
)
for pods in (10_000, 100_000):
    scenario(
        name=f"pack {pods:,} spread pods, 5,000 nodes",
        what=f"{pods:,} pods of one workload with a zonal skew of 1 onto a group in each of three zones",
        setup=lambda pods=pods: spread_pods(5_000, pods, 1, 3),
        run=grow,
        verify=verify_even,
        aims={"total": 0.020 * pods / 10_000},
        reference="the real autoscaler: more than 549 s for 10,000",
    )
