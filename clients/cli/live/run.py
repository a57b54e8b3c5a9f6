"""`trimtab run`: assemble the reference loop, run it until SIGTERM or SIGINT, shut it down in order."""

import os
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import structlog

from trimtab.clients.actuator_client import ActuatorClient
from trimtab.clients.cli.failures import FailedError, UsageError
from trimtab.clients.cli.label_groups import read_labels, refuse_labels
from trimtab.clients.cli.live.awaited_planner import await_planner
from trimtab.clients.cli.live.group_completion import completed
from trimtab.clients.cli.live.last_cluster import LastCluster, Recorders
from trimtab.clients.cli.live.rounds_recorder import RoundsRecorder
from trimtab.clients.cli.live.sources import ClusterSource, check_writable, cluster_failures
from trimtab.clients.cli.live.stopping import Stopping
from trimtab.clients.cli.offer_files import given_offers
from trimtab.clients.cli.planners import NamedSettingsLink
from trimtab.clients.cli.price_files import read_prices
from trimtab.clients.cli.prices import Prices
from trimtab.clients.cli.screen.web import LastRound, WebPort
from trimtab.clients.live.cluster import LiveCluster
from trimtab.clients.reference_loop.advisory import Advisory
from trimtab.clients.reference_loop.events import EventWriter, StatusEvents, Subject
from trimtab.clients.reference_loop.gang_events import GangEvents
from trimtab.clients.reference_loop.growth_events import GrowthEvents
from trimtab.clients.reference_loop.health import Health, HealthServer
from trimtab.clients.reference_loop.kept_state import StateConfigMap, StateFile, StateKeeper
from trimtab.clients.reference_loop.loop import Loop, LoopServices, LoopSettings
from trimtab.clients.reference_loop.planner_session import GrpcLink, PlannerSession
from trimtab.clients.reference_loop.request_events import RequestEvents
from trimtab.clients.reference_loop.rounds import RoundRecorder, RoundRunner, RoundSettings
from trimtab.clients.reference_loop.status_map import StatusMap
from trimtab.common.kubernetes.api import Api
from trimtab.common.kubernetes.lease import Lease, LeaseSettings
from trimtab.common.kubernetes.registry import PermissionRule, User, rules_of
from trimtab.common.objects.annotated_numbers import annotations_read
from trimtab.common.objects.karpenter.offers import MachineOffer
from trimtab.common.rpc.access import Review, open_access
from trimtab.common.rpc.channel_security import ChannelSecurity
from trimtab.common.rpc.port_security import PortSecurity
from trimtab.common.rpc.retries import ONCE
from trimtab.common.rpc.telemetry import LogFormat, Telemetry, configure_logging, start_telemetry, terminal_format
from trimtab.v1 import plan_pb2

log = structlog.get_logger("loop")

STATUS_MAP = "trimtab-status"
ADVISORY_MAP = "trimtab-advisory"
"""Name of the status ConfigMap by default, and of that of a loop that only advises: it may run beside one that acts."""
LIST_TIMEOUT_S = 600.0
"""Longest time for the first list of a cluster; the largest clusters take a minute."""


@dataclass(frozen=True)
class RunOptions:
    """The options of `trimtab run`: a field is the option of that name, as `--help` describes it, except for these.

    source : the options that name the cluster; decisions : of `--decision`, () = the usual ones; interval_s,
    state_max_age_s : seconds; allow_plaintext : `--allow-plaintext-on-network`; allow_anonymous :
    `--allow-anonymous-on-network`; log_format : None = text on a terminal, else JSON
    """

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
    log_format: LogFormat | None = None
    group_by: str | None = None
    replace: bool = False
    advise_only: bool = False
    metrics_address: str = ""
    web: str = ""
    policy: Path | None = None
    allow_anonymous: bool = False
    offers: Path | None = None


class Priced(NamedTuple):
    """prices : of `--prices`; offers : of `--offers`. None = not given."""

    prices: Prices | None
    offers: Sequence[MachineOffer] | None


