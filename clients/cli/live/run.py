"""`trimtab run`: assemble the reference loop, run it until SIGTERM or SIGINT, shut it down in order. What only steering
an existing autoscaler needs is in `steer`.
"""

import os
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Final, NamedTuple

import structlog

from trimtab.clients.actuator_client import ActuatorClient
from trimtab.clients.cli.command_options import Acts, RunOptions
from trimtab.clients.cli.decisions import read_decisions
from trimtab.clients.cli.failures import FailedError, UsageError, cluster_failures
from trimtab.clients.cli.label_groups import read_labels, refuse_labels
from trimtab.clients.cli.live.last_cluster import LastCluster, Recorders, completed
from trimtab.clients.cli.live.rounds_reader import RoundsRecorder
from trimtab.clients.cli.live.sources import ClusterSource, check_writable
from trimtab.clients.cli.live.stopping import Stopping
from trimtab.clients.cli.live.waiting import await_planner, wait_until_listed
from trimtab.clients.cli.offer_files import given_offers
from trimtab.clients.cli.planners import NamedSettingsLink
from trimtab.clients.cli.price_files import given_prices
from trimtab.clients.cli.prices import Prices
from trimtab.clients.live.cluster import LiveCluster
from trimtab.clients.loop.advisory import Advisory
from trimtab.clients.loop.events import EventWriter, StatusEvents, Subject
from trimtab.clients.loop.gang_events import GangEvents
from trimtab.clients.loop.growth_events import GrowthEvents, RequestEvents
from trimtab.clients.loop.health import Health, HealthServer
from trimtab.clients.loop.kept_state import StateConfigMap, StateFile, StateKeeper
from trimtab.clients.loop.loop import Loop, LoopServices, LoopSettings
from trimtab.clients.loop.planner_session import PlannerSession
from trimtab.clients.loop.rounds import RoundRecorder, RoundRunner, RoundSettings
from trimtab.clients.loop.status_map import StatusMap
from trimtab.clients.planner_client import GrpcLink
from trimtab.clients.steering.marks import KEYS, settings_to_steer
from trimtab.clients.steering.rounds import PodCostsOnly, SteeringRounds, SteerSettings, take_all_off
from trimtab.clients.steering.writer import MarkWriter
from trimtab.common.kubernetes.api import Api
from trimtab.common.kubernetes.errors import KubernetesError
from trimtab.common.kubernetes.lease import Lease, LeaseSettings
from trimtab.common.kubernetes.registry import WATCHED, PermissionRule, User, rules_of
from trimtab.common.objects.annotated_numbers import annotations_read
from trimtab.common.objects.karpenter.offers import MachineOffer
from trimtab.common.rpc.channel_security import ChannelSecurity
from trimtab.common.rpc.port_security import PortSecurity
from trimtab.common.rpc.retries import ONCE
from trimtab.common.rpc.telemetry import Telemetry, configure_logging, start_telemetry, terminal_format
from trimtab.v1 import plan_pb2

LAST_WRITES_PER_S: Final = 100.0
"""Pace at which annotations are removed at the end: a pod has half a minute to terminate."""
LAST_WRITES_S: Final = 600.0
CLEAN: Final = "run `trimtab run --act steer --clean`"


def round_settings(options: RunOptions, source: ClusterSource) -> RoundSettings:
    """Return the settings of rounds that steer. Errors: UsageError."""
    decisions = [plan_pb2.Decision.SCALE_DOWN] + ([plan_pb2.Decision.POD_COSTS] if options.actuator else [])
    return RoundSettings(
        cluster=source.name,
        decisions=tuple(decisions),
        plan=settings_to_steer(source.plan_settings()),
        groups=source.groups(),
        dry_run=options.acts_on_nothing,
        apply_pod_costs=options.actuator is not None,
    )


def steering_rounds(
    options: RunOptions,
    cluster: LiveCluster,
    planner: PlannerSession,
    actuator: ActuatorClient | None,
    settings: RoundSettings,
    recorder: RoundRecorder | None,
) -> RoundRunner:
    """Return the rounds."""
    key = KEYS[options.autoscaler or "cluster-autoscaler"]
    steer = SteerSettings(key, max(options.interval_s, 1.0), options.acts_on_nothing)
    writer = MarkWriter(cluster.api, options.writes_per_second)
    return SteeringRounds(cluster, planner, actuator, settings, steer, writer, recorder)


def remove_annotations(options: RunOptions, source: ClusterSource, stack: ExitStack) -> None:
    """Remove all our annotations, whichever process wrote them."""
    needs = [] if options.acts_on_nothing else list(rules_of(User.MARKS))
    cluster = stack.enter_context(LiveCluster(source.api(), resources=[WATCHED["Node"]], needs=needs))
    wait_until_listed(cluster, Health(max_inactivity_s=LAST_WRITES_S))
    _take_off(options, cluster, MarkWriter(cluster.api, options.writes_per_second))


