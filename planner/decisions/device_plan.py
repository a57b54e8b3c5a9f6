"""Plans with devices, checked by the allocator: the one place where a whole plan is looked at and made again.

Amounts of claims that mix on a node are an estimate. After all decisions, the allocator gives the devices of the whole
plan (`trimtab.planner.device_amounts.placements`). What it refuses limits a second plan, and a third one puts claims of
one kind on a node, which needs no check. Snapshots without such claims are planned once, without any of this.
"""

from typing import Final

import numpy as np

from trimtab.planner.decisions.plan import Planned, plan_with_failures
from trimtab.planner.decisions.table import TABLE, Table
from trimtab.planner.device_amounts.placements import PlannedPods, refused_mixtures
from trimtab.planner.device_amounts.planned import MixtureLimits, PlannedDevices, planned_snapshot
from trimtab.planner.round.round import Work
from trimtab.planner.snapshot.caches import UNCACHED
from trimtab.v1 import plan_pb2 as pb

ONE_KIND: Final = MixtureLimits(is_one_kind=True)


def plan_devices(
    devices: PlannedDevices, request: pb.PlanRequest, state: pb.PlanState | None, work: Work, table: Table = TABLE
) -> Planned:
    """Take the decisions, as `plan_with_failures`; where claims mix, up to three times."""
    planned = plan_with_failures(
        devices.snapshot, request, state, work, table, is_whole=bool(devices.competing.mixtures)
    )
    limits = _refused(devices, planned)
    # Nothing kept with the snapshot, or under its version, is of one with limits.
    work = work._replace(cache=UNCACHED)
    while limits is not None:
        limited = planned_snapshot(devices.sent, devices, limits=limits)
        planned = plan_with_failures(limited.snapshot, request, state, work, table, is_whole=True)
        is_refused = limits is not ONE_KIND and _refused(limited, planned) is not None
        limits = ONE_KIND if is_refused else None
    return planned


def _refused(devices: PlannedDevices, planned: Planned) -> MixtureLimits | None:
    """Return limits where the allocator refuses claims of a plan."""
    this = planned.round
    if not devices.competing.mixtures or this is None or not this.is_simulated:
        return None
    simulation, snapshot = this.simulation, this.snapshot
    growth, opened_from = this.growth_of(pb.Decision.UNSPECIFIED), simulation.state.virtual.opened_from
    group = np.full(len(opened_from), -1, np.int64)
    with_template = np.flatnonzero(growth.template_node >= 0)
    group[growth.template_node[with_template]] = with_template
    group[growth.upcoming] = np.repeat(np.arange(len(growth.template_node)), np.diff(growth.upcoming_offsets))
    group[opened_from >= 0] = group[opened_from[opened_from >= 0]]
    priorities = [pod.spec.priority for pod in simulation.virtual.pods]
    pods = PlannedPods(
        snapshot,
        simulation.state.pod_class,
        simulation.state.pod_node,
        np.concatenate([snapshot.spec_priorities()[snapshot.pods.spec], np.array(priorities, np.int64)]),
        simulation.state.resources.request,
        simulation.resources,
        group,
    )
    return refused_mixtures(devices, pods)
