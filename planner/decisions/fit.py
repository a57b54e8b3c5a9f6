"""CheckFit: for pods and all nodes, whether the pod fits, and every failing predicate. Decides which pods are checked:
those named, or all that wait for a node. A pod that is on a node is checked as if it were on none. Cost: O(pods *
nodes); answers are made for a few pods at a time. Raises RequestError.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from trimtab.planner.decisions.device_fit import DeviceFit
from trimtab.planner.decisions.kernels.fit import explain
from trimtab.planner.decisions.requests import RequestError
from trimtab.planner.decisions.simulations import simulate
from trimtab.planner.model.values import is_device_resource
from trimtab.planner.predicates.order import reasons_of
from trimtab.planner.predicates.resources import POD_ROOM
from trimtab.planner.round.work import Work
from trimtab.planner.simulation.kernels import place, revert
from trimtab.planner.simulation.log import check_log, current_mark
from trimtab.planner.simulation.state import SimulationState
from trimtab.planner.simulation.yielding import nominated_pods
from trimtab.planner.snapshot.columns import NO_NODE, Bool, Int32, Int64, Snapshot
from trimtab.planner.snapshot.lookup import find_pods
from trimtab.v1 import plan_pb2, planner_pb2, reason_pb2, snapshot_pb2

_CELLS_AT_ONCE: Final = 1_000_000
_LACKS: Final = 1 << reason_pb2.PredicateReason.INSUFFICIENT_RESOURCES
_TERMINAL: Final = (snapshot_pb2.PodPhase.SUCCEEDED, snapshot_pb2.PodPhase.FAILED)


def check_fit(
    snapshot: Snapshot, request: plan_pb2.PlanRequest, work: Work, sent: Snapshot | None = None
) -> Iterator[planner_pb2.CheckFitResponse]:
    """Yield one answer for each pod, in the order of the snapshot. sent : the snapshot before devices were counted."""
    pods = chosen_pods(snapshot, request.fit_pods)
    devices = DeviceFit(sent) if sent is not None and sent is not snapshot else None
    with work.stage("classes"):
        simulation = simulate(snapshot, request, work.cache, limits=work.limits)
    nodes, names = snapshot.nodes.name, simulation.resources
    at_once = max(1, min(len(pods), _CELLS_AT_ONCE // max(1, len(nodes) * len(names))))
    work.limits.reserve(at_once * len(nodes) * (8 + len(names)), "what fits where")
    masks = np.zeros((at_once, len(nodes)), np.int64)
    lacking = np.zeros((at_once, len(nodes), len(names)), np.bool_)
    for first in range(0, len(pods), at_once):
        with work.stage("simulate"):
            count = explain(simulation.state, pods, masks, lacking, first)
            _add_nominated(simulation.state, snapshot, pods[first : first + count], masks, lacking)
        check_log(simulation.state)
        for q in range(count):
            pod = int(pods[first + q])
            found = devices.decided(pod, masks[q]) if devices is not None else {}
            answers = _node_fits(nodes, masks[q], lacking[q], names)
            for node, refusals in found.items():
                answers[node].devices.extend(refusals)
            yield planner_pb2.CheckFitResponse(pod=snapshot.pod_key(pod), nodes=answers)


def _add_nominated(state: SimulationState, snapshot: Snapshot, pods: Int32, masks: Int64, lacking: Bool) -> None:
    """Add why pods : int32[Q] do not fit beside pods that are nominated for nodes, of equal or higher priority. masks,
    lacking : as of `explain`, in place. Source: kube-scheduler, RunFilterPluginsWithNominatedPods."""
    nominated = nominated_pods(snapshot)
    if not len(nominated):
        return
    priority = snapshot.spec_priorities()[snapshot.pods.spec]
    for value in np.unique(priority[pods]).tolist():
        start = current_mark(state)
        for one in nominated[priority[nominated] >= value].tolist():
            place(state, one, int(snapshot.pods.nominated[one]))
        rows = np.flatnonzero(priority[pods] == value)
        more, short = np.zeros((len(rows), masks.shape[1]), np.int64), np.zeros((len(rows), *lacking.shape[1:]), bool)
        explain(state, pods[rows], more, short, 0)
        masks[rows] |= more
        lacking[rows] |= short
        revert(state, start)


def chosen_pods(snapshot: Snapshot, keys: Sequence[str]) -> Int32:
    """Return the pods given as "namespace/name", each once, or all non-terminal pods without node; ascending."""
    pods = snapshot.pods
    if not keys:
        waiting = (pods.node == NO_NODE) & ~np.isin(pods.phase, _TERMINAL)
        return np.flatnonzero(waiting).astype(np.int32)
    rows, found = find_pods(snapshot, keys)
    for i in np.flatnonzero(~found).tolist():
        raise RequestError(f"fit_pods[{i}]", f'the snapshot has no pod {keys[i]!r}; write it as "namespace/name"')
    return np.unique(rows).astype(np.int32)


def _node_fits(
    nodes: Sequence[str], masks: Int64, lacking: Bool, resources: Sequence[str]
) -> list[planner_pb2.NodeFit]:
    reasons: dict[int, Any] = {mask: reasons_of(mask) for mask in np.unique(masks).tolist()}
    fits = []
    for node, (name, mask) in enumerate(zip(nodes, masks.tolist(), strict=True)):
        fit = planner_pb2.NodeFit(node=name, fits=mask == 0, reasons=reasons[mask])
        if mask & _LACKS:
            short = [resources[r] for r in np.flatnonzero(lacking[node]).tolist() if r != POD_ROOM]
            fit.insufficient.extend(name for name in short if not is_device_resource(name))
        fits.append(fit)
    return fits
