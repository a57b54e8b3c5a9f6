"""The kernels with which other packages use a simulation; `trimtab.planner.simulation` describes each."""

from trimtab.planner.simulation.kernels.checks import failing, failing_everywhere, fits
from trimtab.planner.simulation.kernels.moves import (
    close_node,
    count_domains_of,
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
    "count_domains_of",
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
