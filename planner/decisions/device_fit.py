"""What the allocator says where a pod's claims decide whether it fits: which request gets no device of which pool, and
why. Also decides claims that plans do not count, and those of which plans count less than the scheduler may give,
because other claims compete. O(nodes) of the pods concerned, some tens of microseconds each.
"""

from functools import cached_property
from typing import Final

import numpy as np

from trimtab.planner.device_amounts.cluster_allocator import ClusterAllocator, refusals_of
from trimtab.planner.device_amounts.shared_claims import OwnSpecs, with_own_claims
from trimtab.planner.devices.model import AllocationOutcome, DeviceError, DeviceRefusal, RefusalKind
from trimtab.planner.snapshot.columns import Int64, Snapshot
from trimtab.v1 import planner_pb2
from trimtab.v1.reason_pb2 import DeviceReason, PredicateReason

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
        problems = [one for one in self._own.specs[self._own.spec[pod]].claims if one.problem]
        if problems:
            texts = [planner_pb2.DeviceRefusal(claim=one.name, detail=one.problem) for one in problems]
            return dict.fromkeys(range(len(masks)), texts)
        # What is wrong with some device concerns only searches that come to it.
        is_counted = not (masks & (_UNSUPPORTED | _UNUSABLE)).any()
        nodes = np.flatnonzero(masks & _LACKING).tolist() if is_counted else range(len(masks))
        found = {}
        for node, outcome in self._allocator.outcomes(pod, nodes).items():
            if is_counted and not refusals_of(outcome) and self._allocator.is_settled(node):
                # Shares of claims that compete bound what fits in any order; the devices in use have come in one.
                masks[node] &= ~_LACKING
            if not is_counted:
                masks[node] &= ~(_UNSUPPORTED | _UNUSABLE)
                masks[node] |= _bit_of(outcome) | (_UNSUPPORTED if spec.unsupported else 0)
            refusals = _refusals(outcome)
            if refusals:
                found[node] = refusals
        return found


def _bit_of(outcome: AllocationOutcome) -> int:
    refused = refusals_of(outcome)
    if isinstance(refused, DeviceError):
        return _UNUSABLE
    return _LACKING if refused else 0


def _refusals(outcome: AllocationOutcome) -> list[planner_pb2.DeviceRefusal]:
    refused = refusals_of(outcome)
    if isinstance(refused, DeviceError):
        return [planner_pb2.DeviceRefusal(reason=DeviceReason.INVALID_REQUEST, detail=refused.in_words)]
    return [_refusal(one) for one in refused]


def _refusal(one: DeviceRefusal) -> planner_pb2.DeviceRefusal:
    return planner_pb2.DeviceRefusal(
        claim=one.claim,
        request=one.request,
        driver=one.pool.driver if one.pool is not None else "",
        pool=one.pool.pool if one.pool is not None else "",
        reason=_REASONS[one.kind],
        detail=one.detail,
    )
