"""Independent attempts, made in parallel: each lane has its own simulation. The results do not depend on the number of
lanes. Never chooses among attempts.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

from trimtab.planner.scale_down.search.drain_sets import Attempt, AttemptOptions, Rule, Task, run
from trimtab.planner.simulation.fresh import branch
from trimtab.planner.simulation.kernels import revert
from trimtab.planner.simulation.state import SimulationState
from trimtab.planner.snapshot.columns import Int32

WORTH_PODS: Final = 20_000
"""Number of pods to move from which a lane is worth its copy of the simulation: attempts then take several
milliseconds.
"""


class PlannedAttempt(NamedTuple):
    """A planned attempt. staying : int32 nodes that are not candidates, in search order; candidates : int32[E]."""

    staying: Int32
    candidates: Int32
    order: int
    rule: Rule = Rule.AT_ONCE


class Lanes(NamedTuple):
    """attempts : results in the planned order, None = there was no time.

    in_place : the attempt whose moves the task's simulation contains, None = it is unchanged; elsewhere : the other
    simulations, each with the attempt whose moves it contains.
    """

    attempts: list[Attempt | None]
    in_place: Attempt | None
    elsewhere: list[tuple[SimulationState, Attempt]]

    def with_moves_of(self, attempt: Attempt) -> SimulationState | None:
        """Return the simulation, other than the task's, that contains an attempt's moves, None = there is none."""
        return next((state for state, last in self.elsewhere if last is attempt), None)


def make(task: Task, start: int, planned: Sequence[PlannedAttempt], in_place: Attempt) -> Lanes:
    """Make attempts, each from the mark `start`. in_place : the attempt whose moves the simulation contains now."""
    count = min(task.together.width, len(planned)) if len(task.problem.pods) >= WORTH_PODS else 1
    if count < 2:
        attempts = _make_in(task, start, planned)
        return Lanes(attempts, _last_of(attempts) or in_place, [])
    revert(task.state, start)
    lanes = [task, *(task._replace(state=branch(task.state)) for _ in range(count - 1))]
    parts = task.together([partial(_make_in, lane, start, planned[at::count]) for at, lane in enumerate(lanes)])
    attempts = [parts[at % count][at // count] for at in range(len(planned))]
    left = [(lane.state, _last_of(part)) for lane, part in zip(lanes, parts, strict=True)]
    return Lanes(attempts, left[0][1], [(state, last) for state, last in left[1:] if last is not None])


def _make_in(task: Task, start: int, planned: Sequence[PlannedAttempt]) -> list[Attempt | None]:
    """Make attempts one after the other in the simulation of a task."""
    return [from_start(task, start, one) if task.in_time() else None for one in planned]


def from_start(task: Task, start: int, planned: PlannedAttempt) -> Attempt:
    """Undo the last attempt and make another."""
    revert(task.state, start)
    return run(task.searching(planned.staying), planned.candidates, AttemptOptions(planned.order, planned.rule))


def _last_of(attempts: Sequence[Attempt | None]) -> Attempt | None:
    return next((one for one in reversed(attempts) if one is not None), None)