def run(options: RunOptions) -> None:
    """Run the loop. A dry run writes nothing to the cluster, so it may run beside a loop that acts; one that only
    advises writes nothing but a status ConfigMap of its own.
    """
    options = _with_advice(options)
    if options.dry_run and not options.advise_only:
        options = replace(options, leader_elect=False, status_config_map="", state_config_map="", events=False)
    try:
        configure_logging(options.log_level, options.log_format or terminal_format())
    except ValueError as error:
        raise UsageError(f"--log-level: {error}") from None
    settings = RoundSettings(
        cluster=options.source.name,
        decisions=options.decisions,
        plan=options.source.plan_settings(),
        groups=options.source.groups(),
        dry_run=options.dry_run,
        apply_pod_costs=options.apply_pod_costs,
        replace=options.replace,
    )
    if settings.groups:
        refuse_labels(read_labels(options.group_by))
    priced = Priced(
        read_prices(options.prices) if options.prices is not None else None,
        given_offers(options.offers),
    )
    check_writable("--state-file", options.state_file)
    check_writable("--record", options.record)
    if options.policy is not None and not options.web:
        raise UsageError("--policy is for the page of --web; omit it, or give --web")
    stopping = Stopping()
    with cluster_failures(), stopping.on_signals(), ExitStack() as stack:
        _run(options, settings, priced, (stopping, stack))
    log.info("stopped")


def _with_advice(options: RunOptions) -> RunOptions:
    """Return the options of a loop that only advises as those of a dry run with a status of its own."""
    if not options.advise_only:
        return options
    if options.apply_pod_costs:
        raise UsageError("--advise-only carries nothing out; leave out --apply-pod-costs")
    own = ADVISORY_MAP if options.status_config_map == STATUS_MAP else options.status_config_map
    return replace(
        options,
        dry_run=True,
        replace=True,
        leader_elect=False,
        status_config_map=own,
        state_config_map="",
        events=False,
    )


def _run(options: RunOptions, settings: RoundSettings, priced: Priced, ending: tuple[Stopping, ExitStack]) -> None:
    """Assemble everything and run it; the stack shuts it down."""
    (stopping, stack), (prices, offers) = ending, priced
    telemetry = _open_telemetry(options, stack)
    health = Health(max_inactivity_s=max(10 * options.interval_s, 600.0))
    if options.health_address:
        log.info("health", address=_open_health(options, health, stack))
    live = LiveCluster(options.source.api(), needs=_needs(options), numbers=annotations_read(settings.plan))
    cluster = stack.enter_context(live)
    settings = completed(settings, cluster, _tell, read_labels(options.group_by), prices, offers)
    wait_until_listed(cluster, health)
    advisory = Advisory(telemetry.meter) if options.advise_only else None
    gangs = GangEvents(telemetry.meter, cluster.uid_of)
    around = _services(options, cluster, health, stack, advisory)._replace(gang_events=gangs)
    # An unavailable service is asked once: the loop makes a new round after a pause, and can be stopped meanwhile.
    planner = stack.enter_context(GrpcLink(options.planner, policy=ONCE))
    actuator = stack.enter_context(ActuatorClient(options.actuator, ONCE)) if options.actuator else None
    if actuator is not None and (lease := around.lease) is not None:
        actuator.epoch = lambda: lease.epoch
    last = LastCluster()
    if options.web:
        observer = LastRound(lambda: last.answer(prices), options.source.name)
        around = around._replace(observer=observer)
        log.info("web", address=_open_web(options, observer, stack))
    recorders: list[RoundRecorder] = [last] if options.dry_run or options.web else []
    if options.record:
        recorders.append(stack.enter_context(RoundsRecorder(options.record, options.source.name)))
    await_planner(options.planner, planner.info, health)
    rounds = RoundRunner(
        cluster,
        PlannerSession(NamedSettingsLink(planner, options.source.settings)),
        actuator,
        settings,
        Recorders(recorders) if recorders else None,
    )
    loop = Loop(rounds, LoopSettings(interval_s=options.interval_s, rounds=options.rounds), around)

    def cut() -> None:
        planner.close()
        if actuator is not None:
            actuator.close()

    with stopping.loop(loop.stop, cut):
        loop.run()
    if options.dry_run:
        last.print_table(prices)
    if advisory is not None:
        log.info("advisory", text=advisory.sentence(), **advisory.document())


def _tell(kind: str, text: str) -> None:
    log.info(kind, text=text)


