"""The kernels by which other packages drive a simulation; `planner.simulation` says what each does."""

from planner.simulation.kernels.checks import failing, failing_everywhere, fits
from planner.simulation.kernels.moves import (
    close_node,
    drop,
    fill,
    mark,
    open_as,
    open_node,
    place,
    place_several,
    remove,
    retire,
    revert,
)

__all__ = [
    "close_node",
    "drop",
    "failing",
    "failing_everywhere",
    "fill",
    "fits",
    "mark",
    "open_as",
    "open_node",
    "place",
    "place_several",
    "remove",
    "retire",
    "revert",
]
