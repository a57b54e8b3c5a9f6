"""What the actuator needs of a cloud.

Decides the interface and its errors. All methods may be called by several threads at a time, and may run twice: each is
idempotent. Sizes are in nodes.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import NamedTuple, Protocol


class CloudError(Exception):
    """The cloud did not do what it was asked; asking again may help."""


class CloudRefusedError(CloudError):
    """The cloud will not do it, however often it is asked."""


class NodeGroupView(NamedTuple):
    """A node group. `target_size` is what was asked of the cloud, `instance_count` what exists."""

    id: str
    min_size: int
    max_size: int
    target_size: int
    instance_count: int


class InstanceState(Enum):
    """Where an instance stands."""

    RUNNING = "running"
    DELETING = "deleting"
    GONE = "gone"


class CloudProvider(Protocol):
    """A cloud, reduced."""

    @property
    def name(self) -> str:
        """Name of the cloud, such as "memory"."""

    def node_groups(self) -> Sequence[NodeGroupView]:
        """All node groups, sorted by id. Raises `CloudError`."""

    def groups_of(self, nodes: Sequence[str]) -> Mapping[str, str]:
        """The node group of each node that has one, by node name. Raises `CloudError`."""

    def delete_instances(self, group: str, nodes: Sequence[str]) -> Mapping[str, CloudError]:
        """Start the deletion of instances and lower the target size by one for each; which failed, and why.

        An instance that is being deleted, or is gone, is no error and lowers the target size no further. Raises
        `CloudError` when nothing was done.
        """

    def instance_states(self, group: str, nodes: Sequence[str]) -> Mapping[str, InstanceState]:
        """The state of each instance, by node name; those never heard of are GONE. Raises `CloudError`."""

    def grow(self, group: str, delta: int, token: str) -> None:
        """Raise the target size by `delta` >= 1, once for each `token`: asked again, it does nothing.

        Raises `CloudRefusedError` when the group is unknown or would exceed its maximum, `CloudError`.
        """
