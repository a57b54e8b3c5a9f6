"""Whether an instance that the cloud lists is the machine that a deletion was ordered for. Some clouds give a machine
the provider id of an earlier one, as for bare metal, so only the Node object tells them apart: it has another uid.
Times are steady milliseconds.
"""

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Final, NamedTuple

from trimtab.actuator.kube.cluster import ClusterApi, NodeView, NotFoundError
from trimtab.actuator.tracker.events import EventRecorder
from trimtab.actuator.tracker.instructions import DeleteInstance

# Least time between two lists of all nodes while deletions are only watched.
LIST_MS: Final = 5_000


class MachineIdentity(Enum):
    """What an instance is to the deletion that names its provider id."""

    # Its node is the one that was ordered away; or neither had a node.
    ORDERED = "ordered"
    # Another node has the provider id by now.
    ANOTHER = "another"
    # The node is gone, and no other one has registered: it may be the machine, or one that has just started.
    UNCLEAR = "unclear"


class Identified(NamedTuple):
    """The answer about one deletion. `uid` : of the other node, "" = none."""

    machine: MachineIdentity
    uid: str = ""


class OrderedMachines:
    """Compares deletions with the nodes of the cluster."""

    def __init__(self, cluster: ClusterApi, recorder: EventRecorder) -> None:
        self._cluster = cluster
        self._recorder = recorder
        # Nodes by provider id as last listed, and when that was.
        self._listed: Mapping[str, NodeView] = {}
        self._listed_ms = -LIST_MS

    def identify(self, wanted: DeleteInstance, from_cache: bool) -> Identified:
        """Return what the instance of a deletion is now. `from_cache` : as of some seconds ago. Raises
        `ClusterError`.
        """
        node = self._named(wanted, from_cache)
        if node is None:
            node = self._with_provider_id(wanted, from_cache)
        if node is None:
            return Identified(MachineIdentity.UNCLEAR if wanted.node_uid else MachineIdentity.ORDERED)
        if node.uid == wanted.node_uid:
            return Identified(MachineIdentity.ORDERED)
        return Identified(MachineIdentity.ANOTHER, node.uid)

    def _named(self, wanted: DeleteInstance, from_cache: bool) -> NodeView | None:
        """Return the node of the ordered name, if it can be that of the instance."""
        if not wanted.node_uid:
            return None
        try:
            node = self._cluster.get_node(wanted.node, from_cache=from_cache)
        except NotFoundError:
            return None
        return node if wanted.node_uid == node.uid or node.provider_id in ("", wanted.provider_id) else None

    def _with_provider_id(self, wanted: DeleteInstance, from_cache: bool) -> NodeView | None:
        now_ms = self._recorder.steady_ms()
        if not from_cache or now_ms - self._listed_ms >= LIST_MS:
            self._listed = nodes_by_provider_id(self._cluster)
            self._listed_ms = now_ms
        return self._listed.get(wanted.provider_id)


def nodes_by_provider_id(cluster: ClusterApi) -> dict[str, NodeView]:
    """Return the nodes that have a provider id, by it; of several with the same one, the latest. Raises
    `ClusterError`.
    """
    nodes: Iterator[NodeView] = (node for node in cluster.list_nodes() if node.provider_id)
    return {node.provider_id: node for node in sorted(nodes, key=lambda node: node.created_ms)}
