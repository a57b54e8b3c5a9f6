"""Which nodes' attach limits follow from which objects: attachments, and the pods that mount volumes, by node.

Not thread-safe: `LiveCluster` holds the lock.
"""

from collections import defaultdict
from collections.abc import Iterable

from trimtab.common.kubernetes.kinds.storage import VolumeAttachment
from trimtab.common.objects.attachments import node_of, volume_of
from trimtab.common.objects.pod_rows import PodRow

Key = tuple[str, str]
"""(namespace, name)."""


class AttachedVolumes:
    """Keys of attachments and of pods with volumes, by node; attachments by volume too."""

    def __init__(self) -> None:
        self._attachments: dict[str, set[Key]] = defaultdict(set)
        self._pods: dict[str, set[Key]] = defaultdict(set)
        self._nodes_of: dict[str, dict[Key, str]] = defaultdict(dict)

    def replace(self, key: Key, old: VolumeAttachment | None, new: VolumeAttachment | None) -> None:
        """Replace an attachment; None = it does not exist."""
        if old is not None:
            _discard(self._attachments, node_of(old), key)
            self._nodes_of[volume_of(old)].pop(key, None)
            if not self._nodes_of[volume_of(old)]:
                del self._nodes_of[volume_of(old)]
        if new is not None:
            self._attachments[node_of(new)].add(key)
            self._nodes_of[volume_of(new)][key] = node_of(new)

    def add_pod(self, row: PodRow) -> set[str]:
        """Add a pod; return its node if its limits follow from the pod."""
        if not row.node or not (row.mounts.claims or row.mounts.disks):
            return set()
        self._pods[row.node].add((row.namespace, row.name))
        return self.among((row.node,))

    def remove_pod(self, row: PodRow) -> set[str]:
        """Remove a pod; return its node if its limits followed from the pod."""
        _discard(self._pods, row.node, (row.namespace, row.name))
        return self.among((row.node,)) if row.mounts.claims or row.mounts.disks else set()

    def among(self, nodes: Iterable[str]) -> set[str]:
        """Return those nodes that have attachments."""
        return {node for node in nodes if node in self._attachments}

    def nodes_of_volume(self, name: str) -> set[str]:
        """Return the nodes to which a volume is attached."""
        return set(self._nodes_of[name].values()) if name in self._nodes_of else set()

    def on(self, nodes: Iterable[str]) -> tuple[set[Key], set[Key]]:
        """Return the attachments of nodes, and the pods with volumes on those that have attachments."""
        having = self.among(nodes)
        attachments = [self._attachments[node] for node in having]
        return set().union(*attachments), set().union(*(self._pods.get(node, set()) for node in having))


def _discard(keys: dict[str, set[Key]], at: str, key: Key) -> None:
    found = keys.get(at)
    if found is not None:
        found.discard(key)
        if not found:
            del keys[at]
