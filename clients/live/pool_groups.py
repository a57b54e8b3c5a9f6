"""The node groups of a live cluster's NodePools, computed anew in each round, and what the pools ask of plans."""

from collections.abc import Callable, Sequence
from typing import Protocol

from trimtab.common.kubernetes.kinds.nodes import NodeGroup
from trimtab.common.objects.karpenter.offers import MachineOffer
from trimtab.common.objects.karpenter.pool_settings import has_pools, with_pool_settings
from trimtab.common.objects.karpenter.pools import PoolGroups
from trimtab.v1 import actuator_pb2, plan_pb2


class PooledCluster(Protocol):
    """A live cluster, as `trimtab.clients.live.LiveCluster` is one."""

    def pool_groups(self, declared: Sequence[NodeGroup], offers: Sequence[MachineOffer] | None = None) -> PoolGroups:
        """Return the node groups of its NodePools as they are now."""


class LivePoolGroups:
    """The node groups of NodePools for `RoundSettings.complete_groups`, and their settings for `complete_settings`."""

    def __init__(
        self, cluster: PooledCluster, warn: Callable[[str], None], offers: Sequence[MachineOffer] | None = None
    ) -> None:
        """`warn` gets each note about the pools, once. offers : as in `pool_groups`."""
        self._cluster, self._warn, self._offers = cluster, warn, offers
        self._settings = plan_pb2.PlanSettings()
        self._noted: set[str] = set()

    def groups(
        self, declared: tuple[NodeGroup, ...], _status: actuator_pb2.ActuatorStatus | None
    ) -> tuple[NodeGroup, ...]:
        """Return the declared groups and those of the NodePools."""
        found = self._cluster.pool_groups(declared, self._offers)
        self._settings = found.settings
        for text in found.notes:
            if text not in self._noted:
                self._noted.add(text)
                self._warn(text)
        return (*declared, *found.groups)

    @property
    def are_there(self) -> bool:
        """Whether the cluster had NodePools in the last call: they say which nodes may come, and no label does."""
        return has_pools(self._settings)

    def settings(self, given: plan_pb2.PlanSettings) -> plan_pb2.PlanSettings:
        """Return settings completed by what the pools of the last call ask."""
        return with_pool_settings(given, self._settings)
