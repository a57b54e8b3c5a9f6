"""`trimtab run`: put the reference loop together, run it until SIGTERM or SIGINT, take it apart in order."""

import os
import signal
import socket
import threading
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import structlog
from trimtab.v1 import plan_pb2

from clients.actuator_client import ActuatorClient
from clients.cli.failures import FailedError, InputError
from clients.cli.live.rounds_recorder import RoundsRecorder
from clients.cli.live.sources import ClusterSource, cluster_failures
from clients.kubernetes_api.api import Api
from clients.kubernetes_api.lease import Lease, LeaseSettings
from clients.kubernetes_api.permissions import Rule, lease_rule
from clients.live_cluster.cluster import LiveCluster
from clients.reference_loop.events import EventWriter, StatusEvents, Subject
from clients.reference_loop.health import Health, HealthServer
from clients.reference_loop.loop import Loop, LoopSettings, Surroundings
from clients.reference_loop.planner_session import GrpcLink, PlannerSession
from clients.reference_loop.rounds import Rounds, RoundSettings
from clients.reference_loop.status_map import StatusMap
from clients.transport.telemetry import configure_logging

log = structlog.get_logger("loop")

LIST_TIMEOUT_S = 600.0
"""Longest time for the first list of a cluster; the largest take a minute."""


@dataclass(frozen=True)
class Asked:
    """What `trimtab run` is given."""

    source: ClusterSource
    planner: str
    actuator: str | None
    decisions: tuple[plan_pb2.Decision.Code.ValueType, ...]
    interval_s: float
    dry_run: bool
    rounds: int
    namespace: str
    leader_elect: bool
    lease_name: str
    status_config_map: str
    events: bool
    health_address: str
    record: Path | None
    log_level: str


def run(asked: Asked) -> None:
    """Run the loop."""
    try:
        configure_logging(asked.log_level)
    except ValueError as error:
        raise InputError(f"--log-level: {error}") from None
    settings = RoundSettings(
        cluster=asked.source.name,
        decisions=asked.decisions,
        plan=asked.source.plan_settings(),
        groups=asked.source.groups(),
        dry_run=asked.dry_run,
    )
    with cluster_failures(), ExitStack() as stack:
        api = asked.source.api()
        stopping = _stop_on_signals()
        health = Health(max_inactivity_s=max(10 * asked.interval_s, 600.0))
        if asked.health_address:
            server = stack.enter_context(HealthServer(asked.health_address, health))
            log.info("health", address=server.address)
        cluster = stack.enter_context(LiveCluster(api, needs=_needs(asked)))
        _wait_until_listed(cluster, health, stopping)
        if stopping.is_set():
            return
        around = _surroundings(asked, api, health, stack)
        rounds = Rounds(
            cluster,
            PlannerSession(stack.enter_context(GrpcLink(asked.planner))),
            stack.enter_context(ActuatorClient(asked.actuator)) if asked.actuator else None,
            settings,
            stack.enter_context(RoundsRecorder(asked.record, asked.source.name)) if asked.record else None,
        )
        loop = Loop(rounds, LoopSettings(interval_s=asked.interval_s, rounds=asked.rounds), around)
        threading.Thread(target=_stop_later, args=(stopping, loop), name="stopper", daemon=True).start()
        loop.run()
        log.info("stopped")


def _needs(asked: Asked) -> list[Rule]:
    """What the loop does to the cluster itself; the actuator has permissions of its own."""
    needs = []
    if asked.leader_elect:
        needs.append(lease_rule(asked.namespace))
    if asked.status_config_map:
        needs.append(Rule("", "configmaps", ("create", "patch"), asked.namespace))
    if asked.events and asked.actuator is not None and not asked.dry_run:
        needs.append(Rule("", "events", ("create",)))
    return needs


def _stop_later(stopping: threading.Event, loop: Loop) -> None:
    """Stop the loop once that is asked for; a signal handler itself may not take locks."""
    stopping.wait()
    loop.stop()


def _surroundings(asked: Asked, api: Api, health: Health, stack: ExitStack) -> Surroundings:
    """Start what the loop tells others by; the stack ends it."""
    identity = f"{socket.gethostname()}-{os.getpid()}"
    lease = writer = None
    if asked.leader_elect:
        lease = Lease(api, identity, LeaseSettings(namespace=asked.namespace, name=asked.lease_name))
        lease.start()
        stack.callback(lease.stop)
    acts = asked.actuator is not None and not asked.dry_run
    if asked.events and acts:
        writer = EventWriter(api, identity)
        writer.start()
        stack.callback(writer.stop)
    subject = Subject("ConfigMap", asked.status_config_map or "trimtab-status", asked.namespace)
    return Surroundings(
        health=health,
        lease=lease,
        status_map=StatusMap(api, asked.namespace, asked.status_config_map) if asked.status_config_map else None,
        events=writer,
        status_events=StatusEvents(subject) if writer is not None else None,
    )


def _wait_until_listed(cluster: LiveCluster, health: Health, stopping: threading.Event) -> None:
    """Wait for the first list, saying what it waits for."""
    for _ in range(int(LIST_TIMEOUT_S)):
        if stopping.is_set() or cluster.wait_until_listed(1.0):
            health.not_ready = "no round has ended well yet"
            return
        health.active()
        if cluster.troubles:
            health.not_ready = str(cluster.troubles)
            log.warning("listing", missing=cluster.missing, troubles=cluster.troubles)
    raise FailedError(f"the cluster could not be listed in {LIST_TIMEOUT_S:.0f} s: {cluster.troubles}")


def _stop_on_signals() -> threading.Event:
    """Return what SIGTERM and SIGINT set."""
    stopping = threading.Event()

    def on_signal(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    return stopping
