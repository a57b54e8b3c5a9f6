"""Which of the pods that are alike goes to which of their destinations: as many as possible stay in the domains where
they are, such as zones.

Nodes go in waves, and spread has to hold after each of them, with the pods of later waves still where they were. A pod
that stays in its zone changes no count there; if pods crossed between zones although they are alike, a wave could be
refused for what a later one makes even. In the end all is as before.
"""

from functools import cached_property

import numpy as np

from trimtab.planner.predicates.counters import is_unlike_its_class, shared_domains
from trimtab.planner.simulation.state import SimulationState
from trimtab.planner.snapshot.columns import NO_NODE, Int32, Int64


class NearPlaces:
    """Exchanges destinations of pods that are alike and depend on others, where they are in the task's simulation."""

    def __init__(self, state: SimulationState) -> None:
        self._state = state

    @cached_property
    def _domain(self) -> Int64:
        """A number for all domains that each node is in. int64[N]."""
        nodes = np.arange(len(self._state.node_state))
        columns = [one.astype(np.int64) for one in shared_domains(self._state.counters, nodes)]
        rows = np.concatenate([np.zeros((len(nodes), 1), np.int64), *columns], axis=1)
        domain: Int64 = np.unique(rows, axis=0, return_inverse=True)[1].ravel()
        return domain

    def exchanged(self, pods: Int32, destination: Int32) -> Int32:
        """Return destinations : int32[P'] with those of pods : int32[M] exchanged among them. O(M log M)."""
        state = self._state
        alike = (state.local_class[state.pod_class[pods]] == 0) & (state.pinned[pods] == NO_NODE)
        alike &= (state.pod_node[pods] != NO_NODE) & ~is_unlike_its_class(state.counters, pods)
        pods = pods[alike]
        classes = np.unique(state.pod_class[pods], return_inverse=True)[1].ravel()
        domains = int(self._domain.max(initial=0)) + 1
        here = classes * domains + self._domain[state.pod_node[pods]]
        there = classes * domains + self._domain[destination[pods]]
        found = destination.copy()
        found[pods] = destination[pods[partners(here, there)]]
        return found


def partners(here: Int64, there: Int64) -> Int64:
    """Return a permutation : int64[M] of rows with here[row] = there[partner] in as many rows as possible, the others
    in ascending order of both : int64[M]."""
    count = int(max(here.max(initial=-1), there.max(initial=-1))) + 1
    both = np.minimum(np.bincount(here, minlength=count), np.bincount(there, minlength=count))
    rows, places = np.argsort(here, kind="stable"), np.argsort(there, kind="stable")
    stays, taken = _rank(here[rows]) < both[here[rows]], _rank(there[places]) < both[there[places]]
    found = np.empty(len(here), np.int64)
    found[rows[stays]], found[rows[~stays]] = places[taken], places[~taken]
    return found


def _rank(ascending: Int64) -> Int64:
    """Return how many equal numbers come before each of ascending ones."""
    rank: Int64 = np.arange(len(ascending)) - np.searchsorted(ascending, ascending, side="left")
    return rank
