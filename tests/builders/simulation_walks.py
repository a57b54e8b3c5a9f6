"""Random moves in a simulation and in its naive twin, and comparisons of the two."""

from random import Random
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from tests.builders.fitting import HOST, ZONE, equals, node
from tests.builders.growing import GrowingCluster, growing_cluster
from tests.builders.refusals import explain, masks
from tests.builders.rows import Labels, NodeRow, PodRow
from tests.reference.predicates import resources
from tests.reference.simulation import checks
from tests.reference.simulation.moves import Cluster
from trimtab.planner.model.values import AffinityTerm, PodRequirements, SpreadConstraint
from trimtab.planner.predicates.order import REASONS, reasons_of
from trimtab.planner.simulation.build import Simulation
from trimtab.planner.simulation.kernels import (
    cordon,
    failing,
    fits,
    mark,
    place,
    remove,
    remove_from_topology,
    revert,
)
from trimtab.planner.simulation.state import SimulationState
from trimtab.planner.simulation.virtual_rows import (
    VirtualPod,
)
from trimtab.planner.snapshot.columns import NO_NODE, UNKNOWN_NODE

SEEDS = st.integers(0, 2**48)


def arrays(value: Any, path: str = "") -> dict[str, np.ndarray]:
    """Yield all arrays of a state by path, except for the log."""
    if isinstance(value, np.ndarray):
        return {path: value}
    out: dict[str, np.ndarray] = {}
    for name in value._fields:
        if name != "log":
            out |= arrays(getattr(value, name), f"{path}.{name}")
    return out


def copied(state: SimulationState) -> dict[str, np.ndarray]:
    return {path: array.copy() for path, array in arrays(state).items()}


def assert_same(state: SimulationState, expected: dict[str, np.ndarray]) -> None:
    for path, array in arrays(state).items():
        assert array.tobytes() == expected[path].tobytes(), path


ORDER = list(REASONS)
"""Reasons in upstream's order."""


def assert_agree(simulation: Simulation, cluster: Cluster) -> None:
    """Check that both agree on every unplaced pod and every node."""
    for at, pod in enumerate(cluster.pods):
        if cluster.at[at]:
            continue
        everywhere = masks(simulation, at)
        for number, name in enumerate(cluster.nodes):
            expected = sorted(checks.failing(cluster, pod, name), key=ORDER.index)
            assert reasons_of(int(everywhere[number])) == expected, (pod, name)
            assert int(failing(simulation.state, at, number)) == int(everywhere[number])
            assert bool(fits(simulation.state, at, number)) == (not expected), (pod, name)
            refusal = explain(simulation, at, number)
            assert refusal.reasons == expected
            assert refusal.insufficient == resources.short(pod, cluster.nodes[name], cluster.pods_on(name))


class Walk:
    """Random moves, made on both sides."""

    def __init__(self, simulation: Simulation, cluster: Cluster, random: Random) -> None:
        self.simulation, self.cluster, self.random = simulation, cluster, random
        self.names = list(cluster.nodes)

    def step(self) -> None:
        self.random.choice((self.place_somewhere, self.place_where_it_fits, self.remove, self.remove, self.cordon))()

    def _unplaced(self) -> int | None:
        return self._any([at for at, node in enumerate(self.cluster.at) if not node])

    def _any(self, options: list[int]) -> int | None:
        return self.random.choice(options) if options else None

    def place_somewhere(self) -> None:
        pod, node = self._unplaced(), self._any(self._nodes("open", "cordoned"))
        if pod is not None and node is not None:
            assert place(self.simulation.state, pod, node) == 0
            self.cluster.place(pod, self.names[node])

    def place_where_it_fits(self) -> None:
        pod = self._unplaced()
        if pod is None:
            return
        node = self._any(np.flatnonzero(masks(self.simulation, pod) == 0).tolist())
        if node is not None:
            assert place(self.simulation.state, pod, node) == 0
            self.cluster.place(pod, self.names[node])

    def remove(self) -> None:
        pod = self._any([at for at, node in enumerate(self.cluster.at) if node])
        if pod is not None:
            assert remove(self.simulation.state, pod) == 0
            self.cluster.remove(pod)

    def _nodes(self, *states: str) -> list[int]:
        return [at for at, name in enumerate(self.names) if self.cluster.state[name] in states]

    def cordon(self) -> None:
        """Cordon a node, or take a cordoned one that is empty out of the topology."""
        node = self._any(self._nodes("open", "cordoned"))
        if node is None:
            return
        name = self.names[node]
        if self.cluster.state[name] == "open":
            assert cordon(self.simulation.state, node) == 0
            self.cluster.cordon(name)
        elif not self.cluster.pods_on(name):
            assert remove_from_topology(self.simulation.state, node) == 0
            self.cluster.remove_from_topology(name)


