"""A plan and the resulting simulation are the same however many attempts are made in parallel."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.drain_sets import MIX, big_or_small, objects_of
from tests.builders.examples import examples
from tests.builders.kubernetes import Json, snapshot_of
from tests.builders.scale_down import NOW_S, settings_of
from tests.parity.scheduler_oracle.generator.cluster import cluster
from trimtab.planner.model.execution import SEQUENTIAL, Parallel
from trimtab.planner.model.settings import resolve_scale_down
from trimtab.planner.round.round import Round, Work
from trimtab.planner.scale_down.context import ScaleDownRequest
from trimtab.planner.scale_down.decision import decide_scale_down
from trimtab.planner.scale_down.search import portfolio
from trimtab.planner.service.request_limits import ThreadLanes
from trimtab.planner.simulation.build import build_simulation
from trimtab.planner.simulation.log import move_log
from trimtab.planner.simulation.virtual_rows import VirtualRows
from trimtab.planner.snapshot.columns import Snapshot
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2

T = TypeVar("T")
SMALL = MIX._replace(nodes=(4, 8), pods=(10, 30))
SETTINGS = {"utilizationThreshold": 1, "unneededTime": "0s", "skipNodesWithLocalStorage": False}
BY_COUNT = SETTINGS | {"objective": "COUNT"}


class Backwards:
    """Runs the last task first."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.ran = 0

    def __call__(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        self.ran += len(tasks)
        return [task() for task in tasks[::-1]][::-1]


def decided(
    snapshot: Snapshot,
    together: Parallel,
    state: plan_pb2.ScaleDownState | None = None,
    capacity: int = 100_000,
    asked: Json = SETTINGS,
) -> list[bytes]:
    simulation = build_simulation(snapshot, VirtualRows())
    simulation = simulation._replace(state=simulation.state._replace(log=move_log(capacity)))
    this = Round(snapshot, lambda *_: simulation, NOW_S * 10**9, work=Work(parallel=together))
    found = decide_scale_down(ScaleDownRequest(this, resolve_scale_down(settings_of(asked)), state))
    left = this.simulation.state
    counters = left.counters
    arrays = (left.pod_node, left.node_state, left.resources.free, counters.spread.counts, counters.presence.counts)
    messages = (found.result, found.state)
    return [one.SerializeToString(deterministic=True) for one in messages] + [array.tobytes() for array in arrays]


@contextmanager
def always_side_by_side() -> Iterator[None]:
    """Make small plans as large ones."""
    with patch.object(portfolio, "WORTH_PODS", 0):
        yield


@given(seed=st.integers(0, 2**32), width=st.integers(2, 16), short=st.integers(0, 200))
@examples(15, 8)
def test_a_plan_is_the_same_however_many_attempts_are_made_at_the_same_time(seed: int, width: int, short: int) -> None:
    snapshot = canonicalize(snapshot_of(objects_of(cluster("c", seed, SMALL))))
    alone = decided(snapshot, SEQUENTIAL)
    with always_side_by_side():
        assert decided(snapshot, Backwards(width)) == alone
        assert decided(snapshot, Backwards(width), capacity=short) == alone
        state = plan_pb2.ScaleDownState.FromString(alone[1])
        together = decided(snapshot, Backwards(width), state)
    assert together == decided(snapshot, SEQUENTIAL, state)


def test_attempts_in_threads_come_to_what_attempts_one_after_the_other_come_to() -> None:
    snapshots = [canonicalize(snapshot_of(objects_of(cluster("c", seed, SMALL)))) for seed in range(12)]
    alone = [decided(snapshot, SEQUENTIAL) for snapshot in snapshots]
    backwards = Backwards(16)
    with always_side_by_side():
        assert [decided(snapshot, ThreadLanes(3)) for snapshot in snapshots] == alone
        assert [decided(snapshot, backwards) for snapshot in snapshots] == alone
    assert backwards.ran > 0


@pytest.mark.parametrize("width", range(2, 12))
def test_the_best_attempt_may_be_that_of_any_lane(width: int) -> None:
    """By price, the order of the first attempt, the expensive node goes; some other orders free both cheap ones."""
    snapshot = canonicalize(snapshot_of(big_or_small()))
    alone = decided(snapshot, SEQUENTIAL, asked=BY_COUNT)
    unneeded = plan_pb2.ScaleDownDecision.FromString(alone[0]).unneeded
    assert [one.node for one in unneeded] == ["small-1", "small-2"]
    with always_side_by_side():
        assert decided(snapshot, Backwards(width), asked=BY_COUNT) == alone


def test_a_small_plan_starts_no_threads() -> None:
    backwards = Backwards(4)
    decided(canonicalize(snapshot_of(objects_of(cluster("c", 1, SMALL)))), backwards)
    assert backwards.ran == 0
