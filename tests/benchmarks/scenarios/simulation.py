"""Classes, counters and placement, without the decisions that use them."""

from typing import NamedTuple

import numpy as np

from tests.benchmarks.clusters import CONSTRAINED, LARGE, snapshot
from tests.benchmarks.registry import Stages, scenario
from tests.builders.columns import snapshot as columns
from tests.builders.messages import decode_snapshot
from tests.builders.rows import NodeRow, PodRow
from trimtab.planner.compiled.decorators import kernel
from trimtab.planner.model.values import LabelRequirement, PodRequirements, SpreadConstraint
from trimtab.planner.simulation.build import Simulation, build_simulation
from trimtab.planner.simulation.kernels import fits, place, remove, revert
from trimtab.planner.simulation.log import check_log
from trimtab.planner.simulation.state import SimulationState
from trimtab.planner.snapshot.columns import Bool, Snapshot
from trimtab.v1.snapshot_pb2 import LabelOperator

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
WORKLOADS, ZONES = 20, 3


def _decoded(shape: object) -> Snapshot:
    made = decode_snapshot(snapshot(shape).SerializeToString())  # type: ignore[arg-type]
    build_simulation(made)  # compiles
    return made


def build(made: Snapshot, stages: Stages) -> Simulation:
    with stages.stage("build"):
        simulation = build_simulation(made)
    stages.fact("pod classes", simulation.pods.size)
    stages.fact("node classes", simulation.nodes.rows.count)
    return simulation


def verify_build(made: Snapshot, simulation: Simulation) -> None:
    """Cpu that is free is what the nodes offer less what the placed pods ask for."""
    state = simulation.state
    placed = state.pod_node >= 0
    cpu = state.resources.request[state.pod_class[placed], 0]
    used = np.bincount(state.pod_node[placed], weights=cpu, minlength=len(made.nodes.name)).astype(np.int64)
    assert np.array_equal(state.resources.free[:, 0], made.nodes.allocatable[:, 0] - used)


class Pending(NamedTuple):
    """A cluster of empty nodes, and pods that wait."""

    snapshot: Snapshot
    allowed: Bool


@kernel
def find(sim: SimulationState, pod: int, allowed: Bool, start: int) -> int:
    """Return the first node from `start` on, cyclic, that is allowed and fits the pod; -1 = none."""
    nodes = len(sim.node_state)
    for step in range(nodes):
        node = (start + step) % nodes
        if allowed[node] and fits(sim, pod, node):
            return int(node)
    return -1


@kernel
def place_all(sim: SimulationState, allowed: Bool, first: int) -> int:
    """Place pods from `first` on, each searched for from where the last one went; return how many."""
    node, placed = 0, 0
    for pod in range(first, len(sim.pod_class)):
        found = find(sim, pod, allowed, node)
        if found >= 0:
            place(sim, pod, found)
            placed += 1
            node = (found + 1) % len(sim.node_state)
    return placed


@kernel
def move_every_third(sim: SimulationState, allowed: Bool) -> int:
    """Take every third pod off its node and look for a place from the next node on; return how many found one."""
    moved = 0
    for pod in range(0, len(sim.pod_class), 3):
        node = sim.pod_node[pod]
        if node >= 0:
            remove(sim, pod)
            found = find(sim, pod, allowed, (node + 1) % len(sim.node_state))
            moved += found >= 0
            place(sim, pod, found if found >= 0 else node)
    return moved


def waiting(pods: int, nodes: int = 1000) -> Pending:
    """`pods` pods of 20 workloads, each spread over zones with a skew of at most 1, and empty nodes with room for
    all."""
    room = {"cpu": 1_000_000, "memory": 1 << 45, "pods": 110}
    rows = [NodeRow(f"n{i:05}", {HOST: f"n{i:05}", ZONE: f"zone-{i % ZONES}"}, room) for i in range(nodes)]
    specs = []
    for number in range(WORKLOADS):
        own = (LabelRequirement("app", LabelOperator.IN, (f"app-{number}",)),)
        constraint = SpreadConstraint(1, ZONE, own, 1, True, False, ())
        specs.append(PodRequirements(requests=(("cpu", 100), ("memory", 1 << 20)), topology_spread=(constraint,)))
    made = columns(
        rows,
        [PodRow(f"p{i:06}", specs[i % WORKLOADS], labels={"app": f"app-{i % WORKLOADS}"}) for i in range(pods)],
    )
    allowed = np.ones(nodes, np.bool_)
    place_all(build_simulation(made).state, allowed, pods - 1)
    return Pending(made, allowed)


def place_waiting(pending: Pending, stages: Stages) -> Simulation:
    with stages.stage("build"):
        simulation = build_simulation(pending.snapshot)
    with stages.stage("place"):
        placed = place_all(simulation.state, pending.allowed, 0)
    stages.fact("placed", placed)
    return simulation


def verify_placed(pending: Pending, simulation: Simulation) -> None:
    """Everything is placed, and no workload is uneven by more than one."""
    state = simulation.state
    check_log(state)
    assert (state.pod_node >= 0).all()
    zone = state.pod_node % ZONES
    for workload in range(WORKLOADS):
        counts = np.bincount(zone[workload::WORKLOADS], minlength=ZONES)
        assert counts.max() - counts.min() <= 1


def move(made: Snapshot, stages: Stages) -> tuple[Simulation, bytes, bytes]:
    simulation = build_simulation(made)
    state = simulation.state
    counted = (state.counters.spread.counts, state.counters.presence.counts, state.resources.free)
    before = b"".join(one.tobytes() for one in counted)
    with stages.stage("move"):
        moved = move_every_third(state, np.ones(len(state.node_state), np.bool_))
    with stages.stage("undo"):
        revert(state, 0)
    stages.fact("moved", moved)
    after = b"".join(one.tobytes() for one in counted)
    return simulation, before, after


def verify_undone(_: Snapshot, answer: tuple[Simulation, bytes, bytes]) -> None:
    assert answer[1] == answer[2]


scenario(
    name="build simulation",
    what="classes and counters from columns, 5,000 nodes / 150,000 pods, resources and taints alone",
    setup=lambda: _decoded(LARGE),
    run=build,
    verify=verify_build,
    aims={"build": 0.060},
)
scenario(
    name="build constrained simulation",
    what="the same where every workload is constrained, a third spread over zones, a tenth kept apart by hostname",
    setup=lambda: _decoded(CONSTRAINED),
    run=build,
    verify=verify_build,
    aims={"build": 0.150},
)
scenario(
    name="move pods",
    what="50,000 constrained pods taken off and placed again, then undone",
    setup=lambda: _decoded(CONSTRAINED),
    run=move,
    verify=verify_undone,
    aims={"move": 0.100},
)
scenario(
    name="place 10,000 spread pods",
    what="10,000 pending pods of 20 workloads with a zonal skew of 1, onto 1,000 nodes",
    setup=lambda: waiting(10_000),
    run=place_waiting,
    verify=verify_placed,
    aims={"place": 0.050},
    reference="the real autoscaler's estimator: 37 s for one node group",
)
scenario(
    name="place 100,000 spread pods",
    what="the same, ten times as many: linear in pods",
    setup=lambda: waiting(100_000),
    run=place_waiting,
    verify=verify_placed,
    aims={"place": 0.500},
)