def _open_telemetry(options: RunOptions, stack: ExitStack) -> Telemetry:
    """Start metrics and traces, with the loop's certificate if it has one; the stack ends them."""
    ours = ChannelSecurity.from_environment()
    security = PortSecurity(cert=ours.tls_cert, key=ours.tls_key, allow_plaintext=options.allow_plaintext)
    try:
        telemetry = start_telemetry("trimtab-loop", options.metrics_address, security)
    except (ValueError, OSError) as error:
        raise UsageError(f"--metrics-address {options.metrics_address}: {error}") from None
    if telemetry.metrics_address:
        log.info("metrics", address=telemetry.metrics_address)
        telemetry.ready.set()
    stack.callback(telemetry.close)
    return telemetry


def _open_health(options: RunOptions, health: Health, stack: ExitStack) -> str:
    """Serve health, with the loop's certificate if it has one; return the address with the actual port."""
    ours = ChannelSecurity.from_environment()
    security = PortSecurity(cert=ours.tls_cert, key=ours.tls_key, allow_plaintext=options.allow_plaintext)
    try:
        return stack.enter_context(HealthServer(options.health_address, health, security)).address
    except (ValueError, OSError) as error:
        raise UsageError(f"--health-address {options.health_address}: {error}") from None


def _open_web(options: RunOptions, last: LastRound, stack: ExitStack) -> str:
    """Serve the page of the last round, as health is; on the network for callers with a certificate of the loop's CA.
    Return the address with the actual port.
    """
    ours = ChannelSecurity.from_environment()
    security = PortSecurity(
        cert=ours.tls_cert,
        key=ours.tls_key,
        client_ca=None if options.allow_anonymous or ours.tls_cert is None else ours.tls_ca,
        allow_plaintext=options.allow_plaintext,
        allow_anonymous=options.allow_anonymous,
    )
    try:
        access = open_access(options.policy, "", None, _no_review)
        return stack.enter_context(WebPort(options.web, last, security, access)).address
    except (ValueError, OSError) as error:
        raise UsageError(f"--web {options.web}: {error}") from None


def _no_review(_audience: str, _kubeconfig: Path | None) -> Review:
    raise ValueError("the page knows callers by their certificates alone")


def _needs(options: RunOptions) -> list[PermissionRule]:
    """Permissions for the loop's own writes; the actuator has separate permissions."""
    needs: list[PermissionRule] = []
    if options.leader_elect:
        needs += rules_of(User.LEADER, options.namespace, options.lease_name)
    if options.state_config_map and options.state_file is None:
        needs += rules_of(User.STATE, options.namespace, options.state_config_map)
    if options.status_config_map:
        needs += rules_of(User.STATUS, options.namespace, options.status_config_map)
    if options.events and options.actuator is not None and not options.dry_run:
        needs += rules_of(User.EVENTS)
    return needs


def _services(
    options: RunOptions, cluster: LiveCluster, health: Health, stack: ExitStack, advisory: Advisory | None
) -> LoopServices:
    """Start the services through which the loop reports; the stack stops them."""
    api = cluster.api
    identity = f"{socket.gethostname()}-{os.getpid()}"
    lease = writer = None
    if options.leader_elect:
        lease = Lease(api, identity, LeaseSettings(namespace=options.namespace, name=options.lease_name))
        lease.start()
        stack.callback(lease.stop)
    acts = options.actuator is not None and not options.dry_run
    if options.events and acts:
        writer = EventWriter(api, identity, cluster.uid_of)
        writer.start()
        stack.callback(writer.stop)
    subject = Subject("ConfigMap", options.status_config_map or STATUS_MAP, options.namespace)
    name = options.status_config_map
    return LoopServices(
        health=health,
        lease=lease,
        status_map=StatusMap(api, options.namespace, name, advisory) if name else None,
        events=writer,
        status_events=StatusEvents(subject) if writer is not None else None,
        growth_events=GrowthEvents(subject) if writer is not None else None,
        request_events=RequestEvents() if writer is not None else None,
        states=_states(options, api),
        advisory=advisory,
    )


def _states(options: RunOptions, api: Api) -> StateKeeper | None:
    """Where the planner's state is kept, if anywhere: a file, else the ConfigMap."""
    max_age_s = max(options.state_max_age_s, 3 * options.interval_s)
    if options.state_file is not None:
        return StateKeeper(StateFile(options.state_file), options.source.name, max_age_s)
    if options.state_config_map:
        place = StateConfigMap(api, options.namespace, options.state_config_map)
        return StateKeeper(place, options.source.name, max_age_s)
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
