"""The capacity of a simulation's move log, and what happens when it is full.

Contract: pure. A move that does not fit the log is refused and counted (`MoveLog.refused`). Later results may be
wrong: the caller must call `check_log` before it uses them. `with_larger_log` makes room for a retry.
"""

from typing import Final

import numpy as np

from trimtab.planner.simulation.kernels import revert
from trimtab.planner.simulation.state import PLACE, MoveLog, SimulationState
from trimtab.planner.snapshot.columns import Int32

_MOVES_FOR_EACH_POD: Final = 4
_MOVES_FOR_EACH_NODE: Final = 4
_SPARE_MOVES: Final = 1024
_GROWTH: Final = 4


class MoveLogFullError(RuntimeError):
    """The log had no room for a move, so the counters are wrong."""


def log_for(pods: int, nodes: int) -> MoveLog:
    """Return an empty log with room for the moves of a decision."""
    return move_log(_MOVES_FOR_EACH_POD * pods + _MOVES_FOR_EACH_NODE * nodes + _SPARE_MOVES)


def move_log(capacity: int) -> MoveLog:
    """Return an empty log."""
    # Rows are written before they are read, and most never are: clearing megabytes would cost more than many plans.
    return MoveLog(np.empty((capacity, 3), np.int64), np.zeros(1, np.int64), np.zeros(1, np.int64))


def check_log(state: SimulationState) -> None:
    """Raise MoveLogFullError if any move was refused since the log was made."""
    if state.log.refused[0]:
        raise MoveLogFullError(f"a log of {len(state.log.moves)} moves is full: {state.log.refused[0]} were refused")


def commit(state: SimulationState) -> None:
    """Make all moves final: the log is empty again. Raises MoveLogFullError if one was refused."""
    check_log(state)
    state.log.length[0] = 0


def current_mark(state: SimulationState) -> int:
    """Return the place in the log to which `revert` can go back. The kernel `mark` for callers outside kernels."""
    return int(state.log.length[0])


def placed_since(state: SimulationState, mark: int) -> Int32:
    """Return the pods placed since a mark, in the order in which they were placed. int32."""
    moves = state.log.moves[mark : int(state.log.length[0])]
    placed: Int32 = moves[moves[:, 0] == PLACE, 1].astype(np.int32)
    return placed


def with_larger_log(state: SimulationState, mark: int) -> SimulationState:
    """Undo all moves since a mark and return the state with room for several times as many; its arrays are shared."""
    revert(state, mark)
    log = move_log(_GROWTH * len(state.log.moves) + _SPARE_MOVES)
    log.moves[:mark] = state.log.moves[:mark]
    log.length[0] = mark
    return state._replace(log=log)
