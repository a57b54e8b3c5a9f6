"""The actuator as a process: its directory, its lock, its end.

Decides where databases are kept, and admits only one process to a state directory. An error in settings or data is
reported in one line.
"""

import fcntl
import os
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from trimtab.actuator.cloud.provider import CloudError
from trimtab.actuator.cloud.table import cloud_named
from trimtab.actuator.cloud.wiring import OptionSections
from trimtab.actuator.kube.cluster import ClusterError
from trimtab.actuator.kube.settings import KubeOptions
from trimtab.actuator.runner.clock import Pulse
from trimtab.actuator.service.app import Actuator, Runtime
from trimtab.actuator.service.environment import open_environment
from trimtab.actuator.service.external.servicer import external_registration
from trimtab.actuator.service.leading import Leadership
from trimtab.actuator.service.options import StateOptions, WorkOptions
from trimtab.actuator.service.servicer import SERVICE, ActuatorServicer
from trimtab.actuator.service.settings import ActuatorSettings
from trimtab.actuator.settings import SettingError
from trimtab.actuator.store.records import StoreError
from trimtab.actuator.store.sql import SqlStore, sqlite_url, store_file
from trimtab.common.documents.output import visible
from trimtab.common.kubernetes.errors import KubernetesError
from trimtab.common.kubernetes.token_review import open_review
from trimtab.common.rpc.access import Access
from trimtab.common.rpc.extras import MissingExtraError
from trimtab.common.rpc.options import ServerOptions
from trimtab.common.rpc.server import Registration, Shell, serve
from trimtab.common.rpc.telemetry import configure_logging, start_telemetry
from trimtab.v1.actuator_pb2_grpc import add_ActuatorServicer_to_server

_REPORTED = (
    SettingError, MissingExtraError, StoreError, ClusterError, KubernetesError, CloudError, ValueError, OSError,
)  # fmt: skip


def run(
    server: ServerOptions,
    state: StateOptions,
    work: WorkOptions,
    *sections: object,
) -> None:
    """Carry out deletions and growth that a planner has decided on."""
    try:
        configure_logging(server.log_level)
        with ExitStack() as stack:
            _run(stack, server, state, work, OptionSections(*sections))
    except _REPORTED as error:
        sys.stderr.write(f"trimtab-actuator: {visible(str(error))}\n")
        sys.exit(2)


def _run(
    stack: ExitStack, server: ServerOptions, state: StateOptions, work: WorkOptions, options: OptionSections
) -> None:
    cloud_named(state.cloud)
    kube = options.of(KubeOptions)
    lock_directory(state.state_dir, stack.callback)
    url = state.store or sqlite_url(state.state_dir / "store.sqlite")
    file = store_file(url)
    if file is not None:
        lock_store(file, kube.leader_elect, stack.callback)
    store = SqlStore(url)
    stack.callback(store.close)
    if file is None and not kube.leader_elect:
        # An earlier user of the store is refused at its next write and stops.
        store.take_over()
    environment = open_environment(stack, state, options, store, end_process)
    leadership = environment.leadership
    settings = server.settings(open_review)
    telemetry = start_telemetry("trimtab-actuator", server.metrics_address, settings.security)
    runtime = Runtime(leading=leadership is None, groups_max_age_s=environment.groups_max_age_s)
    own = _settings(work, state.serve_externalgrpc, settings.access)
    actuator = Actuator(store, environment.cluster, environment.cloud, telemetry.meter, own, runtime)
    actuator.on_broken = end_process
    servicer = ActuatorServicer(actuator)
    registrations = [Registration(add_ActuatorServicer_to_server, servicer, SERVICE), *environment.registrations]
    registrations += _more_registrations(state, actuator)
    shell = Shell("trimtab-actuator", registrations, settings, telemetry)

    group_loop = actuator.node_group_loop()
    stack.enter_context(Pulse(actuator.processor.beat))

    def begin() -> None:
        group_loop.start()
        if leadership is not None:
            actuator.processor.leader_name = lambda: leadership.leader_name
            leadership.begin(actuator, environment.prepare)
            return
        environment.prepare()
        actuator.start()

    def end() -> None:
        group_loop.stop()
        actuator.stop()
        if leadership is not None:
            leadership.stop()

    serve(shell, begin, servicer.end_streams, end)
    _check_end(actuator, leadership)


def _check_end(actuator: Actuator, leadership: Leadership | None) -> None:
    """Raise why the process ends, unless by a signal: `SettingError` without leadership, `StoreError`."""
    if leadership is not None and leadership.lost is not None:
        raise SettingError(f"exiting, to follow after a restart: {leadership.lost}")
    if actuator.processor.broken is not None:
        raise actuator.processor.broken


def _settings(work: WorkOptions, sized_by_caller: bool, access: Access) -> ActuatorSettings:
    """Return the actuator's settings. Raises `ValueError`."""
    own = work.settings()
    groups = replace(own.groups, sized_by_caller=sized_by_caller)
    return replace(own, groups=groups, deletion_rules=access.deletion_rules)


def _more_registrations(state: StateOptions, actuator: Actuator) -> list[Registration]:
    return [external_registration(actuator)] if state.serve_externalgrpc else []


def lock_store(file: Path, shared: bool, on_end: Callable[[Callable[[], None]], object]) -> None:
    """Keep other processes out of a store, whatever their state directory; `shared` = but for replicas with a leader.

    Raises `SettingError`.
    """
    _lock(file.with_name(file.name + ".lock"), fcntl.LOCK_SH if shared else fcntl.LOCK_EX, on_end)


def lock_directory(directory: Path, on_end: Callable[[Callable[[], None]], object]) -> None:
    """Create the directory for this account alone, and keep other processes out until this one ends."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    _lock(directory / "lock", fcntl.LOCK_EX, on_end)


def _lock(file: Path, kind: int, on_end: Callable[[Callable[[], None]], object]) -> None:
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise SettingError(f"{file.parent} cannot be used for state: {error.strerror}") from error
    on_end(lambda: os.close(descriptor))
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise SettingError(
            f"another actuator uses {file.parent} ({file.name} is locked); stop it, or give another --state-dir and"
            " --store"
        ) from error


def end_process() -> None:
    """End this process as by SIGTERM: its supervisor restarts it."""
    os.kill(os.getpid(), signal.SIGTERM)
