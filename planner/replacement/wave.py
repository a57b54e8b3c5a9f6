"""One wave of a plan, and how waves compare: what is found, how good it is, how large it may be. Pure."""

from typing import Final, NamedTuple

from trimtab.planner.replacement.judge import Value
from trimtab.planner.replacement.trial import Trial
from trimtab.planner.snapshot.columns import Int32, Int64

_TIE: Final = 1e-9


class Wave(NamedTuple):
    """trial : the nodes and moves, new nodes as in `Trial`; node : int32[M] where each pod goes, a node of the
    simulation; new_nodes : int64 nodes of the simulation, by position in `trial.group_of`; start : mark before its
    moves."""

    trial: Trial
    value: Value
    node: Int32
    new_nodes: Int64
    start: int


class JudgedWave(NamedTuple):
    """A valid wave. rank : its worth, less `min_saving_share` of what moves as costly as its own save on the mean, and
    less part of what later waves lose because nodes that could leave got pods; if it follows a target, with what later
    waves save."""

    trial: Trial
    value: Value
    rank: float


class Scale(NamedTuple):
    """How large a set may be: most_leaving, most_new nodes; waves : for how many waves budgets count."""

    most_leaving: int
    most_new: int
    waves: int


class Way(NamedTuple):
    """How waves follow a target. early : how much more what is saved in this wave counts than in later ones; mismatch :
    share of a pod's room that is lost if it takes the room of other pods."""

    early: float
    mismatch: float


GREEDY: Final = Way(0.0, 0.0)
"""Without a target."""


def is_better(one: JudgedWave, other: JudgedWave) -> bool:
    """Return whether a wave is better than another: it saves more, or as much with less disturbance."""
    by = one.rank - other.rank
    if abs(by) > _TIE * max(abs(other.rank), 1e-6):
        return by > 0
    return (one.value.cost, one.value.new_count) < (other.value.cost, other.value.new_count)
