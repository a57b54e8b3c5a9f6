"""`trimtab steer`: assemble rounds that steer, run them, and remove all annotations at the end."""

import os
import socket
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from trimtab.clients.cli.failures import FailedError, UsageError
from trimtab.clients.cli.live.awaited_planner import await_planner
from trimtab.clients.cli.live.group_completion import completed
from trimtab.clients.cli.live.run import wait_until_listed
from trimtab.clients.cli.live.sources import ClusterSource, cluster_failures
from trimtab.clients.cli.live.stopping import Stopping
from trimtab.clients.cli.offer_files import given_offers
from trimtab.clients.live.cluster import LiveCluster
from trimtab.clients.reference_loop.health import Health
from trimtab.clients.reference_loop.kept_state import StateConfigMap, StateFile, StateKeeper
from trimtab.clients.reference_loop.loop import Loop, LoopServices, LoopSettings
from trimtab.clients.reference_loop.planner_session import GrpcLink, PlannerSession
from trimtab.clients.reference_loop.rounds import RoundSettings
from trimtab.clients.steering.marks import KEYS
from trimtab.clients.steering.plan import settings_to_steer
from trimtab.clients.steering.rounds import PodCostsOnly, SteeringRounds, SteerSettings, take_all_off
from trimtab.clients.steering.writer import MarkWriter
from trimtab.common.kubernetes.api import Api
from trimtab.common.kubernetes.errors import KubernetesError
from trimtab.common.kubernetes.lease import Lease, LeaseSettings
from trimtab.common.kubernetes.registry import WATCHED, PermissionRule, User, rules_of
from trimtab.common.objects.annotated_numbers import annotations_read
from trimtab.common.rpc.retries import ONCE
from trimtab.common.rpc.telemetry import LogFormat, configure_logging, terminal_format
from trimtab.v1 import plan_pb2

log = structlog.get_logger("steer")

LAST_WRITES_PER_S: Final = 100.0
"""Pace at which annotations are removed at the end: a pod has half a minute to terminate."""
LAST_WRITES_S: Final = 600.0


@dataclass(frozen=True)
class SteerOptions:
    """The options of `trimtab steer`: a field is the option of that name, as `--help` describes it, except for these.

    source : the options that name the cluster; interval_s : seconds; writes_per_s : `--writes-per-second`; log_format :
    None = text on a terminal, else JSON
    """

    source: ClusterSource
    planner: str | None
    actuator: str | None
    autoscaler: str
    interval_s: float
    writes_per_s: float
    dry_run: bool
    clean: bool
    leave: bool
    rounds: int
    namespace: str
    leader_elect: bool
    lease_name: str
    state_config_map: str
    state_file: Path | None
    log_level: str
    log_format: LogFormat | None = None
    offers: Path | None = None

    @property
    def steer(self) -> SteerSettings:
        """Return how to steer."""
        return SteerSettings(KEYS[self.autoscaler], max(self.interval_s, 1.0), self.dry_run)


def steer(options: SteerOptions) -> None:
    """Steer until SIGTERM or SIGINT, or only remove all annotations if that is requested."""
    if options.autoscaler not in KEYS:
        raise UsageError(f"--autoscaler {options.autoscaler}: name one of {', '.join(KEYS)}")
    if not options.clean and options.planner is None:
        raise UsageError("--planner is missing: give the planner's address, or --clean")
    try:
        configure_logging(options.log_level, options.log_format or terminal_format())
    except ValueError as error:
        raise UsageError(f"--log-level: {error}") from None
    stopping = Stopping()
    with cluster_failures(), stopping.on_signals(), ExitStack() as stack:
        (_clean if options.clean else _run)(options, stopping, stack)
    log.info("stopped")


def _clean(options: SteerOptions, stopping: Stopping, stack: ExitStack) -> None:
    """Remove all our annotations, whichever process wrote them."""
    del stopping
    api = options.source.api()
    cluster = stack.enter_context(LiveCluster(api, resources=[WATCHED["Node"]], needs=_write_rules(options)))
    wait_until_listed(cluster, Health(max_inactivity_s=LAST_WRITES_S))
    _take_off(options, cluster, MarkWriter(api, options.writes_per_s))


