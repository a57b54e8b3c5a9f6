"""Whether a round would find a cluster full: no pod waits, and every node has too high a utilization to be removed,
except for nodes that wait for a timer because they are empty or their last simulation has failed.

Such a round orders nothing and has the same state as the last one, regardless of the pods on used nodes, so a
simulation skips it. Decides from the settings and the last answer when utilization alone shows this; in doubt, a round
is made.
"""

from collections.abc import Iterator
from typing import Final, TypeAlias

from trimtab.clients.loop.rounds import RoundResult
from trimtab.clients.verdicts import going, staying
from trimtab.v1 import plan_pb2, reason_pb2

MARGIN: Final = 0.01
"""Margin above the threshold, because requests are rounded in more than one way."""
_THRESHOLD: Final = 0.5
_USED: Final = reason_pb2.UnremovableReason.NOT_UNDERUTILIZED
_FAILED: Final = reason_pb2.UnremovableReason.RECENTLY_UNREMOVABLE
_NOTHING_FOUND: Final = (
    reason_pb2.ScaleDownResult.SCALE_DOWN_NO_CANDIDATES,
    reason_pb2.ScaleDownResult.SCALE_DOWN_IN_COOLDOWN,
    reason_pb2.ScaleDownResult.SCALE_DOWN_NO_NODE_DELETED,
)
_Thresholds: TypeAlias = plan_pb2.ScaleDownSettings | plan_pb2.NodeGroupSettings
_DECISIONS: Final = {plan_pb2.Decision.SCALE_UP, plan_pb2.Decision.SCALE_DOWN}


class FullCluster:
    """Conclusions from the last round for the next one."""

    def __init__(self) -> None:
        self._least_use: float | None = None
        self._waiting: frozenset[str] = frozenset()

    @property
    def waiting(self) -> frozenset[str]:
        """Return the nodes that wait for a timer, by name; the others are in use."""
        return self._waiting

    def add(self, done: RoundResult) -> None:
        """Record a round."""
        is_full = _was_full(done)
        self._least_use = _threshold(done.request.settings) if is_full else None
        self._waiting = frozenset(_waiting(done.answer)) if is_full else frozenset()

    def lasts(self, least_use: float) -> bool:
        """Return whether a round would have the same result as the last one, judging by the existing nodes.

        least_use : share of the least utilized node, 0 = not known; waiting nodes do not count, and none of their pods
        may have changed
        """
        return self._least_use is not None and least_use > self._least_use + MARGIN


def _was_full(done: RoundResult) -> bool:
    """Return whether a round found every node in use or waiting, and its state contains only timers."""
    found = done.answer.scale_down
    return (
        {plan_pb2.Decision.SCALE_DOWN} <= set(done.request.decisions) <= _DECISIONS
        and found.result in _NOTHING_FOUND
        and not done.answer.state.scale_up.opaque
        and not found.places.pods
        and all(one.reason in (_USED, _FAILED) for one in staying(done.answer))
    )


def _waiting(answer: plan_pb2.PlanResponse) -> Iterator[str]:
    """Yield the empty nodes, and those not yet to be simulated again."""
    yield from (one.node for one in going(answer))
    yield from (one.node for one in staying(answer) if one.reason == _FAILED)


def _threshold(settings: plan_pb2.PlanSettings) -> float | None:
    """Return the largest threshold below which a node may go; None if pods on a node may not count for
    its utilization.
    """
    if settings.planner.expendable_pods_priority_cutoff > 0 or settings.scale_down.ignore_mirror_pods_utilization:
        return None
    every: list[_Thresholds] = [settings.scale_down, *settings.node_groups.values()]
    if any(one.ignore_daemonsets_utilization for one in every):
        return None
    return max((_THRESHOLD, *(value for one in every for value in _thresholds(one))))


def _thresholds(settings: _Thresholds) -> Iterator[float]:
    yield settings.utilization_threshold
    yield settings.gpu_utilization_threshold
