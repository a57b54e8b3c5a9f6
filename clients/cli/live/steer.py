"""What `trimtab run --act steer` has beside the loop: rounds that write annotations of nodes, and the removal of all
annotations at the end.
"""

from contextlib import ExitStack
from typing import Final

from trimtab.clients.actuator_client import ActuatorClient
from trimtab.clients.cli.command_options import RunOptions
from trimtab.clients.cli.failures import FailedError
from trimtab.clients.cli.live.sources import ClusterSource
from trimtab.clients.cli.live.waiting import wait_until_listed
from trimtab.clients.live.cluster import LiveCluster
from trimtab.clients.loop.health import Health
from trimtab.clients.loop.planner_session import PlannerSession
from trimtab.clients.loop.rounds import RoundRecorder, RoundRunner, RoundSettings
from trimtab.clients.steering.marks import KEYS
from trimtab.clients.steering.plan import settings_to_steer
from trimtab.clients.steering.rounds import SteeringRounds, SteerSettings, take_all_off
from trimtab.clients.steering.writer import MarkWriter
from trimtab.common.kubernetes.errors import KubernetesError
from trimtab.common.kubernetes.lease import Lease
from trimtab.common.kubernetes.registry import WATCHED, User, rules_of
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


def rounds(
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
