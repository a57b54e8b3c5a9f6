"""What an actuator acts upon: the in-memory cluster, or a real one with the cloud `kwok`.

Decides from the options which is opened and what is checked before. Opening changes nothing outside.
"""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import structlog
from trimtab.v1 import actuator_pb2_grpc

from actuator.cloud.memory.cloud import MemoryCloud
from actuator.cloud.memory.cluster import MemoryCluster
from actuator.cloud.memory.objects import load_files
from actuator.service.embedded import EmbeddedClusterServicer
from actuator.service.options import MemoryOptions, StateOptions
from actuator.service.world import SettingError, World, WorldOptions
from actuator.store.records import Store
from clients.transport.server import Registration

log = structlog.get_logger("actuator")

CLOUDS = ("memory", "kwok")


def open_world(
    stack: ExitStack, state: StateOptions, options: WorldOptions, store: Store, end_process: Callable[[], None]
) -> World:
    """Open what the options name. Raises `SettingError`, `ClusterError`, `ValueError` saying what is wrong."""
    match state.cloud:
        case "memory":
            return _open_memory(stack, state.state_dir, options.memory)
        case "kwok":
            # Needs an extra that the in-memory cluster does without.
            from actuator.service.kwok_world import open_kwok

            return open_kwok(stack, options, store, end_process)
        case cloud:
            raise SettingError(f"--cloud {cloud} is unknown; this build has: {', '.join(CLOUDS)}")


def open_memory_cluster(directory: Path, options: MemoryOptions) -> MemoryCluster:
    """The in-memory cluster in a state directory; files count only the first time."""
    cluster = MemoryCluster(load_files(options.cluster), directory / "cluster.sqlite", options.delays())
    if cluster.restored and options.cluster:
        log.info("going on with the cluster in the state directory; --cluster files are not read again")
    return cluster


def _open_memory(stack: ExitStack, directory: Path, options: MemoryOptions) -> World:
    cluster = open_memory_cluster(directory, options)
    stack.callback(cluster.close)
    registration = Registration(
        actuator_pb2_grpc.add_EmbeddedClusterServicer_to_server,
        EmbeddedClusterServicer(cluster),
        "trimtab.v1.EmbeddedCluster",
    )
    return World(cluster, MemoryCloud(cluster), (registration,))