def end(options: RunOptions, cluster: LiveCluster, lease: Lease | None) -> None:
    """Remove all annotations, unless they should stay or another process steers by now."""
    if options.leave or options.acts_on_nothing or (lease is not None and not lease.is_held):
        return
    try:
        _take_off(options, cluster, MarkWriter(cluster.api, LAST_WRITES_PER_S))
    except KubernetesError as error:
        raise FailedError(f"annotations remain, {CLEAN}: {error}") from error


def _take_off(options: RunOptions, cluster: LiveCluster, writer: MarkWriter) -> None:
    left = take_all_off(cluster.nodes(), writer, LAST_WRITES_S, options.acts_on_nothing)
    if left and not options.acts_on_nothing:
        raise FailedError(f"{left} nodes keep their annotations; {CLEAN}")


log = structlog.get_logger("loop")

STATUS_MAP = "trimtab-status"
"""Name of the status ConfigMap of a loop that acts."""


class Priced(NamedTuple):
    """prices : of `--prices`; offers : of `--offers`. None = not given."""

    prices: Prices | None
    offers: Sequence[MachineOffer] | None


def run(options: RunOptions) -> None:
    """Run the loop. One that acts on nothing writes nothing to the cluster but a status ConfigMap that is named, so it
    may run beside a loop that acts.
    """
    options = with_defaults(options)
    check(options)
    try:
        configure_logging(options.log_level, options.log_format or terminal_format())
    except ValueError as error:
        raise UsageError(f"--log-level: {error}") from None
    source = ClusterSource.of(options)
    settings = round_settings(options, source) if is_steering(options) else _round_settings(options, source)
    if settings.groups:
        refuse_labels(read_labels(options.group_by))
    priced = Priced(given_prices(options.prices), given_offers(options.offers))
    check_writable("--state-file", options.state_file)
    check_writable("--record", options.record)
    stopping = Stopping()
    with cluster_failures(), stopping.on_signals(), ExitStack() as stack:
        if options.clean:
            remove_annotations(options, source, stack)
        else:
            _run(options, settings, priced, (stopping, stack))
    log.info("stopped")


def is_steering(options: RunOptions) -> bool:
    """Return whether annotations of nodes are written or, if nothing is, counted."""
    return options.act is Acts.STEER or options.autoscaler is not None or options.clean


def with_defaults(options: RunOptions) -> RunOptions:
    """Return the options with the names that depend on what the loop does."""
    if options.acts_on_nothing:
        return replace(
            options,
            leader_elect=False,
            events=False,
            lease_name="",
            status_config_map=options.status_config_map or "",
            state_config_map="",
        )
    steers = is_steering(options)

    def named(given: str | None, usual: str, of_steering: str) -> str:
        return given if given is not None else of_steering if steers else usual

    return replace(
        options,
        events=options.events and not steers,
        lease_name=named(options.lease_name, "trimtab-loop", "trimtab-steer"),
        status_config_map=named(options.status_config_map, STATUS_MAP, ""),
        state_config_map=named(options.state_config_map, "trimtab-state", "trimtab-steer-state"),
    )


def check(options: RunOptions) -> None:
    """Check what belongs together. Errors: UsageError."""
    if options.planner is None and not options.clean:
        raise UsageError("--planner is missing: give the planner's address, such as 127.0.0.1:8085")
    if options.acts_on_nothing and options.apply_pod_costs:
        raise UsageError("--act none carries nothing out; leave out --apply-pod-costs")
    if options.act is Acts.ALL and is_steering(options):
        raise UsageError("--autoscaler and --clean are for --act steer or --act none; --act all steers no autoscaler")
    if is_steering(options) and (options.replace or options.decision):
        raise UsageError("--replace and --decision are for --act all: only scale-down steers another autoscaler")
    if options.autoscaler not in (None, *KEYS):
        raise UsageError(f"--autoscaler {options.autoscaler}: name one of {', '.join(KEYS)}")


def _round_settings(options: RunOptions, source: ClusterSource) -> RoundSettings:
    return RoundSettings(
        cluster=source.name,
        decisions=tuple(read_decisions(options.decision or ())),
        plan=source.plan_settings(),
        groups=source.groups(),
        dry_run=options.acts_on_nothing,
        apply_pod_costs=options.apply_pod_costs,
        replace=options.replace,
    )


