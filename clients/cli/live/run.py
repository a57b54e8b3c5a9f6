"""`trimtab run`: assemble the reference loop, run it until SIGTERM or SIGINT, shut it down in order."""

import os
import socket
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import structlog
from trimtab.v1 import plan_pb2

from clients.actuator_client import ActuatorClient
from clients.cli.failures import FailedError, InputError
from clients.cli.group_prices import LivePrices
from clients.cli.live.rounds_recorder import RoundsRecorder
from clients.cli.live.sources import ClusterSource, check_writable, cluster_failures
from clients.cli.live.stopping import Stopping
from clients.cli.pod_cost_annotations import annotations_read
from clients.cli.prices import Prices, read_prices
from clients.kubernetes_api.api import Api
from clients.kubernetes_api.lease import Lease, LeaseSettings
from clients.kubernetes_api.permissions import lease_rules, own_object
from clients.kubernetes_api.rules import Rule
from clients.live_cluster.cluster import LiveCluster
from clients.reference_loop.events import EventWriter, StatusEvents, Subject
from clients.reference_loop.growth_events import GrowthEvents
from clients.reference_loop.health import Health, HealthServer
from clients.reference_loop.kept_state import StateConfigMap, StateFile, StateKeeper
from clients.reference_loop.loop import Loop, LoopServices, LoopSettings
from clients.reference_loop.planner_session import GrpcLink, PlannerSession
from clients.reference_loop.rounds import RoundRunner, RoundSettings
from clients.reference_loop.status_map import StatusMap
from clients.transport.channel_security import ChannelSecurity
from clients.transport.client import RetryPolicy
from clients.transport.port_security import PortSecurity
from clients.transport.telemetry import configure_logging, start_telemetry

log = structlog.get_logger("loop")

ONCE = RetryPolicy(attempts=1)
"""Single calls are not retried: the loop makes a new round after a pause, and can be stopped meanwhile."""
LIST_TIMEOUT_S = 600.0
"""Longest time for the first list of a cluster; the largest clusters take a minute."""


@dataclass(frozen=True)
class Asked:
    """The options of `trimtab run`."""

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
    state_config_map: str
    state_file: Path | None
    state_max_age_s: float
    apply_pod_costs: bool = False
    allow_plaintext: bool = False
    prices: Path | None = None


def run(asked: Asked) -> None:
    """Run the loop. A dry run writes nothing to the cluster, so it may run beside a loop that acts."""
    if asked.dry_run:
        asked = replace(asked, leader_elect=False, status_config_map="", state_config_map="", events=False)
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
        apply_pod_costs=asked.apply_pod_costs,
    )
    prices = read_prices(asked.prices) if asked.prices is not None else None
    check_writable("--state-file", asked.state_file)
    check_writable("--record", asked.record)
    stopping = Stopping()
    with cluster_failures(), stopping.on_signals(), ExitStack() as stack:
        _run(asked, settings, prices, (stopping, stack))
    log.info("stopped")


def _run(asked: Asked, settings: RoundSettings, prices: Prices | None, ending: tuple[Stopping, ExitStack]) -> None:
    """Assemble everything and run it; the stack shuts it down."""
    stopping, stack = ending
    stack.callback(start_telemetry("trimtab-loop").close)
    api = asked.source.api()
    health = Health(max_inactivity_s=max(10 * asked.interval_s, 600.0))
    if asked.health_address:
        log.info("health", address=_open_health(asked, health, stack))
    cluster = stack.enter_context(LiveCluster(api, needs=_needs(asked), numbers=annotations_read(settings.plan)))
    if prices is not None:
        settings = replace(settings, priced=LivePrices(prices, cluster))
    wait_until_listed(cluster, health)
    around = _services(asked, api, health, stack)
    planner = stack.enter_context(GrpcLink(asked.planner, policy=ONCE))
    actuator = stack.enter_context(ActuatorClient(asked.actuator, ONCE)) if asked.actuator else None
    if actuator is not None and (lease := around.lease) is not None:
        actuator.epoch = lambda: lease.epoch
    recorder = stack.enter_context(RoundsRecorder(asked.record, asked.source.name)) if asked.record else None
    rounds = RoundRunner(cluster, PlannerSession(planner), actuator, settings, recorder)
    loop = Loop(rounds, LoopSettings(interval_s=asked.interval_s, rounds=asked.rounds), around)

    def cut() -> None:
        planner.close()
        if actuator is not None:
            actuator.close()

    with stopping.loop(loop.stop, cut):
        loop.run()


def _open_health(asked: Asked, health: Health, stack: ExitStack) -> str:
    """Serve health, with the loop's certificate if it has one; return the address with the actual port."""
    ours = ChannelSecurity.from_environment()
    security = PortSecurity(cert=ours.tls_cert, key=ours.tls_key, allow_plaintext=asked.allow_plaintext)
    try:
        return stack.enter_context(HealthServer(asked.health_address, health, security)).address
    except (ValueError, OSError) as error:
        raise InputError(f"--health-address {asked.health_address}: {error}") from None


def _needs(asked: Asked) -> list[Rule]:
    """Permissions for the loop's own writes; the actuator has separate permissions."""
    needs: list[Rule] = []
    if asked.leader_elect:
        needs += lease_rules(asked.namespace, asked.lease_name)
    if asked.state_config_map and asked.state_file is None:
        needs += own_object("", "configmaps", ("get", "patch"), asked.namespace, asked.state_config_map)
    if asked.status_config_map:
        needs += own_object("", "configmaps", ("patch",), asked.namespace, asked.status_config_map)
    if asked.events and asked.actuator is not None and not asked.dry_run:
        needs.append(Rule("", "events", ("create",)))
    return needs


def _services(asked: Asked, api: Api, health: Health, stack: ExitStack) -> LoopServices:
    """Start the services through which the loop reports; the stack stops them."""
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
    return LoopServices(
        health=health,
        lease=lease,
        status_map=StatusMap(api, asked.namespace, asked.status_config_map) if asked.status_config_map else None,
        events=writer,
        status_events=StatusEvents(subject) if writer is not None else None,
        growth_events=GrowthEvents(subject) if writer is not None else None,
        states=_states(asked, api),
    )


def _states(asked: Asked, api: Api) -> StateKeeper | None:
    """Where the planner's state is kept, if anywhere: a file, else the ConfigMap."""
    max_age_s = max(asked.state_max_age_s, 3 * asked.interval_s)
    if asked.state_file is not None:
        return StateKeeper(StateFile(asked.state_file), asked.source.name, max_age_s)
    if asked.state_config_map:
        place = StateConfigMap(api, asked.namespace, asked.state_config_map)
        return StateKeeper(place, asked.source.name, max_age_s)
    return None


def wait_until_listed(cluster: LiveCluster, health: Health) -> None:
    """Wait for the first list, and log what it waits for."""
    for _ in range(int(LIST_TIMEOUT_S)):
        if cluster.wait_until_listed(1.0):
            health.not_ready = "no round has succeeded yet"
            return
        health.active()
        if cluster.troubles:
            health.not_ready = str(cluster.troubles)
            log.warning("listing", missing=cluster.missing, troubles=cluster.troubles)
    raise FailedError(f"the cluster could not be listed in {LIST_TIMEOUT_S:.0f} s: {cluster.troubles}")
