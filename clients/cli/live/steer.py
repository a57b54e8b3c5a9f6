"""`trimtab steer`: assemble rounds that steer, run them, and remove all annotations at the end."""

import os
import socket
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog
from trimtab.v1 import plan_pb2

from clients.cli.failures import FailedError, InputError
from clients.cli.live.run import ONCE, wait_until_listed
from clients.cli.live.sources import ClusterSource, cluster_failures
from clients.cli.live.stopping import Stopping
from clients.cli.pod_cost_annotations import annotations_read
from clients.kubernetes_api.api import Api
from clients.kubernetes_api.errors import ClusterError
from clients.kubernetes_api.lease import Lease, LeaseSettings
from clients.kubernetes_api.permissions import lease_rules, own_object
from clients.kubernetes_api.rules import Rule
from clients.live_cluster.cluster import LiveCluster
from clients.live_cluster.resources import BY_KIND
from clients.reference_loop.health import Health
from clients.reference_loop.kept_state import StateConfigMap, StateFile, StateKeeper
from clients.reference_loop.loop import Loop, LoopServices, LoopSettings
from clients.reference_loop.planner_session import GrpcLink, PlannerSession
from clients.reference_loop.rounds import RoundSettings
from clients.steering.marks import KEYS
from clients.steering.plan import settings_to_steer
from clients.steering.rounds import PodCostsOnly, SteeringRounds, SteerSettings, take_all_off
from clients.steering.writer import MarkWriter
from clients.transport.telemetry import configure_logging

log = structlog.get_logger("steer")

LAST_WRITES_PER_S: Final = 100.0
"""Pace at which annotations are removed at the end: a pod has half a minute to terminate."""
LAST_WRITES_S: Final = 600.0


@dataclass(frozen=True)
class Asked:
    """The options of `trimtab steer`."""

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

    @property
    def steer(self) -> SteerSettings:
        """Return how to steer."""
        return SteerSettings(KEYS[self.autoscaler], max(self.interval_s, 1.0), self.dry_run)


def steer(asked: Asked) -> None:
    """Steer until SIGTERM or SIGINT, or only remove all annotations if that is requested."""
    if asked.autoscaler not in KEYS:
        raise InputError(f"--autoscaler {asked.autoscaler}: name one of {', '.join(KEYS)}")
    if not asked.clean and asked.planner is None:
        raise InputError("--planner is missing: give the planner's address, or --clean")
    try:
        configure_logging(asked.log_level)
    except ValueError as error:
        raise InputError(f"--log-level: {error}") from None
    stopping = Stopping()
    with cluster_failures(), stopping.on_signals(), ExitStack() as stack:
        (_clean if asked.clean else _run)(asked, stopping, stack)
    log.info("stopped")


def _clean(asked: Asked, stopping: Stopping, stack: ExitStack) -> None:
    """Remove all our annotations, whichever process wrote them."""
    del stopping
    api = asked.source.api()
    cluster = stack.enter_context(LiveCluster(api, resources=[BY_KIND["Node"]], needs=_write_rules(asked)))
    wait_until_listed(cluster, Health(max_inactivity_s=LAST_WRITES_S))
    _take_off(asked, cluster, MarkWriter(api, asked.writes_per_s))


def _take_off(asked: Asked, cluster: LiveCluster, writer: MarkWriter) -> None:
    left = take_all_off(cluster.nodes(), writer, LAST_WRITES_S, asked.dry_run)
    if left and not asked.dry_run:
        raise FailedError(f"{left} nodes keep their annotations; run `trimtab steer --clean`")


def _run(asked: Asked, stopping: Stopping, stack: ExitStack) -> None:
    api = asked.source.api()
    health = Health(max_inactivity_s=max(10 * asked.interval_s, 600.0))
    settings = _rounds(asked)
    cluster = stack.enter_context(LiveCluster(api, needs=_needs(asked), numbers=annotations_read(settings.plan)))
    wait_until_listed(cluster, health)
    around = _services(asked, api, health, stack)
    planner = stack.enter_context(GrpcLink(str(asked.planner), policy=ONCE))
    actuator = stack.enter_context(PodCostsOnly(asked.actuator, ONCE)) if asked.actuator else None
    if actuator is not None and (lease := around.lease) is not None:
        actuator.epoch = lambda: lease.epoch
    writer = MarkWriter(api, asked.writes_per_s)
    rounds = SteeringRounds(cluster, PlannerSession(planner), actuator, settings, asked.steer, writer)
    loop = Loop(rounds, LoopSettings(interval_s=asked.interval_s, rounds=asked.rounds), around)
    try:
        with stopping.loop(loop.stop, planner.close):
            loop.run()
    finally:
        _end(asked, cluster, api, around.lease)


def _end(asked: Asked, cluster: LiveCluster, api: Api, lease: Lease | None) -> None:
    """Remove all annotations, unless they should stay or another process steers by now."""
    if asked.leave or asked.dry_run or (lease is not None and not lease.is_held):
        return
    try:
        _take_off(asked, cluster, MarkWriter(api, LAST_WRITES_PER_S))
    except ClusterError as error:
        raise FailedError(f"annotations remain, run `trimtab steer --clean`: {error}") from error


def _rounds(asked: Asked) -> RoundSettings:
    decisions = [plan_pb2.Decision.SCALE_DOWN] + ([plan_pb2.Decision.POD_COSTS] if asked.actuator else [])
    return RoundSettings(
        cluster=asked.source.name,
        decisions=tuple(decisions),
        plan=settings_to_steer(asked.source.plan_settings()),
        groups=asked.source.groups(),
        dry_run=asked.dry_run,
        apply_pod_costs=asked.actuator is not None,
    )


def _write_rules(asked: Asked) -> list[Rule]:
    return [] if asked.dry_run else [Rule("", "nodes", ("patch",))]


def _needs(asked: Asked) -> list[Rule]:
    needs = _write_rules(asked)
    if _elects(asked):
        needs += lease_rules(asked.namespace, asked.lease_name)
    if _keeps_state(asked) and asked.state_file is None:
        needs += own_object("", "configmaps", ("get", "patch"), asked.namespace, asked.state_config_map)
    return needs


def _elects(asked: Asked) -> bool:
    return asked.leader_elect and not asked.dry_run


def _keeps_state(asked: Asked) -> bool:
    return asked.state_file is not None or (bool(asked.state_config_map) and not asked.dry_run)


def _services(asked: Asked, api: Api, health: Health, stack: ExitStack) -> LoopServices:
    lease = states = None
    if _elects(asked):
        identity = f"{socket.gethostname()}-{os.getpid()}"
        lease = Lease(api, identity, LeaseSettings(namespace=asked.namespace, name=asked.lease_name))
        lease.start()
        stack.callback(lease.stop)
    if _keeps_state(asked):
        place = (
            StateFile(asked.state_file)
            if asked.state_file is not None
            else StateConfigMap(api, asked.namespace, asked.state_config_map)
        )
        states = StateKeeper(place, asked.source.name, max(300.0, 3 * asked.interval_s))
    return LoopServices(health=health, lease=lease, states=states)
