"""The scale-down decision alone, in process: first loop, steady loop, growth. Synthetic clusters.

"bound" is the most nodes that could go by volume alone: as many eligible nodes as leave enough cpu and memory for all
pods; no plan can do better, and few clusters allow it. How good plans are: the corpus.
"""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from tests.benchmarks.clusters import LARGE, snapshot
from tests.benchmarks.registry import Stages, scenario
from tests.builders.verdicts import judged
from trimtab.clients.cluster_generator import ClusterShape
from trimtab.places import destinations
from trimtab.planner.facts.nodes import prices, total
from trimtab.planner.model.settings import ScaleDownSettings
from trimtab.planner.model.settings.scale_up import FIRST
from trimtab.planner.round.decision import Decided
from trimtab.planner.round.round import Round, Work
from trimtab.planner.scale_down.context import ScaleDownRequest
from trimtab.planner.scale_down.decision import decide_scale_down
from trimtab.planner.service.request_limits import ThreadLanes
from trimtab.planner.service.session import CachedSnapshot
from trimtab.planner.simulation.build import Simulation, build_simulation
from trimtab.planner.simulation.kernels import revert
from trimtab.planner.snapshot.caches import SnapshotCache
from trimtab.planner.snapshot.columns import Snapshot
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2 as pb

NOW_NS = 1_800_000_000 * 10**9
THREAD_LANES = ThreadLanes()
"""Threads for attempts, as the service has them."""


@dataclass
class Deciding:
    """A cluster with its simulation, and the last answer's state.

    cache : as the service has it, for a snapshot that it has seen before; without, each request is the first;
    now_ns : moment of the next request.
    """

    cluster: Snapshot
    simulation: Simulation
    settings: ScaleDownSettings
    state: pb.ScaleDownState | None
    cache: SnapshotCache | None = None
    now_ns: int = NOW_NS

    def request(self) -> ScaleDownRequest:
        cache = self.cache or CachedSnapshot(self.cluster)
        this = Round(
            self.cluster, lambda *_: self.simulation, self.now_ns,
            work=Work(cache=cache, parallel=THREAD_LANES),
        )  # fmt: skip
        return ScaleDownRequest(this, self.settings, self.state)


def prepare(shape: ClusterShape, settings: ScaleDownSettings, *, steady: bool = False) -> Deciding:
    cluster = canonicalize(snapshot(shape))
    made = Deciding(cluster, build_simulation(cluster), settings, None)
    if steady:
        made.cache = CachedSnapshot(cluster)
        made.state = decide_scale_down(made.request()).state
        revert(made.simulation.state, 0)
    return made


def run(made: Deciding, stages: Stages) -> Decided:
    with stages.stage("total"):
        result = decide_scale_down(made.request())
    # The next run starts from the cluster as it is.
    revert(made.simulation.state, 0)
    decision = result.result
    stages.fact("unneeded", len(decision.unneeded))
    stages.fact("bound", volume_bound(made.cluster, len(decision.unneeded)))
    stages.fact("saving per hour", total(prices(made.cluster)[result.change.gone]))
    stages.fact("searches", counts_of(result)["searched_places"])
    stages.fact("state bytes", result.state.ByteSize())
    return result


def volume_bound(cluster: Snapshot, least: int) -> int:
    """Most nodes that could go if pods were liquid: the largest stay, until cpu and memory suffice."""
    asked = np.array([[dict(spec.requests).get(name, 0) for name in ("cpu", "memory")] for spec in cluster.specs])
    on_node = cluster.pods.node >= 0
    needed = asked[cluster.pods.spec[on_node]].sum(axis=0)
    rooms = [np.cumsum(np.sort(cluster.nodes.allocatable[:, r])[::-1]) for r in (0, 1)]
    stay = max(int(np.searchsorted(room, amount)) + 1 for room, amount in zip(rooms, needed, strict=True))
    return max(len(cluster.nodes.name) - stay, least)


def run_again(made: Deciding, stages: Stages) -> Decided:
    """Decide ten seconds later, with the state of the last answer."""
    made.now_ns += 10 * 10**9
    result = run(made, stages)
    made.state = result.state
    return result


def verify(made: Deciding, result: Decided) -> None:
    """Every node has one verdict, every destination stays and has room for all that it ends up with."""
    decision, cluster = result.result, made.cluster
    place = {name: i for i, name in enumerate(cluster.nodes.name)}
    going = {place[entry.node] for entry in decision.unneeded}
    assert all(one.fate for one in judged(result, cluster).nodes)
    where = {pod: place[node] for pod, node in destinations(decision.places).items()}
    assert going.isdisjoint(where.values())
    asked = np.array([dict(spec.requests).get("cpu", 0) for spec in cluster.specs])
    pods = np.flatnonzero(np.isin(cluster.pods.node, list(going)))
    extra = np.zeros(len(place), np.int64)
    for pod in pods.tolist():
        target = where.get(cluster.pod_key(pod))
        if target is not None:
            extra[target] += asked[cluster.pods.spec[pod]]
    on_node = cluster.pods.node >= 0
    used = np.bincount(cluster.pods.node[on_node], asked[cluster.pods.spec[on_node]], len(place))
    received = np.flatnonzero(extra)
    assert (used[received] + extra[received] <= cluster.nodes.allocatable[received, 0]).all()


def counts_of(result: Decided) -> dict[str, int]:
    """Return the numbers of the search."""
    return dict(result.figures)


def verify_steady(made: Deciding, result: Decided) -> None:
    """Nothing changed, so nothing is searched."""
    verify(made, result)
    assert counts_of(result)["searched_places"] == 0


scenario(
    name="scale-down 5,000 nodes, first loop",
    what="decision alone, three orders of candidates, 150,000 pods with budgets",
    setup=partial(prepare, LARGE, ScaleDownSettings()),
    run=run,
    verify=verify,
    aims={"total": 0.1},
)
scenario(
    name="scale-down 5,000 nodes, first loop, effort FIRST",
    what="as above, one order of candidates and one wave",
    setup=partial(prepare, LARGE, replace(ScaleDownSettings(), search=FIRST, max_waves=1)),
    run=run,
    verify=verify,
    aims={"total": 0.06},
)
scenario(
    name="scale-down 5,000 nodes, steady loop",
    what="the same again ten seconds later, with the state of the last answer",
    setup=partial(prepare, LARGE, ScaleDownSettings(), steady=True),
    run=run_again,
    verify=verify_steady,
    aims={"total": 0.01},
)
scenario(
    name="scale-down 20,000 nodes, first loop",
    what="decision alone, three orders of candidates, 600,000 pods with budgets",
    setup=partial(prepare, replace(LARGE, nodes=20_000, pods=600_000), ScaleDownSettings()),
    run=run,
    verify=verify,
    aims={"total": 1.0},
    large=True,
)
