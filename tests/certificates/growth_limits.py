"""Limits on what a plan may add: amounts of resources and numbers of nodes, in the cluster and in one plan."""

from collections.abc import Iterator, Mapping

from tests.certificates.cluster import Cluster
from tests.certificates.device_claims import DeviceClaims
from tests.certificates.new_nodes import NewNode
from tests.certificates.scale_down import selects
from trimtab.v1 import plan_pb2

OF_CLASS = "deviceclass.resource.kubernetes.io/"
"""Devices of the class of this name are counted."""


class Limits:
    """Usage of limits before the plan: capacity of nodes that stay, and of those that have not registered yet."""

    def __init__(
        self,
        cluster: Cluster,
        settings: plan_pb2.PlannerSettings,
        leaving: set[str],
        templates: Mapping[str, NewNode | None],
    ) -> None:
        self.cluster, self.settings, self.leaving, self.templates = cluster, settings, leaving, templates

    def exceeded(self, added: Mapping[str, int], only: str = "") -> Iterator[str]:
        """Yield the limits exceeded with `added` nodes by group; only those that count the group `only`."""
        for limit in self.settings.limits:
            more = {key: count * self._of_group(key, limit) for key, count in added.items()}
            if not (more.get(only, 0) if only else sum(more.values())):
                continue
            total = self._before(limit) + sum(more.values())
            if limit.HasField("maximum") and total > limit.maximum:
                yield f"{total} of {limit.resource}, {limit.maximum} may be"
            if limit.HasField("maximum_added") and sum(more.values()) > limit.maximum_added:
                yield f"{sum(more.values())} of {limit.resource} added, {limit.maximum_added} may be"

    def _before(self, limit: plan_pb2.ResourceLimit) -> int:
        total = 0
        registered: dict[str, int] = {}
        for name, row in self.cluster.message_nodes().items():
            registered[row.node_group] = registered.get(row.node_group, 0) + 1
            if name not in self.leaving and selects(limit.nodes, self.cluster.node_labels(name)):
                total += self._of_node(name, limit.resource)
        for key, group in self.cluster.groups.items():
            missing = max(group.target_size - registered.get(key, 0), 0)
            total += missing * self._of_group(key, limit) if missing else 0
        return total

    def _of_node(self, name: str, resource: str) -> int:
        if resource.startswith(OF_CLASS):
            return DeviceClaims(self.cluster).of_class(resource.removeprefix(OF_CLASS), node=name)
        return 1 if resource == "nodes" else self.cluster.capacity(name).get(resource, 0)

    def _of_group(self, key: str, limit: plan_pb2.ResourceLimit) -> int:
        template = self.templates[key]
        if not selects(limit.nodes, template.labels if template else {}):
            return 0
        if limit.resource.startswith(OF_CLASS):
            return DeviceClaims(self.cluster).of_class(limit.resource.removeprefix(OF_CLASS), group=key)
        if limit.resource == "nodes" or template is None:
            return int(limit.resource == "nodes")
        amounts = [*(template.row.capacity or template.row.allocatable), *[0] * 99]
        return dict(zip(self.cluster.message.resources, amounts, strict=False)).get(limit.resource, 0)
