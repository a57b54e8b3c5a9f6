"""The cloud of the in-memory cluster: node groups, their machines and sizes.

Decides what the cloud accepts: no size below the minimum or above the maximum. A growth is made once for each token.
"""

from collections.abc import Mapping, Sequence

from actuator.cloud.memory.cluster import MemoryCluster
from actuator.cloud.memory.world import World
from actuator.cloud.provider import CloudError, CloudRefusedError, InstanceState, NodeGroupView


class MemoryCloud:
    """A `CloudProvider` (see `actuator.cloud.provider`)."""

    name = "memory"

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster

    def node_groups(self) -> Sequence[NodeGroupView]:
        """All node groups, sorted by id."""
        with self._cluster.transaction("node_groups") as world:
            counts: dict[str, int] = {}
            for instance in world.instances.values():
                counts[instance.group] = counts.get(instance.group, 0) + 1
            return [
                NodeGroupView(name, spec["minSize"], spec["maxSize"], spec["targetSize"], counts.get(name, 0))
                for name, spec in sorted((name, group["spec"]) for name, group in world.groups.items())
            ]

    def groups_of(self, nodes: Sequence[str]) -> Mapping[str, str]:
        """The node group of each node that has one."""
        with self._cluster.transaction("groups_of") as world:
            return {node: world.instances[node].group for node in nodes if node in world.instances}

    def delete_instances(self, group: str, nodes: Sequence[str]) -> Mapping[str, CloudError]:
        """Start the deletion of machines."""
        failed: dict[str, CloudError] = {}
        for node in nodes:
            try:
                with self._cluster.transaction("delete_instances", node) as world:
                    self._delete(world, group, node)
            except CloudError as error:
                failed[node] = error
        return failed

    def instance_states(self, group: str, nodes: Sequence[str]) -> Mapping[str, InstanceState]:
        """The state of each machine."""
        with self._cluster.transaction("instance_states", group) as world:
            return {node: _state(world, node) for node in nodes}

    def grow(self, group: str, delta: int, token: str) -> None:
        """Raise the target size once for each token."""
        with self._cluster.transaction("grow", group) as world:
            if token in world.tokens:
                return
            if group not in world.groups:
                raise CloudRefusedError(f"node group {group} does not exist")
            spec = world.groups[group]["spec"]
            if spec["targetSize"] + delta > spec["maxSize"]:
                raise CloudRefusedError(
                    f"node group {group}: size {spec['targetSize']} + {delta} exceeds the maximum {spec['maxSize']}"
                )
            spec["targetSize"] += delta
            world.group_changed(group)
            world.remember_token(token)
            world.note("grown", f"{group} {delta}")
            self._cluster.controllers.grow(group, delta)

    def _delete(self, world: World, group: str, node: str) -> None:
        instance = world.instances.get(node)
        if instance is None or instance.gone_due_ms:
            return
        if instance.group != group:
            raise CloudRefusedError(f"{node} belongs to node group {instance.group}, not {group}")
        spec = world.groups[group]["spec"]
        if spec["targetSize"] <= spec["minSize"]:
            raise CloudRefusedError(f"node group {group} is at its minimum {spec['minSize']}")
        spec["targetSize"] -= 1
        world.group_changed(group)
        world.note("deleted", node)
        self._cluster.controllers.end_instance(instance)


def _state(world: World, node: str) -> InstanceState:
    instance = world.instances.get(node)
    if instance is None:
        return InstanceState.GONE
    return InstanceState.DELETING if instance.gone_due_ms else InstanceState.RUNNING
