"""The kernels with which other packages use a simulation; `trimtab.planner.simulation` describes each."""

from trimtab.planner.simulation.kernels.checks import failing, fits
from trimtab.planner.simulation.kernels.moves import (
    close_node,
    cordon,
    count_domains_of,
    fill,
    mark,
    open_from_template,
    open_node,
    place,
    place_several,
    remove,
    remove_from_topology,
    revert,
)

__all__ = [
    "close_node",
    "cordon",
    "count_domains_of",
    "failing",
    "fill",
    "fits",
    "mark",
    "open_from_template",
    "open_node",
    "place",
    "place_several",
    "remove",
    "remove_from_topology",
    "revert",
]
