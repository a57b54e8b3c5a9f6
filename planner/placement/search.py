"""Builds the input of `trimtab.planner.placement.kernels.search`."""

from typing import Final

import numpy as np

from trimtab.planner.placement.kernels.search import NO_DOMAINS, Domains, Search
from trimtab.planner.predicates import counters
from trimtab.planner.simulation.state import SimulationState
from trimtab.planner.snapshot.columns import Bool, Int32

MOST_DOMAINS: Final = 64
"""Most domains of a key for a search by domain: useful for zones but not for hosts."""


def new_search(state: SimulationState, order: Int32, allowed: Bool) -> Search:
    """Return a new search. order : int32[D]; allowed : bool[N]. O(topology rows · D log D)."""
    cursor, failed = np.zeros((2, len(state.local_class)), np.int64)
    return Search(order, allowed, cursor, failed, _domains(state, order))


def _domains(state: SimulationState, order: Int32) -> Domains:
    of_row = counters.domains_of_constraints(state.counters)
    rows = [row for row, domain in of_row.items() if domain.max(initial=-1) < MOST_DOMAINS]
    if not rows:
        return NO_DOMAINS
    chain = np.full(max(of_row) + 1, -1, np.int32)
    chain[rows] = np.arange(len(rows), dtype=np.int32)
    head = np.full((len(rows), MOST_DOMAINS), -1, np.int32)
    following = np.full((len(rows), len(order)), -1, np.int32)
    for place, row in enumerate(rows):
        domain = of_row[row][order]
        known = np.flatnonzero(domain >= 0)
        sorted_by_domain = known[np.argsort(domain[known], kind="stable")]
        its = domain[sorted_by_domain]
        starts = np.flatnonzero(np.diff(its, prepend=-1))
        head[place, its[starts]] = sorted_by_domain[starts]
        same = its[1:] == its[:-1]
        following[place, sorted_by_domain[:-1][same]] = sorted_by_domain[1:][same]
    return Domains(chain, head, following, np.empty(MOST_DOMAINS, np.int32), np.full(1, -1, np.int64))
