"""The environment of an actuator, as a value: a cluster and its cloud. Decides nothing."""

from collections.abc import Callable
from typing import NamedTuple

from trimtab.actuator.cloud.provider import CloudProvider
from trimtab.actuator.kube.cluster import ClusterApi
from trimtab.actuator.service.leading import Leadership
from trimtab.actuator.service.options import (
    AwsOptions,
    ClusterApiOptions,
    ExternalOptions,
    KubeOptions,
    KwokOptions,
    SimulationOptions,
)
from trimtab.clients.rpc.server import Registration


class SettingError(Exception):
    """A setting that cannot be used."""


class Environment(NamedTuple):
    """A cluster and its cloud. `leadership` None = this process is the only one."""

    cluster: ClusterApi
    cloud: CloudProvider
    registrations: tuple[Registration, ...] = ()
    leadership: Leadership | None = None
    # Greatest age of the cloud's node groups in a status, seconds; 0 = a read costs nothing.
    groups_max_age_s: float = 0.0
    # Runs before the first action of this process.
    prepare: Callable[[], None] = lambda: None


class EnvironmentOptions(NamedTuple):
    """All options of environments."""

    simulation: SimulationOptions
    kube: KubeOptions
    kwok: KwokOptions
    external: ExternalOptions = ExternalOptions()
    aws: AwsOptions = AwsOptions()
    clusterapi: ClusterApiOptions = ClusterApiOptions()
