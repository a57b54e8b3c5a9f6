"""Print what a decision over each device fleet costs, in milliseconds of CPU, for comparison on a busy machine with the
Cluster Autoscaler's own benchmark.

Usage: python -m tests.benchmarks.device_fleets [LABEL...]
"whole" counts devices and claims and builds the simulation; "kept" has them from the plan before. With each, the nodes
added. The least of several runs.
"""

import sys
import time
from collections.abc import Callable
from functools import partial

from tests.benchmarks.registry import Stages
from tests.benchmarks.scenarios.device_fleets import FLEETS, cluster_of, run, verify
from tests.benchmarks.scenarios.scale_up import Growing, prepare
from trimtab.places import count_places
from trimtab.planner.service.session import CachedSnapshot
from trimtab.v1 import plan_pb2

TIMES = 8


def least(do: Callable[[], object]) -> float:
    """Return milliseconds of this thread, the least of several runs after one that warms up."""
    do()
    took = []
    for _ in range(TIMES):
        start = time.thread_time()
        do()
        took.append(time.thread_time() - start)
    return 1000 * min(took)


def main(*labels: str) -> None:
    """Measure and print."""
    print("fleet, effort, ms whole, ms kept, nodes added, pods placed")
    for label in labels or FLEETS:
        fleet = FLEETS[label]
        made = prepare(partial(cluster_of, fleet))
        for effort in ("USUAL", "FIRST"):
            made.request.settings.search_effort = plan_pb2.SearchEffort.Code.Value(effort)
            kept = Growing(made.cluster, CachedSnapshot(made.kept.snapshot).planned(), made.request)
            answer = kept.plan(Stages())
            verify(kept, answer, fleet)
            whole, again = least(partial(run, made, Stages())), least(partial(kept.plan, Stages()))
            (split,) = answer.scale_up.splits
            grown = split.new_size - split.current_size
            print(
                label,
                effort,
                f"{whole:.1f}",
                f"{again:.1f}",
                grown,
                count_places(answer.scale_up.places).new,
                sep=" | ",
                flush=True,
            )


if __name__ == "__main__":
    main(*sys.argv[1:])
