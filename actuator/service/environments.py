"""The environments of an actuator: the simulated cluster, or a live one with a cloud.

Decides from the options which one is opened, and what is checked first. Opening changes nothing outside the process.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import fields
from pathlib import Path
from typing import Any

import structlog

from trimtab.actuator.service.embedded import EmbeddedClusterServicer
from trimtab.actuator.service.environment import Environment, EnvironmentOptions, SettingError
from trimtab.actuator.service.options import SimulationOptions, StateOptions
from trimtab.actuator.store.records import Store
from trimtab.clients.kubernetes.object_files import Object, load_files
from trimtab.clients.rpc.collection import collection_paused
from trimtab.clients.rpc.extras import require_extra
from trimtab.clients.rpc.server import Registration
from trimtab.clients.simulation.cloud.provider import MemoryCloud
from trimtab.clients.simulation.cluster.cluster import SimulatedCluster
from trimtab.v1 import actuator_pb2_grpc

log = structlog.get_logger("actuator")

CLOUDS = ("memory", "kwok", "externalgrpc", "aws", "clusterapi")
_READ_BY_KWOK = ("node_start", "instance_delete")
"""Options of the simulated cluster that count for `kwok` too."""


def open_environment(
    stack: ExitStack, state: StateOptions, options: EnvironmentOptions, store: Store, end_process: Callable[[], None]
) -> Environment:
    """Open it as the options say. Raises `SettingError`, `ClusterError`, `MissingExtraError`, `ValueError`."""
    _refuse_ignored(state.cloud, options)
    match state.cloud:
        case "memory":
            return _open_memory(stack, state.state_dir, options.simulation)
        case "kwok":
            require_extra("kubernetes", "--cloud kwok")
            from trimtab.actuator.service.kwok import open_kwok

            return open_kwok(stack, options, store, end_process)
        case "externalgrpc":
            require_extra("kubernetes", "--cloud externalgrpc")
            from trimtab.actuator.service.externalgrpc import open_externalgrpc

            return open_externalgrpc(stack, options, store, end_process)
        case "aws":
            require_extra("kubernetes", "--cloud aws")
            require_extra("aws", "--cloud aws")
            from trimtab.actuator.service.aws import open_aws

            return open_aws(stack, options, store, end_process)
        case "clusterapi":
            require_extra("kubernetes", "--cloud clusterapi")
            from trimtab.actuator.service.clusterapi import open_clusterapi

            return open_clusterapi(stack, options, store, end_process)
        case cloud:
            raise SettingError(f"--cloud {cloud} is unknown; this build has: {', '.join(CLOUDS)}")


def _refuse_ignored(cloud: str, options: EnvironmentOptions) -> None:
    """Refuse options that differ from their defaults although the cloud does not read them. Raises `SettingError`."""
    read = {
        "memory": ("simulation",),
        "kwok": ("kube", "kwok"),
        "externalgrpc": ("kube", "external"),
        "aws": ("kube", "aws"),
        "clusterapi": ("kube", "clusterapi"),
    }.get(cloud, options._fields)
    unread = [name for field in options._fields if field not in read for name in _changed(getattr(options, field))]
    if cloud == "kwok":
        unread = [name for name in unread if name not in _READ_BY_KWOK]
    elif options.kube.cloud_config is not None and "cloud_config" not in unread:
        unread.append("cloud_config")
    if unread:
        flags = ", ".join("--" + name.replace("_", "-") for name in unread)
        raise SettingError(f"--cloud {cloud} does not use {flags}; omit it, or choose another cloud")


def _changed(section: Any) -> list[str]:
    """Return names of the options that differ from their defaults."""
    default = type(section)()
    return [one.name for one in fields(section) if getattr(section, one.name) != getattr(default, one.name)]


def open_memory_cluster(directory: Path, options: SimulationOptions) -> SimulatedCluster:
    """Open the simulated cluster in a state directory; files are read the first time only."""
    with collection_paused():
        cluster = SimulatedCluster(_read(options.cluster), directory / "cluster.sqlite", options.delays())
    if cluster.restored and options.cluster:
        log.info("continuing with the cluster in the state directory; --cluster files are not read again")
    return cluster


def _read(files: Iterable[Path]) -> Iterator[Object]:
    """Yield the objects of files, which are read once the first object is asked for."""
    yield from load_files(files)


def _open_memory(stack: ExitStack, directory: Path, options: SimulationOptions) -> Environment:
    cluster = open_memory_cluster(directory, options)
    stack.callback(cluster.close)
    registration = Registration(
        actuator_pb2_grpc.add_EmbeddedClusterServicer_to_server,
        EmbeddedClusterServicer(cluster),
        "trimtab.v1.EmbeddedCluster",
    )
    return Environment(cluster, MemoryCloud(cluster), (registration,))
