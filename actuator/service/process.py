"""The actuator as a process: its directory, its lock, its end.

Decides where databases lie and that only one process works in a state directory. An error in settings or data is told
in one line.
"""

import ctypes
import fcntl
import os
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

from actuator.cloud.memory.objects import ObjectError
from actuator.cloud.provider import CloudError
from actuator.kube.cluster import ClusterError
from actuator.service.app import Actuator, Machinery
from actuator.service.encoded import SERVICE, add_actuator
from actuator.service.options import KubeOptions, KwokOptions, MemoryOptions, StateOptions, WorkOptions
from actuator.service.servicer import ActuatorServicer
from actuator.service.world import SettingError, WorldOptions
from actuator.service.worlds import CLOUDS, open_world
from actuator.store.records import StoreError
from actuator.store.sql import SqlStore, sqlite_url
from clients.kubernetes_api.errors import ClusterError as LiveClusterError
from clients.transport.options import ServerOptions
from clients.transport.server import Registration, Shell, serve
from clients.transport.telemetry import configure_logging, start_telemetry

_TOLD = (SettingError, ObjectError, StoreError, ClusterError, LiveClusterError, CloudError, ValueError, OSError)


# Source: glibc, malloc.h.
M_ARENA_MAX = -8


def run(
    server: ServerOptions,
    state: StateOptions,
    work: WorkOptions,
    memory: MemoryOptions,
    kube: KubeOptions,
    kwok: KwokOptions,
) -> None:
    """Carry out deletions and growth that a planner has decided on."""
    share_memory_between_threads()
    try:
        configure_logging(server.log_level)
        with ExitStack() as stack:
            _run(stack, server, state, work, WorldOptions(memory, kube, kwok))
    except _TOLD as error:
        sys.stderr.write(f"trimtab-actuator: {error}\n")
        sys.exit(2)


def _run(stack: ExitStack, server: ServerOptions, state: StateOptions, work: WorkOptions, worlds: WorldOptions) -> None:
    if state.cloud not in CLOUDS:
        raise SettingError(f"--cloud {state.cloud} is unknown; this build has: {', '.join(CLOUDS)}")
    lock_directory(state.state_dir, stack.callback)
    store = SqlStore(state.store or sqlite_url(state.state_dir / "store.sqlite"))
    stack.callback(store.close)
    world = open_world(stack, state, worlds, store, end_process)
    leadership = world.leadership
    telemetry = start_telemetry("trimtab-actuator", server.metrics_address)
    machinery = Machinery(leading=leadership is None, groups_max_age_s=world.groups_max_age_s)
    actuator = Actuator(store, world.cluster, world.cloud, telemetry.meter, work.settings(), machinery)
    actuator.on_broken = end_process
    servicer = ActuatorServicer(actuator)
    registration = Registration(add_actuator, servicer, SERVICE)
    shell = Shell("trimtab-actuator", [registration, *world.registrations], server.settings(), telemetry)

    def begin() -> None:
        if leadership is not None:
            actuator.engine.leader_name = lambda: leadership.leader_name
            leadership.begin(actuator, world.prepare)
            return
        world.prepare()
        actuator.start()

    def end() -> None:
        actuator.stop()
        if leadership is not None:
            leadership.stop()

    serve(shell, begin, servicer.end_streams, end)
    if leadership is not None and leadership.lost is not None:
        raise SettingError(f"ended, to follow at the next start: {leadership.lost}")
    if actuator.engine.broken is not None:
        raise actuator.engine.broken


def share_memory_between_threads() -> None:
    """Let threads take large blocks from two arenas, not from one each, of which each keeps what it once had.

    With 60 threads and a status of megabytes that saves 9 to 18 MiB of 190. Only glibc has such arenas.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").mallopt(M_ARENA_MAX, 2)


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