class Split(NamedTuple):
    """Rows of a cluster, divided into those of the snapshot and virtual ones."""

    nodes: list[NodeRow]
    later_nodes: list[NodeRow]
    pods: list[PodRow]
    later_pods: list[PodRow]
    namespaces: dict[str, Labels]


def by_key(pods: list[PodRow]) -> list[PodRow]:
    return sorted(pods, key=lambda p: (p.namespace.encode(), p.name.encode()))


def virtual_pods(pods: list[PodRow], numbers: dict[str, int]) -> tuple[VirtualPod, ...]:
    return tuple(
        VirtualPod(
            pod.namespace,
            pod.spec,
            tuple(sorted(pod.labels.items())),
            pod.created_s,
            numbers.get(pod.pinned, UNKNOWN_NODE) if pod.pinned else NO_NODE,
        )
        for pod in pods
    )


def naive(rows: Split) -> Cluster:
    """Return the cluster in which all rows are real, numbered as in the simulation; a closed node is absent."""
    cluster = Cluster([*rows.nodes, *rows.later_nodes], [*rows.pods, *rows.later_pods], rows.namespaces)
    cluster.nodes = {one.name: one for one in [*rows.nodes, *rows.later_nodes]}
    where = dict(zip(((p.namespace, p.name) for p in cluster.pods), cluster.at, strict=True))
    cluster.pods = [*rows.pods, *rows.later_pods]
    cluster.at = [where[(pod.namespace, pod.name)] for pod in cluster.pods]
    cluster.state = {name: "open" for name in cluster.nodes} | {one.name: "outside" for one in rows.later_nodes}
    return cluster


def spreading(seed: int) -> GrowingCluster:
    """Return groups in different zones, and a few workloads with spread constraints or affinity."""
    random = Random(seed)
    own = [equals(app=app) for app in "xyz"]
    specs = []
    for at in range(3):
        spread = [
            SpreadConstraint(
                random.choice((1, 1, 2)), key, random.choice((own[at], own[at], own[0])), least, True, False, ()
            )
            for key, least in ((HOST, 1), (ZONE, random.choice((1, 2, 3))))
            if random.random() < 0.6
        ]
        near = (AffinityTerm(random.choice(own), (), None, random.choice((ZONE, HOST))),)
        specs.append(
            PodRequirements(
                requests=(("cpu", random.choice((1, 2))),),
                topology_spread=tuple(spread),
                pod_affinity=near if random.random() < 0.25 else (),
            )
        )
    real = [node(f"n{at}", random.choice(("za", "zb")), allocatable={}) for at in range(random.randint(0, 2))]
    there = [
        PodRow(f"o{at}", specs[at % 3], labels={"app": random.choice("xyz")}, node=f"n{at}") for at in range(len(real))
    ]
    apps = [random.choice("xyz") if random.random() < 0.3 else "xyz"[at % 3] for at in range(random.randint(6, 20))]
    waiting = [PodRow(f"w{at:02}", specs[at % 3], labels={"app": app}) for at, app in enumerate(apps)]
    daemons = [PodRow("daemon", PodRequirements(), labels={"app": "x"})] if random.random() < 0.2 else []
    groups = [
        (NodeRow("t", {ZONE: zone}, {"cpu": random.choice((2, 3, 6)), "pods": 9}), daemons, 0)
        for zone in random.sample(("za", "zb", "zc"), random.randint(1, 3))
    ]
    return growing_cluster(real, [*there, *waiting], groups, 8)


def walk_and_undo(walk: Walk, before: int, after: int) -> None:
    """Make fewer than `before` steps and fewer than `after` more, and mostly undo the latter; check that both sides
    always agree.
    """
    simulation, cluster, random = walk.simulation, walk.cluster, walk.random
    for _ in range(3):
        for _ in range(random.randrange(before)):
            walk.step()
        marks = int(mark(simulation.state)), cluster.mark(), copied(simulation.state)
        for _ in range(random.randrange(after)):
            walk.step()
        if random.random() < 0.7:
            revert(simulation.state, marks[0])
            cluster.revert(marks[1])
            assert_same(simulation.state, marks[2])
        assert_agree(simulation, cluster)
