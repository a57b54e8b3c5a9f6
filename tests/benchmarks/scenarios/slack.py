"""The slack decision on top of a plan, in process: 2,500 placeholders and 1,000 mirrored workloads. Synthetic clusters.

What any plan does, a copy of the kept simulation, is timed apart and taken off. What follows from the snapshot alone is
kept from one run to the next; what follows from the places of placeholders, but in steady loops, is not.
"""

import time
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice
from typing import Any

from google.protobuf.json_format import ParseDict

from tests.benchmarks.clusters import LARGE, snapshot
from tests.benchmarks.registry import Stages, scenario
from trimtab.planner.decisions.simulations import simulate
from trimtab.planner.model.values import SlackRequest
from trimtab.planner.round.decision import Decided
from trimtab.planner.round.round import Round, Work
from trimtab.planner.service.session import CachedSnapshot
from trimtab.planner.simulation.build import Simulation
from trimtab.planner.simulation.virtual_rows import NO_KINDS, Kinds, VirtualPod, VirtualRows
from trimtab.planner.slack.decision import decide
from trimtab.planner.slack.settings import SlackSettings, resolve_slack
from trimtab.planner.snapshot.caches import SnapshotCache
from trimtab.planner.snapshot.columns import Snapshot
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1 import reason_pb2

NOW_NS = 1_800_000_000 * 10**9
RATE = {"slack": {"extraCapacityMinRate": 0.1}}


@dataclass
class Keeping:
    """A cluster, settings, the last answer's state, and what the service has kept of the cluster."""

    cluster: Snapshot
    settings: SlackSettings
    cache: SnapshotCache
    state: pb.SlackState | None = None

    def simulation(self, virtual: tuple[VirtualPod, ...], kinds: Kinds = NO_KINDS) -> Simulation:
        return simulate(self.cluster, pb.PlanRequest(), self.cache, VirtualRows(virtual, (), kinds))

    def decide(self) -> Decided:
        this = Round(self.cluster, self.simulation, NOW_NS, work=Work(cache=self.cache))
        return decide(this, self.settings, self.state)


def prepare(settings: dict[str, Any], workloads: int = 0, *, steady: bool = False) -> Keeping:
    cluster = canonicalize(snapshot(LARGE))
    if workloads:
        cluster = cluster._replace(slack_requests=mirrored(cluster, workloads))
    kept = CachedSnapshot(cluster)
    made = Keeping(cluster, resolve_slack(ParseDict(settings, pb.PlanSettings())), kept)
    made.simulation(())
    if steady:
        made.state = made.decide().state
    return made


def mirrored(cluster: Snapshot, count: int) -> tuple[SlackRequest, ...]:
    """Requests for one more pod of so many workloads: those that the cluster has, and from the first on again by other
    names."""
    pods, first = cluster.pods, {}
    for pod, owner in enumerate(pods.owner.tolist()):
        if owner >= 0:
            first.setdefault(owner, pod)
    rows = []
    for number, (owner, pod) in enumerate(islice(cycle(first.items()), count)):
        of = cluster.owners[owner]
        name = of.name if number < len(first) else f"{of.name}-{number}"
        spec, labels = cluster.specs[pods.spec[pod]], cluster.labels_of(int(pods.label_set[pod]))
        namespace = cluster.strings[pods.namespace[pod]]
        rows.append(SlackRequest(f"{of.kind}/{of.namespace}/{name}", "", namespace, spec, labels, 1, "1"))
    return tuple(sorted(rows))


def run(made: Keeping, stages: Stages) -> Decided:
    start = time.perf_counter()
    made.simulation(())
    copied = time.perf_counter()
    result = made.decide()
    end = time.perf_counter()
    stages.add("copy of the simulation", copied - start)
    stages.add("total", max(end - copied - (copied - start), 0.0))
    slack = result.result
    stages.fact("placeholders", len(slack.placeholders))
    stages.fact("waiting", sum(not one.node for one in slack.placeholders))
    stages.fact("state bytes", result.state.ByteSize())
    return result


def verify(made: Keeping, result: Decided) -> None:
    """All placeholders are on nodes, or wait for new ones, and no node holds more than it has."""
    slack, cluster = result.result, made.cluster
    assert slack.result in (reason_pb2.SlackResult.SLACK_PRESENT, reason_pb2.SlackResult.SLACK_LACKING)
    assert not slack.problems
    place = {name: at for at, name in enumerate(cluster.nodes.name)}
    used = [0] * len(place)
    for pod, node in enumerate(cluster.pods.node.tolist()):
        if node >= 0:
            used[node] += dict(cluster.specs[cluster.pods.spec[pod]].requests).get("cpu", 0)
    for one in slack.placeholders:
        if one.node:
            used[place[one.node]] += one.cpu_milli
    assert all(amount <= room for amount, room in zip(used, cluster.nodes.allocatable[:, 0].tolist(), strict=True))


def verify_steady(made: Keeping, result: Decided) -> None:
    """Nothing changed, so nothing moves."""
    verify(made, result)
    assert result.state == made.state
    assert not result.result.pushed_out


scenario(
    name="slack 5,000 nodes, first loop",
    what="decision on top of a plan, 2,500 placeholders for 10 % of 5,000 nodes with 150,000 pods",
    setup=partial(prepare, RATE),
    run=run,
    verify=verify,
    aims={"total": 0.03},
)
scenario(
    name="slack 5,000 nodes, steady loop",
    what="the same again with the state of the last answer",
    setup=partial(prepare, RATE, steady=True),
    run=run,
    verify=verify_steady,
    aims={"total": 0.005},
)
scenario(
    name="slack 5,000 nodes, 1,000 workloads",
    what="decision on top of a plan, one placeholder for each of 1,000 workloads",
    setup=partial(prepare, {}, 1_000),
    run=run,
    verify=verify,
    aims={"total": 0.03},
)
scenario(
    name="slack 5,000 nodes, 1,000 workloads, steady loop",
    what="the same again with the state of the last answer",
    setup=partial(prepare, {}, 1_000, steady=True),
    run=run,
    verify=verify_steady,
    aims={"total": 0.03},
)
