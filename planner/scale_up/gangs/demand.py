"""Which gangs wait for places, and in which turn gangs and single pods get them: as kube-scheduler pops them, by
priority, then by age. O(pods log pods).

And the domains in which a gang may be placed: one for each value of its topology key, of existing nodes and of the new
nodes that groups could open; or everywhere, without a topology key. A gang with running pods stays in their domain. New
nodes whose template lacks the label are in no domain: nobody knows where they would come up. By the label of host
names, every node is a domain of its own, and new nodes have none yet.
Source: kube-scheduler 1.36.3, plugins/topologyaware/topology_placement.go.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.facts.gangs import Gang
from trimtab.planner.facts.labels import values_by_label_set
from trimtab.planner.model.settings import SECOND_NS
from trimtab.planner.model.tuning import SINGLE_POD_RUNS
from trimtab.planner.model.values import PodGroup
from trimtab.planner.placement.group_templates import labels_by_group
from trimtab.planner.placement.waiting import in_order, priorities
from trimtab.planner.predicates.topologies import HOSTNAME
from trimtab.planner.round.round import Round
from trimtab.planner.scale_up.context import ScaleUpContext
from trimtab.planner.scale_up.pending import PodsInGangs
from trimtab.planner.scale_up.progress import PlanInProgress, Reach
from trimtab.planner.simulation.build import Simulation
from trimtab.planner.snapshot.columns import NO_NODE, Int32, Int64, Snapshot
from trimtab.planner.snapshot.references import take_or

NOBODY: Final = np.zeros(0, np.int32)
NO_DOMAIN: Final = -1


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


class Domain(NamedTuple):
    """value : of the topology key, "" = everywhere; reach : its nodes, None = all."""

    value: str
    reach: Reach | None


class _Values(NamedTuple):
    """The value of a label by node and by group. names : distinct values, sorted; of_node : int64[N'], of_group :
    int64[G] into it, NO_DOMAIN = none."""

    names: list[str]
    of_node: Int64
    of_group: Int64


EVERYWHERE: Final = Domain("", None)


class GangDomains:
    """The domains of every topology key that gangs of a plan have, each computed once."""

    def __init__(self, context: ScaleUpContext, node_count: int) -> None:
        self._context, self._node_count = context, node_count
        self._values: dict[str, _Values] = {}

    def of(self, gang: Gang) -> list[Domain] | None:
        """Return the domains in which a gang may be placed, by value; None if its running pods are in several or in
        none."""
        if not gang.topology_key:
            return [EVERYWHERE]
        values = self._of_key(gang.topology_key)
        chosen = range(len(values.names))
        if len(gang.bound):
            on = self._context.request.snapshot.pods.node[gang.bound]
            present = np.unique(np.where(on >= 0, values.of_node[np.maximum(on, 0)], NO_DOMAIN))
            if len(present) != 1 or present[0] == NO_DOMAIN:
                return None
            chosen = range(int(present[0]), int(present[0]) + 1)
        return [Domain(values.names[at], Reach(values.of_node == at, values.of_group == at)) for at in chosen]

    def of_pods(self, gang: Gang, pods: Int32, progress: PlanInProgress) -> list[str]:
        """Return the values of a gang's topology key where some pods : int32 are, sorted; "" = on nodes without it."""
        if not gang.topology_key:
            return []
        values, at = self._of_key(gang.topology_key), progress.state.pod_node[pods]
        group_of = np.full(len(values.of_node), NO_DOMAIN, np.int64)
        group_of[progress.opened] = progress.group_of
        nodes = np.unique(at[at >= 0])
        group = group_of[nodes]
        found = np.where(group >= 0, take_or(values.of_group, group, NO_DOMAIN), values.of_node[nodes])
        return sorted({values.names[one] if one >= 0 else "" for one in found.tolist()})

    def _of_key(self, key: str) -> _Values:
        if key not in self._values:
            self._values[key] = self._compute(key)
        return self._values[key]

    def _compute(self, key: str) -> _Values:
        snapshot, growth = self._context.request.snapshot, self._context.request.growth
        of_set = values_by_label_set(snapshot, key)
        templates = labels_by_group(self._context.templates)
        new = [None if key == HOSTNAME else labels.get(key) for labels in templates]
        names = sorted({*filter(None, of_set), *filter(None, new)})
        rank = {name: at for at, name in enumerate(names)}
        of_group = np.array([rank.get(value or "", NO_DOMAIN) for value in new], np.int64)
        of_node = np.full(self._node_count, NO_DOMAIN, np.int64)
        by_set = np.array([rank.get(value or "", NO_DOMAIN) for value in of_set], np.int64)
        of_node[: len(snapshot.nodes.name)] = by_set[snapshot.nodes.label_set]
        of_node[growth.upcoming] = np.repeat(of_group, np.diff(growth.upcoming_offsets))
        return _Values(names, of_node, of_group)
