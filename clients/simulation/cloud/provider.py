"""The cloud provider of the simulated cluster: node groups, their machines and sizes.

Decides what the cloud accepts: no size below the minimum or above the maximum. A scale-up is made once for each token.
"""

from collections.abc import Mapping, Sequence

from trimtab.actuator.cloud.options import options_of, price_of, template_of
from trimtab.actuator.cloud.provider import (
    GPU_LABEL,
    Activity,
    CloudError,
    CloudNodeTemplate,
    CloudRefusedError,
    GroupOptions,
    Instance,
    InstanceState,
    NodeGroupView,
    check_decrease,
    check_size,
)
from trimtab.clients.simulation.cluster.cluster import SimulatedCluster
from trimtab.clients.simulation.cluster.state import ClusterState, SimulatedInstance
from trimtab.common.kubernetes.object_files import Object


class MemoryCloud:
    """A `CloudProvider` (see `trimtab.actuator.cloud.provider`)."""

    name = "memory"
    gpu_label = GPU_LABEL

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        # Machines by group as last listed, and how often machines had changed by then.
        self._listed: dict[str, list[Instance]] = {}
        self._listed_at = -1

    def node_groups(self) -> Sequence[NodeGroupView]:
        """Return all node groups, sorted by id."""
        with self._cluster.transaction("node_groups") as state:
            return _views(state)

    def refresh(self) -> None:
        """Do nothing: every read is of the present."""

    def remember(self, group: str, instances: Sequence[str]) -> None:
        """Do nothing: the database knows the machines that have ended."""

    def forget(self, group: str, instances: Sequence[str]) -> None:
        """Do nothing: the database knows which machines are being deleted."""

    def groups_of(self, instances: Sequence[str]) -> Mapping[str, str]:
        """Return the node group of each machine that has one."""
        with self._cluster.transaction("groups_of") as state:
            found = {one.provider_id: one.group for one in state.instances.values()}
            return {instance: found[instance] for instance in instances if instance in found}

    def instances(self, groups: Sequence[str]) -> Mapping[str, Sequence[Instance]]:
        """Return the machines of each group, sorted by id."""
        with self._cluster.transaction("instances") as state:
            if self._listed_at != state.instance_changes:
                self._listed, self._listed_at = {}, state.instance_changes
            for group in groups:
                if group not in self._listed:
                    machines = state.instances_of(group)
                    self._listed[group] = sorted(Instance(one.provider_id, _state_of(one)) for one in machines)
            return {group: list(self._listed[group]) for group in groups}

    def delete_instances(self, group: str, instances: Sequence[str]) -> Mapping[str, CloudError]:
        """Start the deletion of machines."""
        failed: dict[str, CloudError] = {}
        for instance in instances:
            try:
                with self._cluster.transaction("delete_instances", self._name_of(instance)) as state:
                    self._delete(state, group, instance)
            except CloudError as error:
                failed[instance] = error
        return failed

    def instance_states(self, group: str, instances: Sequence[str]) -> Mapping[str, InstanceState]:
        """Return the state of each machine."""
        with self._cluster.transaction("instance_states", group) as state:
            return {instance: _state(state, instance) for instance in instances}

    def set_size(self, group: str, expected: int, wanted: int, token: str) -> None:
        """Raise the target size once for each token."""
        with self._cluster.transaction("set_size", group) as state:
            if token in state.tokens:
                return
            if group not in state.groups:
                raise CloudRefusedError(f"node group {group} does not exist")
            spec = state.groups[group]["spec"]
            check_size(group, spec["targetSize"], spec["maxSize"], (expected, wanted))
            spec["targetSize"] = wanted
            state.group_changed(group)
            state.remember_token(token)
            state.note("grown", f"{group} {wanted - expected}")
            self._cluster.controllers.grow(group, wanted - expected)

    def was_set(self, group: str, wanted: int, token: str) -> bool:
        """Return whether a token was carried out."""
        del wanted
        with self._cluster.transaction("was_set", group) as state:
            return token in state.tokens

    def decrease_target(self, group: str, expected: int, wanted: int) -> None:
        """Lower the target size by the machines that were requested last and have not started."""
        with self._cluster.transaction("decrease_target", group) as state:
            view = next((view for view in _views(state) if view.id == group), None)
            if view is None:
                raise CloudRefusedError(f"node group {group} does not exist")
            left = [machine for machine in state.instances_of(group) if not machine.gone_due_ms]
            starting = [machine for machine in left if machine.start_due_ms]
            if not check_decrease(view, len(left) - len(starting), (expected, wanted)):
                return
            for machine in starting[wanted - expected :]:
                self._cluster.controllers.end_instance(machine)
            state.groups[group]["spec"]["targetSize"] = wanted
            state.group_changed(group)

    def template(self, group: str) -> CloudNodeTemplate | None:
        """Return the node that a new machine becomes."""
        with self._cluster.transaction("template", group) as state:
            if group not in state.groups:
                return None
            return template_of(*self._cluster.controllers.template_of(group))

    def price_per_hour(self, group: str) -> float | None:
        """Return the price that the group's object gives."""
        item = self._object(group)
        return None if item is None else price_of(item["spec"])

    def options(self, group: str) -> GroupOptions:
        """Return the options that the group's object gives."""
        item = self._object(group)
        return GroupOptions() if item is None else options_of(item)

    def activities(self, group: str) -> Sequence[Activity]:
        """Return none: what is accepted succeeds."""
        del group
        return []

    def _object(self, group: str) -> Object | None:
        with self._cluster.transaction() as state:
            return state.groups.get(group)

    def _delete(self, state: ClusterState, group: str, provider_id: str) -> None:
        instance = state.instance_of(provider_id)
        if instance is None and provider_id in state.ended:
            return
        if instance is None:
            raise CloudRefusedError(f"the cloud has no instance {provider_id}")
        if instance.gone_due_ms:
            return
        if instance.group != group:
            raise CloudRefusedError(f"{instance.name} belongs to node group {instance.group}, not {group}")
        spec = state.groups[group]["spec"]
        if spec["targetSize"] <= spec["minSize"]:
            raise CloudRefusedError(f"node group {group} is at its minimum {spec['minSize']}")
        spec["targetSize"] -= 1
        state.group_changed(group)
        state.note("deleted", instance.name)
        self._cluster.controllers.end_instance(instance)

    def _name_of(self, provider_id: str) -> str:
        """Return name of an instance's node, for faults that strike one; the id where there is none."""
        with self._cluster.transaction() as state:
            instance = state.instance_of(provider_id)
            return provider_id if instance is None else instance.name


def _state(state: ClusterState, provider_id: str) -> InstanceState:
    machine = state.instance_of(provider_id)
    if machine is None:
        return InstanceState.GONE if provider_id in state.ended else InstanceState.UNKNOWN
    return _state_of(machine)


def _state_of(machine: SimulatedInstance) -> InstanceState:
    if machine.gone_due_ms:
        return InstanceState.DELETING
    return InstanceState.CREATING if machine.start_due_ms else InstanceState.RUNNING


def _views(state: ClusterState) -> list[NodeGroupView]:
    return [
        NodeGroupView(name, spec["minSize"], spec["maxSize"], spec["targetSize"], len(state.instances_of(name)))
        for name, spec in sorted((name, group["spec"]) for name, group in state.groups.items())
    ]
