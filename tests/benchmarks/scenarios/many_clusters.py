"""One planner for many clusters: each has its own loop, which sends its snapshot once and then only changes.

All plan at the same time without a pause, unlike real loops.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from google.protobuf.timestamp_pb2 import Timestamp

from tests.benchmarks.clusters import snapshot
from tests.benchmarks.registry import Stages, scenario
from tests.benchmarks.services import RunningPlanner
from trimtab.clients.cluster_generator import ClusterShape
from trimtab.clients.loop.planner_session import PlannerSession
from trimtab.clients.planner_client import GrpcLink
from trimtab.common.rpc.errors import Reason, TrimtabError
from trimtab.common.watched.snapshot_update import SnapshotUpdate
from trimtab.v1 import plan_pb2, snapshot_pb2

PLANS = 3
SMALL = ClusterShape(nodes=500, pods=10_000)
NOTHING = SnapshotUpdate(None, snapshot_pb2.SnapshotDelta(), is_empty=True)
PAUSE_S = 0.5
TIMEOUT_S = 300.0
REFUSED = (Reason.OVERLOADED, Reason.MEMORY_EXCEEDED)


@dataclass
class Many:
    """A planner, the snapshot that all clusters have, and what their loops were answered."""

    planner: RunningPlanner
    whole: SnapshotUpdate
    clusters: int
    refused: Counter[str] = field(default_factory=Counter)
    sizes: set[tuple[int, int]] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def peak_bytes(self) -> int:
        return self.planner.peak_bytes()

    def close(self) -> None:
        self.planner.close()


def prepare(clusters: int, shape: ClusterShape, *options: str) -> Many:
    """Start a planner. options : of its command line."""
    return Many(RunningPlanner(*options), SnapshotUpdate(snapshot(shape), None), clusters)


def run(made: Many, stages: Stages) -> list[int]:
    """Let all loops plan at the same time; return how many whole snapshots each has sent."""
    made.refused.clear()
    with ThreadPoolExecutor(made.clusters) as threads:
        done = list(threads.map(lambda number: loop(made, number, lambda count: count < PLANS), range(made.clusters)))
    times_s = sorted(one.took_s for one in done)
    stages.fact("slowest cluster by fastest", times_s[-1] / times_s[0])
    stages.fact("refused, then answered", made.refused.total())
    stages.fact("plans", made.clusters * PLANS)
    stages.fact("whole snapshots", sum(one.whole_count for one in done))
    return [one.whole_count for one in done]


class Looped(NamedTuple):
    """What a loop did: plans, whole snapshots sent, seconds."""

    plan_count: int
    whole_count: int
    took_s: float


def loop(made: Many, cluster: int, goes_on: Callable[[int], bool]) -> Looped:
    """Plan for one cluster, again and again. goes_on : whether there is to be another plan after so many."""
    begun_s, count = time.perf_counter(), 0
    with GrpcLink(made.planner.address, TIMEOUT_S) as link:
        session = PlannerSession(link)
        while goes_on(count):
            answer = plan(made, session, f"cluster-{cluster}", count)
            with made.lock:
                made.sizes.add((count, len(answer.scale_down.unneeded)))
            count += 1
        return Looped(count, session.whole_count, time.perf_counter() - begun_s)


def plan(made: Many, session: PlannerSession, cluster: str, number: int) -> plan_pb2.PlanResponse:
    """Ask once, and again where the planner has too much to do."""
    while True:
        request = plan_pb2.PlanRequest(cluster=cluster, now=Timestamp(seconds=1_770_000_000 + 10 * number))
        request.decisions.append(plan_pb2.Decision.SCALE_DOWN)
        try:
            return session.plan(request, NOTHING if number else made.whole, lambda: made.whole)[0]
        except TrimtabError as error:
            if error.reason not in REFUSED:
                raise
            with made.lock:
                made.refused[error.reason_name] += 1
            time.sleep(PAUSE_S)


def verify(made: Many, whole_counts: list[int]) -> None:
    """All clusters are answered, the same."""
    assert len(whole_counts) == made.clusters
    assert len(made.sizes) == PLANS


scenario(
    name="many-clusters-100",
    what=f"100 clusters of {SMALL.nodes:,} nodes and {SMALL.pods:,} pods, each planned for three times, all at the same"
    " time, by one planner over gRPC",
    setup=partial(prepare, 100, SMALL),
    run=run,
    verify=verify,
    repeats=1,
    reference="no loop is to take more than twice as long as another, none to fail",
    large=True,
)
