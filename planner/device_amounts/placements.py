"""What the allocator says of a plan: claims that mix on a node are given there in the scheduler's order, each once.

Pods that stay keep their devices. The others come by priority, then those that wait by age, then those that move. Where
something is refused, nodes get limits with which the plan is made again (`planned`). Looked at are nodes to which
claims of several kinds come, or to which some come while others leave. O(pods + claims in use), and the allocator's
work for each node that is unlike those before.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from trimtab.planner.device_amounts.planned import MixtureLimits, PlannedDevices
from trimtab.planner.device_amounts.pod_claims import NodeUse, uses_of_nodes
from trimtab.planner.model.execution import asking
from trimtab.planner.snapshot.columns import NO_NODE, Bool, Int64, Snapshot


class PlannedPods(NamedTuple):
    """The pods of a plan, virtual ones last, when all its moves are made."""

    snapshot: Snapshot
    """In which the first pods and nodes are rows."""
    pod_class: Int64
    """int64[P]."""
    node: Int64
    """int64[P]."""
    priority: Int64
    """int64[P]."""
    requests: Int64
    """int64[classes, R]."""
    resources: Sequence[str]
    """The names of R resources."""
    group: Int64
    """int64[N] the node group of each node that is coming."""


def refused_mixtures(devices: PlannedDevices, pods: PlannedPods) -> MixtureLimits | None:
    """Return limits for nodes on which the allocator refuses claims of a plan, None = it refuses none."""
    place = {name: at for at, name in enumerate(pods.resources) if name in devices.competing.names}
    mixed = [place[name] for name in devices.competing.mixtures if name in place]
    if devices.facts is None or not mixed:
        return None
    is_mixed: Bool = (pods.requests[:, mixed].sum(axis=1) > 0)[pods.pod_class]
    rows = pods.snapshot.pods
    before = np.full(len(pods.node), NO_NODE, np.int64)
    before[: len(rows.node)] = np.where(rows.is_terminal(), NO_NODE, rows.node)
    coming, leaving = (is_mixed & (pods.node != before) & (where != NO_NODE) for where in (pods.node, before))
    created = np.full(len(pods.node), np.iinfo(np.int64).max)
    created[: len(rows.node)] = np.where(before[: len(rows.node)] == NO_NODE, rows.created_s, created[: len(rows.node)])
    order = np.flatnonzero(coming)
    order = order[np.lexsort((created[order], -pods.priority[order]))]
    class_of, check = pods.pod_class, _NodeCheck(devices, pods, _freed_claims(pods.snapshot, np.flatnonzero(leaving)))
    of_nodes, new_nodes = dict[int, dict[str, int]](), dict[int, dict[str, int]]()
    classes_of, left_by = dict[int, list[int]](), dict[int, set[int]]()
    for node, pod_class in zip(pods.node[order].tolist(), class_of[order].tolist(), strict=True):
        classes_of.setdefault(node, []).append(pod_class)
    for node, pod_class in zip(before[leaving].tolist(), class_of[leaving].tolist(), strict=True):
        left_by.setdefault(node, set()).add(pod_class)
    for node, classes in asking(sorted(classes_of.items()), every=1):
        if len({*classes} | left_by.get(node, set())) < 2:
            continue
        accepted = check.accepted(node, classes)
        if len(accepted) == len(classes):
            continue
        here = [*accepted, *class_of[(before == node) & (pods.node == node)].tolist()]
        amounts = {name: int(pods.requests[here, at].sum()) for name, at in place.items()}
        if node < len(pods.snapshot.nodes.name):
            of_nodes[node] = amounts
        else:
            # Each pod has a place where it is alone.
            mixtures = {place[name]: name for name in devices.competing.mixtures if name in place}
            least = {name: max(amounts[name], int(pods.requests[:, at].max())) for at, name in mixtures.items()}
            limits = new_nodes.setdefault(check.layout(node), least)
            limits |= {name: min(limits[name], amount) for name, amount in least.items()}
    return MixtureLimits(of_nodes, new_nodes) if of_nodes or new_nodes else None


def _freed_claims(snapshot: Snapshot, leaving: Int64) -> Bool:
    """Return the claims whose pods leave. bool[C]; leaving : pods."""
    claims, text = snapshot.devices.claims, snapshot.devices.strings
    gone = {snapshot.pod_key(pod) for pod in leaving.tolist()}
    staying = np.zeros(len(claims.flags), np.int64)
    users = np.bincount(claims.consumer_claim, minlength=len(staying))
    for at, claim in enumerate(claims.consumer_claim.tolist() if gone else ()):
        staying[claim] += f"{text[claims.namespace[claim]]}/{claims.consumer.get(at)}" not in gone
    return (users > 0) & (staying == 0) if gone else np.zeros(len(staying), np.bool_)


class _NodeCheck:
    """Gives the claims that come to nodes their devices."""

    def __init__(self, devices: PlannedDevices, pods: PlannedPods, freed: Bool) -> None:
        assert devices.facts is not None
        self._devices, self._pods, self._facts = devices, pods, devices.facts
        self._use = {
            node: use
            for use, nodes in uses_of_nodes(devices.sent.devices, self._facts.pools, freed)
            for node in nodes.tolist()
        }
        kinds = devices.competing.kind_of
        self._kinds = [(at, kinds[name]) for at, name in enumerate(pods.resources) if name in kinds]
        self._known: dict[tuple[int, NodeUse, tuple[int, ...]], list[int]] = {}

    def layout(self, node: int) -> int:
        """Return the layout of a node, one that is coming included."""
        if node < len(self._pods.snapshot.nodes.name):
            return int(self._facts.pools.layout[node])
        return self._devices.expected[int(self._pods.group[node])]

    def accepted(self, node: int, classes: Sequence[int]) -> list[int]:
        """Return the classes of pods that come to a node, one after the other, and get devices."""
        layout, use = self.layout(node), self._use.get(node, ())
        key = layout, use, tuple(classes)
        if key not in self._known:
            self._known[key] = self._accepted(layout, use, classes)
        return self._known[key]

    def _accepted(self, layout: int, use: NodeUse, classes: Sequence[int]) -> list[int]:
        at, accepted = self._facts.new_node(self._devices.sent, layout), []
        for pod_class in classes:
            row = self._pods.requests[pod_class].tolist()
            claims = tuple([claim for column, kind in self._kinds for claim in kind.claims * row[column]])
            devices = at.allocated(claims, use)
            if devices is not None:
                use = tuple(sorted((*use, *devices)))
                accepted.append(pod_class)
        return accepted
