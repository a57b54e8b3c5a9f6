"""The engine under plans that are searched by several attempts: make, judge, keep the best, adopt.

An attempt makes a plan in a simulation, from the same mark as all others. Attempts are made one after the other in the
given simulation, or at the same time in branches of it; plans do not depend on how many branches there are. Time is
checked before each. The caller judges plans by an objective of its own, keeps the best (`best_of`), and adopts it: only
then the simulation contains its moves for certain. Plans that are made outside of a simulation need `best_of` alone.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from trimtab.planner.model.execution import SEQUENTIAL, Parallel
from trimtab.planner.simulation.build import branch, go_over_to
from trimtab.planner.simulation.kernels import revert
from trimtab.planner.simulation.state import SimulationState

T = TypeVar("T")
Plan = TypeVar("Plan")
Maker: TypeAlias = Callable[[SimulationState], Plan]
"""Makes a plan, and its moves in a simulation in which no attempt's moves are. The same each time: reads no clock but
for how far it goes. One of `Attempts.make_all` may return None: its plan would equal one made before."""


class Branch:
    """A simulation in which attempts are made one after the other. made : how many have been made in it."""

    def __init__(self, state: SimulationState) -> None:
        self.state: Final = state
        self.made = 0


class Attempt(NamedTuple, Generic[Plan]):
    """A plan, the branch in which it was made, and the number of the attempt there, from 1."""

    plan: Plan
    branch: Branch
    number: int

    @property
    def has_moves(self) -> bool:
        """Return whether the moves of the plan are still in its branch."""
        return self.number == self.branch.made


class Attempts(Generic[Plan]):
    """The attempts of one search.

    state : the simulation into which a plan is adopted; start : mark before any attempt; repeat : makes a plan again,
    as it is, where its moves have been undone; in_time : whether there is time for another attempt.
    """

    def __init__(
        self,
        state: SimulationState,
        start: int,
        repeat: Callable[[SimulationState, Plan], Plan],
        in_time: Callable[[], bool],
        parallel: Parallel = SEQUENTIAL,
    ) -> None:
        self._main = Branch(state)
        self._start = start
        self._repeat = repeat
        self._in_time = in_time
        self._parallel = parallel

    def make(self, maker: Maker[Plan]) -> Attempt[Plan]:
        """Make one attempt in the given simulation, whatever the time."""
        return self._make(self._main, maker)

    def make_all(self, makers: Iterable[Maker[Plan | None]], *, in_branches: bool = False) -> list[Attempt[Plan]]:
        """Make attempts as long as there is time; return those with a plan, in order.

        in_branches : they take long enough to be worth copies of the simulation, where some can run at the same time.
        """
        planned = list(makers)
        count = min(self._parallel.width, len(planned)) if in_branches else 1
        if count < 2:
            return _with_plans(self._make_in(self._main, planned))
        revert(self._main.state, self._start)
        branches = [self._main, *(Branch(branch(self._main.state)) for _ in range(count - 1))]
        parts = self._parallel([partial(self._make_in, where, planned[at::count]) for at, where in enumerate(branches)])
        turns = (part[turn : turn + 1] for turn in range(len(planned)) for part in parts)
        return _with_plans(chain.from_iterable(turns))

    def adopt(self, attempt: Attempt[Plan]) -> Attempt[Plan]:
        """Leave the moves of an attempt, and no others, in the given simulation; return the attempt as it is there."""
        if not attempt.has_moves:
            return self._make(self._main, lambda state: self._repeat(state, attempt.plan))
        if attempt.branch is self._main:
            return attempt
        go_over_to(self._main.state, attempt.branch.state)
        self._main.made += 1
        return Attempt(attempt.plan, self._main, self._main.made)

    def _make_in(self, where: Branch, makers: Sequence[Maker[T]]) -> list[Attempt[T]]:
        attempts: list[Attempt[T]] = []
        for maker in makers:
            if not self._in_time():
                break
            attempts.append(self._make(where, maker))
        return attempts

    def _make(self, where: Branch, maker: Maker[T]) -> Attempt[T]:
        revert(where.state, self._start)
        where.made += 1
        return Attempt(maker(where.state), where, where.made)


def _with_plans(attempts: Iterable[Attempt[Plan | None]]) -> list[Attempt[Plan]]:
    return [Attempt(plan, where, number) for plan, where, number in attempts if plan is not None]


def best_of(candidates: Sequence[T], is_better: Callable[[T, T], bool]) -> T:
    """Return the best of at least one attempt or plan, the earliest among equals. is_better : whether the first of two
    is better than the second."""
    best = candidates[0]
    for another in candidates[1:]:
        if is_better(another, best):
            best = another
    return best
