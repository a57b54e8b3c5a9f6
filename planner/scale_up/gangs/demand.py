"""Which gangs wait for places, and in which turn gangs and single pods get them: as kube-scheduler pops them, by
priority, then by age. O(pods log pods).
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from trimtab.planner.facts.gangs import Gang
from trimtab.planner.model.settings import SECOND_NS
from trimtab.planner.model.tuning import SINGLE_POD_RUNS
from trimtab.planner.model.values import PodGroup
from trimtab.planner.new_nodes.demand_sets import NOBODY
from trimtab.planner.placement.waiting import in_order, priorities
from trimtab.planner.round.round import Round
from trimtab.planner.scale_up.pending import PodsInGangs
from trimtab.planner.simulation.build import Simulation
from trimtab.planner.snapshot.columns import NO_NODE, Int32, Snapshot


class Turn(NamedTuple):
    """Pods that take their turn together. gang : position among the gangs, -1 = single pods; pods : int32."""

    gang: int
    pods: Int32


def waiting_gangs(gangs: Sequence[Gang]) -> list[Gang]:
    """Return the gangs with pending pods."""
    return [gang for gang in gangs if len(gang.pending)]


def waiting_placeholder_gangs(this: Round) -> list[Gang]:
    """Return the gangs of placeholders that wait for room: all of such a gang have places, or none has."""
    pod_node, room = this.simulation.state.pod_node, this.room
    first, found = len(pod_node) - len(room.names), []
    for one in room.gangs:
        pods = np.arange(first + room.bounds[one.set], first + room.bounds[one.set + 1], dtype=np.int32)
        if (pod_node[pods] == NO_NODE).all():
            group = PodGroup(one.namespace, one.name, one.name, "", len(pods), one.topology_key)
            found.append(Gang(one.namespace, one.name, group, pods, NOBODY, 0, 0, (), is_room=True))
    return found


def turns_of_room(gangs: Sequence[Gang], left: Int32) -> list[Turn]:
    """Return the turns of gangs of placeholders, in their order. left : int32 placeholders without a place."""
    return [Turn(at, gang.pending[np.isin(gang.pending, left)]) for at, gang in enumerate(gangs) if gang.is_room]


def pods_in_gangs(gangs: Sequence[Gang], *, serve_optional: bool) -> PodsInGangs:
    """Return the pods that the scheduler holds, and those beyond a minimum that runs. serve_optional : nodes are added
    for these, too."""
    optional = () if serve_optional else (gang for gang in gangs if not (gang.held or gang.need or gang.is_room))
    return PodsInGangs(_pods(gang for gang in gangs if gang.held), NOBODY, _pods(optional))


def turns(snapshot: Snapshot, simulation: Simulation, gangs: Sequence[Gang], pending: Int32) -> list[Turn]:
    """Return the turns of all pending : int32 pods, first the one that comes first; single pods in the usual order;
    none of placeholders."""
    together = [(at, gang) for at, gang in enumerate(gangs) if gang.is_bound_together and not gang.is_room]
    units = sorted((-gang.priority, gang.since_ns, gang.key, at) for at, gang in together)
    single = pending[~np.isin(pending, _pods(gang for _, gang in together))]
    priority, since_ns = priorities(simulation, single), snapshot.pods.created_s[single] * SECOND_NS
    found, taken = list[Turn](), np.zeros(len(single), bool)
    is_pending = np.zeros(len(simulation.state.pod_node), bool)
    is_pending[pending] = True
    runs_of: dict[int, int] = {}
    for minus_priority, at_ns, _, at in units:
        level = -minus_priority
        more_important = ~taken & (priority > level)
        older = ~taken & (priority == level) & (since_ns < at_ns)
        if older.any():
            runs_of[level] = runs_of.get(level, 0) + 1
            more_important |= older & (runs_of[level] < SINGLE_POD_RUNS)
        if more_important.any():
            found.append(Turn(-1, in_order(simulation, single[more_important])))
            taken |= more_important
        found.append(Turn(at, gangs[at].pending[is_pending[gangs[at].pending]]))
    return [*found, Turn(-1, in_order(simulation, single[~taken]))]


def _pods(gangs: Iterable[Gang]) -> Int32:
    """Return the pending pods of several gangs."""
    return np.concatenate([NOBODY, *(gang.pending for gang in gangs)]).astype(np.int32)
