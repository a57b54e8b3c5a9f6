"""Overload of a planner: 64 callers plan repeatedly for clusters of 5,000 nodes.

All should get equally many plans, and refusals must follow the contract. The clusters need 2.4 GiB when all of them are
kept as bases; by default there is room for a third, and the others are sent whole each time.
"""

import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from tests.benchmarks.clusters import LARGE
from tests.benchmarks.registry import Stages, scenario
from tests.benchmarks.scenarios.many_clusters import Many, loop, prepare

CALLERS = 64
TIME_S = 150.0
UNFAIR = 2
"""No caller may get more than this multiple of another's plans."""


def run(made: Many, stages: Stages) -> list[int]:
    """Let all callers plan until the time is over; return the plans of each."""
    made.refused.clear()
    until_s = time.monotonic() + TIME_S
    with ThreadPoolExecutor(made.clusters) as threads:
        goes_on = partial(_is_before, until_s)
        done = list(threads.map(lambda number: loop(made, number, goes_on), range(made.clusters)))
    counts = sorted(one.plan_count for one in done)
    stages.fact("plans of a caller, fewest", counts[0])
    stages.fact("plans of a caller, median", statistics.median(counts))
    stages.fact("plans of a caller, most", counts[-1])
    stages.fact("plans", sum(counts))
    stages.fact("whole snapshots", sum(one.whole_count for one in done))
    stages.fact("refused, then answered", made.refused.total())
    stages.fact("of these for memory", made.refused["MEMORY_EXCEEDED"])
    return counts


def _is_before(until_s: float, _plan_count: int) -> bool:
    return time.monotonic() < until_s


def verify(made: Many, counts: list[int]) -> None:
    """Check that all callers get plans, and that equal requests have equal answers."""
    assert len({number for number, _ in made.sizes}) == len(made.sizes) >= counts[-1]
    assert len(counts) == made.clusters
    assert counts[-1] <= UNFAIR * counts[0], counts


for name, options, what in (
    ("many-callers-64", (), "by a planner as it is by default"),
    ("many-callers-64-kept", ("--cache-bytes", str(4 << 30)), "by a planner that can keep them all"),
):
    scenario(
        name=name,
        what=f"{CALLERS} clusters of {LARGE.nodes:,} nodes and {LARGE.pods:,} pods, planned for again and again for"
        f" {TIME_S:.0f} s, {what}",
        setup=partial(prepare, CALLERS, LARGE, *options),
        run=run,
        verify=verify,
        repeats=1,
        reference="no caller is to get more than twice the plans of another, none to fail",
        large=True,
    )
