"""The kernels by which other packages drive a simulation; `planner.simulation` says what each does."""

from planner.simulation.kernels.checks import failing, failing_everywhere, fits
from planner.simulation.kernels.moves import commit, drop, fill, mark, place, remove, retire, revert
from planner.simulation.kernels.search import find, find_all

__all__ = [
    "commit",
    "drop",
    "failing",
    "failing_everywhere",
    "fill",
    "find",
    "find_all",
    "fits",
    "mark",
    "place",
    "remove",
    "retire",
    "revert",
]
