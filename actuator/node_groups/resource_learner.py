"""Learning from nodes: keeps durably which resources the nodes of an instance type have, for the templates of its
groups. Learns only from ready nodes without startup taint whose instances run and are not being deleted. Decides when a
group's template is read: when its nodes show something new, and from time to time; and from which age on a node shows
all its resources. `trimtab.actuator.node_types` decides what is learned from them.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import structlog

from trimtab.actuator.cloud.provider import CloudError, CloudProvider, Instance, InstanceState
from trimtab.actuator.kube.cluster import NodeView, is_other_resource
from trimtab.actuator.node_types.learned_resources import (
    ObservedNodes,
    is_known,
    learned_resources,
    machine_of,
    observed_nodes,
)
from trimtab.actuator.runner.event_processor import EventProcessor
from trimtab.actuator.tracker.events import NodeTypesSeen
from trimtab.actuator.tracker.states import SeenType
from trimtab.actuator.tracker.tracker import Tracker
from trimtab.common.kubernetes.names import HARD_TAINT_KEY
from trimtab.common.kubernetes.signals import cluster_autoscaler
from trimtab.common.kubernetes.signals.table import STARTING_TAINTS

_PREFIXES: Final = (
    cluster_autoscaler.IGNORE_TAINT.key,
    cluster_autoscaler.STARTUP_TAINT.key,
    cluster_autoscaler.STATUS_TAINT.key,
)

log = structlog.get_logger("groups")
# A group's template may change while its nodes stay as they are.
AGAIN_MS: Final = 600_000
# A device plugin may take as long to start as a node. Source: CA, `--max-node-provision-time`.
OLD_MS: Final = 900_000


def is_started(node: NodeView, names: Sequence[str] = ()) -> bool:
    """Return whether a node is ready. names : keys of further taints, or prefixes of keys followed by "*"."""
    return node.ready and not any(_marks_not_ready(taint.key, names) for taint in node.taints)


def _marks_not_ready(key: str, names: Sequence[str]) -> bool:
    if key in STARTING_TAINTS or key.startswith(_PREFIXES):
        return True
    return any(key.startswith(name[:-1]) if name.endswith("*") else key == name for name in names)


class NodeResourceLearner:
    """Compares the resources of nodes with what is known. Not thread-safe."""

    def __init__(self, processor: EventProcessor, cloud: CloudProvider, not_ready_taints: Sequence[str]) -> None:
        self._processor = processor
        self._cloud = cloud
        self._not_ready_taints = not_ready_taints
        # What was already compared, and until when the result holds.
        self._compared: set[ObservedNodes] = set()
        self._until_ms = 0
        # The instances and nodes of which nothing more could be learned, and until when they show nothing new by age.
        self._learned: tuple[Mapping[str, Sequence[Instance]], Mapping[str, NodeView]] | None = None
        self._young_until_ms = 0.0

    def learn(self, instances: Mapping[str, Sequence[Instance]], nodes: Mapping[str, NodeView]) -> None:
        """Record new knowledge from nodes. Nodes by provider id. Raises `StoreError`, `NotLeaderError`.

        Nothing is learned of a group whose template cannot be read; it is tried again the next time.
        """
        if self._processor.steady_ms() >= self._until_ms:
            self._compared.clear()
            self._learned = None
            self._until_ms = self._processor.steady_ms() + AGAIN_MS
        now_ms = self._processor.now_ms()
        if now_ms <= self._young_until_ms and (instances, nodes) == self._learned:
            return
        shown = observed_nodes(self._learned_from(instances, nodes), now_ms - OLD_MS)
        self._learn(shown)
        is_done = all(one in self._compared for one in shown)
        self._learned = (instances, nodes) if is_done else None
        self._young_until_ms = min(
            (node.created_ms + OLD_MS for node in nodes.values() if node.created_ms >= now_ms - OLD_MS),
            default=math.inf,
        )

    def _learn(self, shown: Sequence[ObservedNodes]) -> None:
        """Record what nodes show that was not compared yet."""
        new = [nodes_of_type for nodes_of_type in shown if nodes_of_type not in self._compared]
        if not new:
            return
        known = self._processor.read(_known)
        counts: dict[str, int] = {}
        for nodes_of_type in shown:
            counts[nodes_of_type.node_group] = counts.get(nodes_of_type.node_group, 0) + 1
        learned = []
        for nodes_of_type in new:
            before = known.get((nodes_of_type.node_group, nodes_of_type.instance_type))
            found = self._resources(nodes_of_type, before, is_only=counts[nodes_of_type.node_group] == 1)
            if found is not None and not is_known(found, before):
                learned.append(found)
        if learned:
            self._processor.submit(NodeTypesSeen(tuple(learned)))
            for seen in learned:
                log.info("node_type_learned", node_group=seen.node_group, instance_type=seen.instance_type)

    def _learned_from(
        self, instances: Mapping[str, Sequence[Instance]], nodes: Mapping[str, NodeView]
    ) -> Iterator[tuple[str, NodeView]]:
        for group, members in instances.items():
            for member in members:
                node = nodes.get(member.id) if member.state is InstanceState.RUNNING else None
                if node is not None and is_started(node, self._not_ready_taints) and node.taint(HARD_TAINT_KEY) is None:
                    yield group, node

    def _resources(self, nodes: ObservedNodes, before: SeenType | None, is_only: bool) -> SeenType | None:
        try:
            template = self._cloud.template(nodes.node_group)
        except (CloudError, ValueError) as error:
            log.warning("group_not_read", node_group=nodes.node_group, detail=str(error))
            return None
        self._compared.add(nodes)
        machine = None if template is None else machine_of(nodes, template.machines, is_only)
        if template is None or machine is None:
            return None
        given = [name for name in template.capacity if is_other_resource(name) and name not in template.declared]
        return learned_resources(nodes, machine, before, given)


def _known(tracker: Tracker, _now_ms: int) -> dict[tuple[str, str], SeenType]:
    return {(node_type.node_group, node_type.instance_type): node_type for node_type in tracker.data.node_types}