def _run(options: RunOptions, settings: RoundSettings, priced: Priced, ending: tuple[Stopping, ExitStack]) -> None:
    """Assemble everything and run it; the stack shuts it down."""
    (stopping, stack), (prices, offers) = ending, priced
    telemetry = _open_telemetry(options, stack)
    health = Health(max_inactivity_s=max(10 * options.interval_s, 600.0))
    if options.health_address:
        log.info("health", address=_open_health(options, health, stack))
    source = ClusterSource.of(options)
    live = LiveCluster(source.api(), needs=_needs(options), numbers=annotations_read(settings.plan))
    cluster = stack.enter_context(live)
    settings = completed(settings, cluster, _tell, read_labels(options.group_by), prices, offers)
    wait_until_listed(cluster, health)
    advisory = Advisory(telemetry.meter) if options.acts_on_nothing and not is_steering(options) else None
    gangs = GangEvents(telemetry.meter, cluster.uid_of)
    around = _services(options, cluster, health, stack, advisory)
    around = around._replace(events_of=(*around.events_of, gangs.of))
    # An unavailable service is asked once: the loop makes a new round after a pause, and can be stopped meanwhile.
    planner = stack.enter_context(GrpcLink(str(options.planner), policy=ONCE))
    kind = PodCostsOnly if is_steering(options) else ActuatorClient
    actuator = stack.enter_context(kind(options.actuator, ONCE)) if options.actuator else None
    if actuator is not None and (lease := around.lease) is not None:
        actuator.epoch = lambda: lease.epoch
    last = LastCluster()
    recorders: list[RoundRecorder] = [last] if options.acts_on_nothing else []
    if options.record:
        recorders.append(stack.enter_context(RoundsRecorder(options.record, source.name)))
    await_planner(str(options.planner), planner.info, health)
    session = PlannerSession(NamedSettingsLink(planner, options.settings))
    recorder = Recorders(recorders) if recorders else None
    rounds = (
        steering_rounds(options, cluster, session, actuator, settings, recorder)
        if is_steering(options)
        else RoundRunner(cluster, session, actuator, settings, recorder)
    )
    loop = Loop(rounds, LoopSettings(interval_s=options.interval_s, rounds=options.rounds), around)

    def cut() -> None:
        planner.close()
        if actuator is not None:
            actuator.close()

    try:
        with stopping.loop(loop.stop, cut):
            loop.run()
    finally:
        if is_steering(options):
            end(options, cluster, around.lease)
    if options.acts_on_nothing:
        last.print_table(prices)
    if advisory is not None:
        log.info("advisory", text=advisory.sentence(), **advisory.document())


def _tell(kind: str, text: str) -> None:
    log.info(kind, text=text)


def _open_telemetry(options: RunOptions, stack: ExitStack) -> Telemetry:
    """Start metrics and traces, with the loop's certificate if it has one; the stack ends them."""
    ours = ChannelSecurity.from_environment()
    security = PortSecurity(cert=ours.tls_cert, key=ours.tls_key, allow_plaintext=options.allow_plaintext_on_network)
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
    security = PortSecurity(cert=ours.tls_cert, key=ours.tls_key, allow_plaintext=options.allow_plaintext_on_network)
    try:
        return stack.enter_context(HealthServer(options.health_address, health, security)).address
    except (ValueError, OSError) as error:
        raise UsageError(f"--health-address {options.health_address}: {error}") from None


def _needs(options: RunOptions) -> list[PermissionRule]:
    """Permissions for the loop's own writes; the actuator has separate permissions."""
    needs: list[PermissionRule] = []
    if is_steering(options) and not options.acts_on_nothing:
        needs += rules_of(User.MARKS)
    if options.leader_elect:
        needs += rules_of(User.LEADER, options.namespace, str(options.lease_name))
    if options.state_config_map and options.state_file is None:
        needs += rules_of(User.STATE, options.namespace, options.state_config_map)
    if options.status_config_map:
        needs += rules_of(User.STATUS, options.namespace, options.status_config_map)
    if options.events and options.actuator is not None:
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
        lease = Lease(api, identity, LeaseSettings(namespace=options.namespace, name=str(options.lease_name)))
        lease.start()
        stack.callback(lease.stop)
    acts = options.actuator is not None
    if options.events and acts:
        writer = EventWriter(api, identity, cluster.uid_of)
        writer.start()
        stack.callback(writer.stop)
    subject = Subject("ConfigMap", options.status_config_map or STATUS_MAP, options.namespace)
    name = options.status_config_map
    events_of = (StatusEvents(subject).of_round, GrowthEvents(subject).of, RequestEvents().of)
    return LoopServices(
        health=health,
        lease=lease,
        status_map=StatusMap(api, options.namespace, name, advisory) if name else None,
        events=writer,
        events_of=events_of if writer is not None else (),
        states=_states(options, api),
        advisory=advisory,
    )


def _states(options: RunOptions, api: Api) -> StateKeeper | None:
    """Where the planner's state is kept, if anywhere: a file, else the ConfigMap."""
    max_age_s = max(options.state_max_age, 3 * options.interval_s)
    if options.state_file is not None:
        return StateKeeper(StateFile(options.state_file), options.cluster_name, max_age_s)
    if options.state_config_map:
        place = StateConfigMap(api, options.namespace, options.state_config_map)
        return StateKeeper(place, options.cluster_name, max_age_s)
    return None
