"""Reads what a replacement waits for: new instances of node groups, and their nodes. Decides which new nodes are ready,
and which orders the cloud cannot carry out. An instance is new if its group did not have it before the first order; if
others grow the same group, any of its new nodes serves, but never more than were ordered. Changes nothing.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from trimtab.actuator.cloud.provider import CloudProvider, Instance, InstanceState
from trimtab.actuator.kube.cluster import ClusterApi
from trimtab.actuator.node_groups.readiness import is_started
from trimtab.actuator.runner.ordered_machines import nodes_by_provider_id
from trimtab.actuator.tracker.events import ReadyNode
from trimtab.actuator.tracker.replacement_states import NewNode, NewNodeState, TrackedReplacement


class NewInstances(NamedTuple):
    """The new instances of the groups from which nodes are awaited, by group. `ready` : nodes that serve nothing yet;
    `failed` : instances that the cloud cannot start, as messages; `started`, `starting` : how many of the other
    instances have started, and how many have not.
    """

    ready: Mapping[str, Sequence[ReadyNode]]
    failed: Mapping[str, Sequence[str]]
    started: Mapping[str, int]
    starting: Mapping[str, int]


class ReplacementLook:
    """Reads cloud and cluster for replacements. Raises `CloudError`, `ClusterError`."""

    def __init__(self, cluster: ClusterApi, cloud: CloudProvider, not_ready_taints: Sequence[str]) -> None:
        self._cluster, self._cloud, self._not_ready_taints = cluster, cloud, not_ready_taints

    def new_instances(self, replacement: TrackedReplacement, groups: Collection[str]) -> NewInstances:
        """Return the new instances of these groups."""
        known = {node.provider_id for node in replacement.ordered_nodes if node.provider_id}
        found: dict[str, list[Instance]] = {}
        for group, instances in self._cloud.instances(sorted(groups)).items():
            before = {*replacement.members.get(group, ()), *known}
            staying = (one for one in instances if one.state is not InstanceState.DELETING)
            found[group] = [one for one in staying if one.id not in before]
        running = any(one.state is InstanceState.RUNNING for instances in found.values() for one in instances)
        nodes = nodes_by_provider_id(self._cluster) if running else {}
        ready: dict[str, list[ReadyNode]] = {}
        failed: dict[str, list[str]] = {}
        others: dict[bool, dict[str, int]] = {False: {}, True: {}}
        for group, instances in found.items():
            for one in instances:
                node = nodes.get(one.id)
                if one.error is not None:
                    failed.setdefault(group, []).append(f"{one.error.code} {one.error.message}".strip())
                elif node is not None and is_started(node, self._not_ready_taints):
                    ready.setdefault(group, []).append(ReadyNode(group, node.name, one.id))
                else:
                    counts = others[one.state is InstanceState.CREATING]
                    counts[group] = counts.get(group, 0) + 1
        return NewInstances(ready, failed, started=others[False], starting=others[True])

    def lost(self, replacement: TrackedReplacement) -> list[NewNode]:
        """Return the ready new nodes that no longer exist or are no longer ready."""
        serving = [node for node in replacement.new_nodes if node.state is NewNodeState.READY]
        if not serving:
            return []
        nodes = {node.name: node for node in self._cluster.list_nodes()}
        return [
            one
            for one in serving
            if one.node not in nodes
            or nodes[one.node].provider_id != one.provider_id
            or not is_started(nodes[one.node], self._not_ready_taints)
        ]

    def members(self, groups: Collection[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Return the instances of groups, as an order records them."""
        found = self._cloud.instances(sorted(groups))
        return tuple((group, tuple(one.id for one in instances)) for group, instances in sorted(found.items()))