def _take_off(options: SteerOptions, cluster: LiveCluster, writer: MarkWriter) -> None:
    left = take_all_off(cluster.nodes(), writer, LAST_WRITES_S, options.dry_run)
    if left and not options.dry_run:
        raise FailedError(f"{left} nodes keep their annotations; run `trimtab steer --clean`")


def _run(options: SteerOptions, stopping: Stopping, stack: ExitStack) -> None:
    api = options.source.api()
    health = Health(max_inactivity_s=max(10 * options.interval_s, 600.0))
    settings = _rounds(options)
    offers = given_offers(options.offers)
    cluster = stack.enter_context(LiveCluster(api, needs=_needs(options), numbers=annotations_read(settings.plan)))
    settings = completed(settings, cluster, lambda kind, text: log.info(kind, text=text), offers=offers)
    wait_until_listed(cluster, health)
    around = _services(options, api, health, stack)
    planner = stack.enter_context(GrpcLink(str(options.planner), policy=ONCE))
    actuator = stack.enter_context(PodCostsOnly(options.actuator, ONCE)) if options.actuator else None
    if actuator is not None and (lease := around.lease) is not None:
        actuator.epoch = lambda: lease.epoch
    writer = MarkWriter(api, options.writes_per_s)
    await_planner(str(options.planner), planner.info, health)
    rounds = SteeringRounds(cluster, PlannerSession(planner), actuator, settings, options.steer, writer)
    loop = Loop(rounds, LoopSettings(interval_s=options.interval_s, rounds=options.rounds), around)
    try:
        with stopping.loop(loop.stop, planner.close):
            loop.run()
    finally:
        _end(options, cluster, api, around.lease)


def _end(options: SteerOptions, cluster: LiveCluster, api: Api, lease: Lease | None) -> None:
    """Remove all annotations, unless they should stay or another process steers by now."""
    if options.leave or options.dry_run or (lease is not None and not lease.is_held):
        return
    try:
        _take_off(options, cluster, MarkWriter(api, LAST_WRITES_PER_S))
    except KubernetesError as error:
        raise FailedError(f"annotations remain, run `trimtab steer --clean`: {error}") from error


def _rounds(options: SteerOptions) -> RoundSettings:
    decisions = [plan_pb2.Decision.SCALE_DOWN] + ([plan_pb2.Decision.POD_COSTS] if options.actuator else [])
    return RoundSettings(
        cluster=options.source.name,
        decisions=tuple(decisions),
        plan=settings_to_steer(options.source.plan_settings()),
        groups=options.source.groups(),
        dry_run=options.dry_run,
        apply_pod_costs=options.actuator is not None,
    )


def _write_rules(options: SteerOptions) -> list[PermissionRule]:
    return [] if options.dry_run else list(rules_of(User.MARKS))


def _needs(options: SteerOptions) -> list[PermissionRule]:
    needs = _write_rules(options)
    if _elects(options):
        needs += rules_of(User.LEADER, options.namespace, options.lease_name)
    if _keeps_state(options) and options.state_file is None:
        needs += rules_of(User.STATE, options.namespace, options.state_config_map)
    return needs


def _elects(options: SteerOptions) -> bool:
    return options.leader_elect and not options.dry_run


def _keeps_state(options: SteerOptions) -> bool:
    return options.state_file is not None or (bool(options.state_config_map) and not options.dry_run)


def _services(options: SteerOptions, api: Api, health: Health, stack: ExitStack) -> LoopServices:
    lease = states = None
    if _elects(options):
        identity = f"{socket.gethostname()}-{os.getpid()}"
        lease = Lease(api, identity, LeaseSettings(namespace=options.namespace, name=options.lease_name))
        lease.start()
        stack.callback(lease.stop)
    if _keeps_state(options):
        place = (
            StateFile(options.state_file)
            if options.state_file is not None
            else StateConfigMap(api, options.namespace, options.state_config_map)
        )
        states = StateKeeper(place, options.source.name, max(300.0, 3 * options.interval_s))
    return LoopServices(health=health, lease=lease, states=states)
