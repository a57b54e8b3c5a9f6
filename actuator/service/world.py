"""What an actuator acts upon, as a value. Decides nothing."""

from collections.abc import Callable
from typing import NamedTuple

from actuator.cloud.provider import CloudProvider
from actuator.kube.cluster import Cluster
from actuator.service.leading import Leadership
from actuator.service.options import KubeOptions, KwokOptions, MemoryOptions
from clients.transport.server import Registration


class SettingError(Exception):
    """A setting that cannot be used."""


class World(NamedTuple):
    """A cluster and its cloud. `leadership` None = this process is the only one."""

    cluster: Cluster
    cloud: CloudProvider
    registrations: tuple[Registration, ...] = ()
    leadership: Leadership | None = None
    # How old what the cloud says of its groups may be in a status, seconds; 0 = it costs nothing to ask.
    groups_max_age_s: float = 0.0
    # Runs before the first action of this process.
    prepare: Callable[[], None] = lambda: None


class WorldOptions(NamedTuple):
    """All options that say what is acted upon."""

    memory: MemoryOptions
    kube: KubeOptions
    kwok: KwokOptions
