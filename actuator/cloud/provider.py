"""The interface of cloud providers.

Decides the interface and its errors. Instances are identified by their provider id (`spec.providerID` of a Node): names
are reused, ids are not. All methods are thread-safe, and may run twice: each is idempotent. Sizes are in nodes.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import NamedTuple, Protocol


class CloudError(Exception):
    """The call failed, or its answer was lost; a repetition may succeed."""


class CloudRefusedError(CloudError):
    """The cloud refuses permanently, and has changed nothing."""


class SizeChangedError(CloudRefusedError):
    """The group does not have the size that the request expects."""


class NodeGroupView(NamedTuple):
    """A node group. `target_size` is the requested size, `instance_count` the number of existing instances."""

    id: str
    min_size: int
    max_size: int
    target_size: int
    instance_count: int


class InstanceState(Enum):
    """State of an instance."""

    RUNNING = "running"
    DELETING = "deleting"
    # The cloud had the instance, and its machine has ended.
    GONE = "gone"
    # The cloud does not know the instance, or no longer: its machine may run. No action may follow from this state.
    UNKNOWN = "unknown"


class CloudProvider(Protocol):
    """A cloud, reduced to what the actuator needs. Instances are given by provider id."""

    @property
    def name(self) -> str:
        """Return name of the cloud, such as "memory"."""

    def node_groups(self) -> Sequence[NodeGroupView]:
        """Return all node groups, sorted by id. Raises `CloudError`."""

    def groups_of(self, instances: Sequence[str]) -> Mapping[str, str]:
        """Return the node group of each instance that has one. Raises `CloudError`."""

    def delete_instances(self, group: str, instances: Sequence[str]) -> Mapping[str, CloudError]:
        """Start the deletion of instances and lower the target size by one for each; return the failed ones.

        An instance that is being deleted, or is gone, is no error and lowers the target size no further; one that is
        unknown is refused. Raises `CloudError` when nothing was done.
        """

    def instance_states(self, group: str, instances: Sequence[str]) -> Mapping[str, InstanceState]:
        """Return the state of each instance; unknown ones are UNKNOWN. Raises `CloudError`."""

    def set_size(self, group: str, expected: int, wanted: int, token: str) -> None:
        """Raise the target size from `expected` to `wanted`, once for each `token`: asked again, it does nothing.

        Raises `SizeChangedError` when the size is not `expected`, `CloudRefusedError` when the group is unknown or
        would exceed its maximum, `CloudError` when it may have been done or not: `was_set` answers that.
        """

    def was_set(self, group: str, token: str) -> bool:
        """Return whether `set_size` was carried out for a token. Raises `CloudError`."""


def check_size(group: str, size: int, max_size: int, change: tuple[int, int]) -> None:
    """Raise `CloudRefusedError` unless a group of that size may be set from `change[0]` to `change[1]`."""
    expected, wanted = change
    if size != expected:
        raise SizeChangedError(f"node group {group} has size {size}, not {expected} as expected; plan again")
    if wanted > max_size:
        raise CloudRefusedError(f"node group {group}: size {wanted} exceeds the maximum {max_size}")
