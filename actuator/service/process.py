"""The actuator as a process: its directory, its lock, its end.

Decides where databases lie and that only one process works in a state directory. An error in settings or data is told
in one line.
"""

import fcntl
import os
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import structlog
from trimtab.v1 import actuator_pb2_grpc

from actuator.cloud.memory.cloud import MemoryCloud
from actuator.cloud.memory.cluster import MemoryCluster
from actuator.cloud.memory.objects import ObjectError, load_files
from actuator.service.app import Actuator
from actuator.service.embedded import EmbeddedClusterServicer
from actuator.service.options import MemoryOptions, StateOptions, WorkOptions
from actuator.service.servicer import ActuatorServicer
from actuator.store.records import StoreError
from actuator.store.sql import SqlStore, sqlite_url
from clients.transport.options import ServerOptions
from clients.transport.server import Registration, Shell, serve
from clients.transport.telemetry import configure_logging, start_telemetry

log = structlog.get_logger("actuator")


class SettingError(Exception):
    """A setting that cannot be used."""


def run(server: ServerOptions, state: StateOptions, work: WorkOptions, memory: MemoryOptions) -> None:
    """Carry out deletions and growth that a planner has decided on."""
    try:
        configure_logging(server.log_level)
        with ExitStack() as stack:
            _run(stack, server, state, work, memory)
    except (SettingError, ObjectError, StoreError, ValueError, OSError) as error:
        sys.stderr.write(f"trimtab-actuator: {error}\n")
        sys.exit(2)


def _run(
    stack: ExitStack, server: ServerOptions, state: StateOptions, work: WorkOptions, memory: MemoryOptions
) -> None:
    if state.cloud != "memory":
        raise SettingError(f"--cloud {state.cloud} is unknown; this build has: memory")
    lock_directory(state.state_dir, stack.callback)
    cluster = open_memory_cluster(state.state_dir, memory)
    stack.callback(cluster.close)
    store = SqlStore(state.store or sqlite_url(state.state_dir / "store.sqlite"))
    telemetry = start_telemetry("trimtab-actuator", server.metrics_address)
    actuator = Actuator(store, cluster, MemoryCloud(cluster), telemetry.meter, work.settings())
    actuator.on_broken = end_process
    servicer = ActuatorServicer(actuator)
    registrations = [
        Registration(actuator_pb2_grpc.add_ActuatorServicer_to_server, servicer, "trimtab.v1.Actuator"),
        Registration(
            actuator_pb2_grpc.add_EmbeddedClusterServicer_to_server,
            EmbeddedClusterServicer(cluster),
            "trimtab.v1.EmbeddedCluster",
        ),
    ]
    shell = Shell("trimtab-actuator", registrations, server.settings(), telemetry)
    serve(shell, actuator.start, servicer.end_streams, actuator.stop)
    if actuator.engine.broken is not None:
        raise actuator.engine.broken


def open_memory_cluster(directory: Path, options: MemoryOptions) -> MemoryCluster:
    """The in-memory cluster in a state directory; files count only the first time."""
    cluster = MemoryCluster(load_files(options.cluster), directory / "cluster.sqlite", options.delays())
    if cluster.restored and options.cluster:
        log.info("going on with the cluster in the state directory; --cluster files are not read again")
    return cluster


def lock_directory(directory: Path, on_end: Callable[[Callable[[], None]], object]) -> None:
    """Make the directory, and keep other processes out until this one ends."""
    directory.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    on_end(lambda: os.close(descriptor))
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise SettingError(f"another actuator works in {directory}; stop it, or name another --state-dir") from error


def end_process() -> None:
    """Stop, as if told to from outside: whoever runs the process starts it anew."""
    os.kill(os.getpid(), signal.SIGTERM)
