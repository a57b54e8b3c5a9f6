"""The actuator as a process: the command `trimtab-actuator`, its directory, its lock, the cluster and the cloud that it
opens, its end.

Decides where databases are kept, and admits only one process to a state directory; what is checked before anything is
opened: options that have no effect, and in a live cluster every permission that will be needed. Opening changes nothing
outside the process; while another process leads, changes are prevented. An error in settings or data is reported in one
line.
"""

import fcntl
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import typer

from trimtab.actuator.cloud.provider import CloudError, CloudProvider
from trimtab.actuator.cloud.table import (
    Cloud,
    LiveWiring,
    Opening,
    OptionSections,
    OwnCluster,
    cloud_named,
    option_classes,
)
from trimtab.actuator.kube.cluster import ClusterApi, ClusterError
from trimtab.actuator.node_groups.loop import POLL_S
from trimtab.actuator.runner.clock import BEAT_S
from trimtab.actuator.service.app import Actuator, Runtime
from trimtab.actuator.service.external.servicer import external_registration
from trimtab.actuator.service.leading import Leadership
from trimtab.actuator.service.servicer import SERVICE, ActuatorServicer
from trimtab.actuator.service.settings import StateOptions, WorkOptions
from trimtab.actuator.settings import KubeOptions, SettingError
from trimtab.actuator.steady_time import RepeatingThread
from trimtab.actuator.store.records import Store, StoreError
from trimtab.actuator.store.sql import SqlStore, sqlite_url, store_file
from trimtab.common.documents.output import visible
from trimtab.common.kubernetes.errors import KubernetesError
from trimtab.common.kubernetes.lease import Lease
from trimtab.common.kubernetes.registry import User, rules_of
from trimtab.common.kubernetes.token_review import open_review
from trimtab.common.rpc.extras import MissingExtraError
from trimtab.common.rpc.options import add_command
from trimtab.common.rpc.server import Registration, Shell, serve
from trimtab.common.rpc.server_options import ServerOptions
from trimtab.common.rpc.telemetry import configure_logging, start_telemetry
from trimtab.v1.actuator_pb2_grpc import add_ActuatorServicer_to_server

# A request for the cloud's node groups may list all nodes: a tenth of a second for several thousand.
GROUPS_MAX_AGE_S = 5.0
_REPORTED = (
    SettingError, MissingExtraError, StoreError, ClusterError, KubernetesError, CloudError, ValueError, OSError,
)  # fmt: skip

app = typer.Typer(
    add_completion=False,
    context_settings={"auto_envvar_prefix": "TRIMTAB_ACTUATOR"},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def run(server: ServerOptions, state: StateOptions, work: WorkOptions, *sections: object) -> None:
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
    own = work.settings()
    groups = replace(own.groups, sized_by_caller=state.serve_externalgrpc)
    own = replace(own, groups=groups, deletion_rules=settings.access.deletion_rules)
    actuator = Actuator(store, environment.cluster, environment.cloud, telemetry.meter, own, runtime)
    actuator.on_broken = end_process
    servicer = ActuatorServicer(actuator)
    registrations = [Registration(add_ActuatorServicer_to_server, servicer, SERVICE), *environment.registrations]
    if state.serve_externalgrpc:
        registrations.append(external_registration(actuator))
    shell = Shell("trimtab-actuator", registrations, settings, telemetry)

    group_loop = RepeatingThread("groups", actuator.node_group_loop().step, POLL_S)
    # Calls of the cloud may take long, and another thread must show that the process is awake.
    actuator.processor.beat()
    stack.enter_context(RepeatingThread("pulse", actuator.processor.beat, BEAT_S))

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
    if leadership is not None and leadership.lost is not None:
        raise SettingError(f"exiting, to follow after a restart: {leadership.lost}")
    if actuator.processor.broken is not None:
        raise actuator.processor.broken


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


class Environment(NamedTuple):
    """A cluster and its cloud. `leadership` None = this process is the only one. `registrations` : gRPC services of the
    cluster or cloud, served on the actuator's port.
    """

    cluster: ClusterApi
    cloud: CloudProvider
    registrations: tuple[Registration, ...] = ()
    leadership: Leadership | None = None
    # Greatest age of the cloud's node groups in a status, seconds; 0 = a read costs nothing.
    groups_max_age_s: float = 0.0
    # Runs before the first action of this process.
    prepare: Callable[[], None] = lambda: None


def open_environment(
    stack: ExitStack, state: StateOptions, options: OptionSections, store: Store, end_process: Callable[[], None]
) -> Environment:
    """Open it as the options say. Raises `SettingError`, `ClusterError`, `CloudError`, `MissingExtraError`,
    `ValueError`, `OSError`.
    """
    cloud = cloud_named(state.cloud)
    _refuse_ignored(cloud, options)
    wiring = cloud.load()(Opening(options, state.state_dir, stack))
    if isinstance(wiring, OwnCluster):
        return Environment(wiring.cluster, wiring.provider, wiring.registrations)
    return _open_live(stack, options.of(KubeOptions), wiring, store, end_process)


def _refuse_ignored(cloud: Cloud, options: OptionSections) -> None:
    """Refuse options that differ from their defaults although the cloud does not read them. Raises `SettingError`."""
    unread = [kind for kind in option_classes() if kind not in cloud.options]
    changed = [name for kind in unread for name in _changed(options.of(kind), kind())]
    if changed:
        flags = ", ".join("--" + name.replace("_", "-") for name in changed)
        raise SettingError(f"--cloud {cloud.name} does not use {flags}; omit it, or choose another cloud")


def _changed(section: Any, default: Any) -> list[str]:
    """Return names of the options that differ from their defaults."""
    return [field.name for field in fields(section) if getattr(section, field.name) != getattr(default, field.name)]


def _open_live(
    stack: ExitStack, kube: KubeOptions, wiring: LiveWiring, store: Store, end_process: Callable[[], None]
) -> Environment:
    """Connect to the cluster and build its cloud. Raises `ClusterError`, `ValueError`."""
    # They need the extra `kubernetes`, which the cloud has asked for.
    from trimtab.actuator.kube.api import connect
    from trimtab.actuator.kube.live import KubeCluster
    from trimtab.common.kubernetes.permissions import require

    api = connect(kube.kubeconfig, kube.context, kube.call_timeout())
    stack.callback(api.close)
    rules = [*rules_of(User.ACTUATOR), *wiring.rules]
    require(api.http, [*rules, *rules_of(User.LEADER, kube.namespace, kube.lease_name)] if kube.leader_elect else rules)
    leadership = None
    if kube.leader_elect:
        # A separate connection: blocked calls of the actuator must not block renewals of the Lease.
        lease_api = connect(kube.kubeconfig, kube.context, kube.call_timeout())
        stack.callback(lease_api.close)
        leadership = Leadership(Lease(lease_api.http, _identity(), kube.lease()), store, end_process)
        api.http.guard = leadership.guard
    cloud = wiring.build(api, leadership.may_act if leadership else lambda: True)
    cluster = KubeCluster(api, kube.settings())
    return Environment(cluster, cloud.provider, (), leadership, GROUPS_MAX_AGE_S, cloud.prepare)


def _identity() -> str:
    """Return a name that no other process has."""
    return f"{socket.gethostname()}_{os.getpid()}_{os.urandom(4).hex()}"


add_command(app, run, ServerOptions, StateOptions, WorkOptions, *option_classes())
