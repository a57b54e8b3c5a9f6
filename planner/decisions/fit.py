"""CheckFit: for pods and all nodes, whether the pod fits, and every failing predicate. Decides which pods are checked:
those named, or all that wait for a node. A pod that is on a node is checked as if it were on none. Cost: O(pods *
nodes); answers are made for a few pods at a time. Raises RequestError.

Where a pod's claims decide, the allocator says which request gets no device of which pool, and why. It also decides
claims that plans do not count, and those of which plans count less than the scheduler may give, because other claims
compete. O(nodes) of the pods concerned, some tens of microseconds each.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np

from trimtab.planner.decisions.kernels.fit import explain
from trimtab.planner.decisions.requests import RequestError
from trimtab.planner.decisions.simulations import simulate
from trimtab.planner.device_amounts.cluster_allocator import ClusterAllocator, refusals_of
from trimtab.planner.device_amounts.shared_claims import OwnSpecs, with_own_claims
from trimtab.planner.devices.model import AllocationOutcome, DeviceError, RefusalKind
from trimtab.planner.model.values import is_device_resource
from trimtab.planner.predicates.order import reasons_of
from trimtab.planner.predicates.resources import POD_ROOM
from trimtab.planner.round.round import Work
from trimtab.planner.simulation.inputs import nominated_pods
from trimtab.planner.simulation.kernels import place, revert
from trimtab.planner.simulation.log import check_log, current_mark
from trimtab.planner.simulation.state import SimulationState
from trimtab.planner.snapshot.columns import NO_NODE, Bool, Int32, Int64, Snapshot
from trimtab.planner.snapshot.texts import find_pods
from trimtab.v1 import plan_pb2, planner_pb2, reason_pb2, snapshot_pb2
from trimtab.v1.reason_pb2 import DeviceReason, PredicateReason

_CELLS_AT_ONCE: Final = 1_000_000
_LACKS: Final = 1 << reason_pb2.PredicateReason.INSUFFICIENT_RESOURCES
_TERMINAL: Final = (snapshot_pb2.PodPhase.SUCCEEDED, snapshot_pb2.PodPhase.FAILED)
_LACKING: Final = 1 << PredicateReason.DEVICES_NOT_AVAILABLE
_UNUSABLE: Final = 1 << PredicateReason.CLAIM_UNUSABLE
_UNSUPPORTED: Final = 1 << PredicateReason.UNSUPPORTED_CONSTRAINT
_REASONS: Final = {
    RefusalKind.NO_POOL: DeviceReason.NO_MATCH,
    RefusalKind.INCOMPLETE_POOL: DeviceReason.POOL_INCOMPLETE,
    RefusalKind.INVALID_POOL: DeviceReason.POOL_INVALID,
    RefusalKind.IN_USE: DeviceReason.IN_USE,
    RefusalKind.SELECTOR: DeviceReason.NO_MATCH,
    RefusalKind.NODE: DeviceReason.NO_MATCH,
    RefusalKind.CAPACITY: DeviceReason.CAPACITY,
    RefusalKind.COUNTER: DeviceReason.COUNTERS,
    RefusalKind.TAINT: DeviceReason.TAINTED,
    RefusalKind.CONSTRAINT: DeviceReason.CONSTRAINT,
    RefusalKind.LIMIT: DeviceReason.TOO_MANY_DEVICES,
    RefusalKind.STEPS: DeviceReason.SEARCH_ENDED,
}


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
            decided = devices.decided(pod, masks[q]) if devices is not None else {}
            answers = _node_fits(nodes, masks[q], lacking[q], names)
            for node, refusals in decided.items():
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
        for other in nominated[priority[nominated] >= value].tolist():
            place(state, other, int(snapshot.pods.nominated[other]))
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
    rows, is_there = find_pods(snapshot, keys)
    for i in np.flatnonzero(~is_there).tolist():
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


class DeviceFit:
    """The allocator's part of answers. sent : the snapshot as it was sent."""

    def __init__(self, sent: Snapshot) -> None:
        self._sent = sent
        self._allocator: ClusterAllocator | None = None

    @cached_property
    def _own(self) -> OwnSpecs:
        return with_own_claims(self._sent, is_together=False)

    def decided(self, pod: int, masks: Int64) -> dict[int, list[planner_pb2.DeviceRefusal]]:
        """Correct the masks `1 << PredicateReason.Code` of a pod on each node : int64[N], in place, and return by node
        what stands in the way of its claims."""
        spec = self._sent.specs[self._sent.pods.spec[pod]]
        if not (spec.claims or spec.extended_device_requests):
            return {}
        if self._allocator is None:
            self._allocator = ClusterAllocator(self._sent)
        if not self._allocator.concerns(pod):
            return {}
        problems = [claim for claim in self._own.specs[self._own.spec[pod]].claims if claim.problem]
        if problems:
            texts = [planner_pb2.DeviceRefusal(claim=problem.name, detail=problem.problem) for problem in problems]
            return dict.fromkeys(range(len(masks)), texts)
        # What is wrong with some device concerns only searches that come to it.
        is_counted = not (masks & (_UNSUPPORTED | _UNUSABLE)).any()
        nodes = np.flatnonzero(masks & _LACKING).tolist() if is_counted else range(len(masks))
        refusals_of_node = {}
        for node, outcome in self._allocator.outcomes(pod, nodes).items():
            if is_counted and not refusals_of(outcome) and self._allocator.is_settled(node):
                # Plans count neither devices that the pod holds already nor those of more nodes than they look at.
                masks[node] &= ~_LACKING
            if not is_counted:
                masks[node] &= ~(_UNSUPPORTED | _UNUSABLE)
                masks[node] |= _bit_of(outcome) | (_UNSUPPORTED if spec.unsupported else 0)
            refusals = _refusals(outcome)
            if refusals:
                refusals_of_node[node] = refusals
        return refusals_of_node


def _bit_of(outcome: AllocationOutcome) -> int:
    refused = refusals_of(outcome)
    if isinstance(refused, DeviceError):
        return _UNUSABLE
    return _LACKING if refused else 0


def _refusals(outcome: AllocationOutcome) -> list[planner_pb2.DeviceRefusal]:
    refused = refusals_of(outcome)
    if isinstance(refused, DeviceError):
        return [planner_pb2.DeviceRefusal(reason=DeviceReason.INVALID_REQUEST, detail=refused.in_words)]
    return [
        planner_pb2.DeviceRefusal(
            claim=refusal.claim,
            request=refusal.request,
            driver=refusal.pool.driver if refusal.pool is not None else "",
            pool=refusal.pool.pool if refusal.pool is not None else "",
            reason=_REASONS[refusal.kind],
            detail=refusal.detail,
        )
        for refusal in refused
    ]
