"""The domains in which a gang may be placed: one for each value of its topology key, of existing nodes and of the new
nodes that groups could open; or everywhere, without a topology key. A gang with running pods stays in their domain. New
nodes whose template lacks the label are in no domain: nobody knows where they would come up. By the label of host
names, every node is a domain of its own, and new nodes have none yet.
Source: kube-scheduler 1.36.3, plugins/topologyaware/topology_placement.go.
"""

from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.facts.gangs import Gang
from trimtab.planner.facts.label_values import values_by_label_set
from trimtab.planner.placement.group_templates import labels_by_group
from trimtab.planner.predicates.topologies import HOSTNAME
from trimtab.planner.scale_up.context import ScaleUpContext
from trimtab.planner.scale_up.progress import PlanInProgress, Reach
from trimtab.planner.snapshot.columns import Int32, Int64
from trimtab.planner.snapshot.references import take_or

NO_DOMAIN: Final = -1


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
