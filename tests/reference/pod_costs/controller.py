"""Which pods the real ReplicaSet controller deletes, restated from its source.

Source: Kubernetes, pkg/controller/controller_utils.go, ActivePodsWithRanks.Less, and pkg/controller/replicaset,
getPodsRankedByRelatedPodsOnSameNode and getPodsToDelete, v1.36: gates PodDeletionCost and LogarithmicScaleDown are on.
"""

import math
from collections import Counter
from collections.abc import Sequence
from functools import cmp_to_key
from typing import NamedTuple

PHASES = {"Pending": 0, "": 1, "Unknown": 1, "Running": 2}


class ControlledPod(NamedTuple):
    """The compared fields. Times are seconds, 0 = unknown; cost is the annotation."""

    name: str
    node: str = "n"
    phase: str = "Running"
    ready: bool = True
    cost: int = 0
    ready_since_s: int = 0
    restarts: int = 0
    created_s: int = 0
    uid: str = ""


def less(one: ControlledPod, other: ControlledPod, ranks: Counter[str], now_s: int) -> int:  # noqa: PLR0911
    """Compare as the controller does: negative = `one` is deleted first."""
    # 1. Unassigned before assigned.
    if one.node != other.node and (not one.node or not other.node):
        return -1 if not one.node else 1
    # 2. Pending before unknown before running.
    if PHASES[one.phase] != PHASES[other.phase]:
        return PHASES[one.phase] - PHASES[other.phase]
    # 3. Not ready before ready.
    if one.ready != other.ready:
        return 1 if one.ready else -1
    # 4. Lower pod-deletion-cost first.
    if one.cost != other.cost:
        return one.cost - other.cost
    # 5. Doubled up before not doubled up.
    if ranks[one.node] != ranks[other.node]:
        return ranks[other.node] - ranks[one.node]
    # 6. Ready for a shorter time first, by the logarithm of the time.
    if one.ready and one.ready_since_s != other.ready_since_s:
        rounded = [_rounded(now_s, pod.ready_since_s) for pod in (one, other)]
        if rounded[0] != rounded[1]:
            return -1 if rounded[0] < rounded[1] else 1
        return -1 if one.uid < other.uid else 1
    # 7. More restarts first.
    if one.restarts != other.restarts:
        return other.restarts - one.restarts
    # 8. Created later first, by the logarithm of the age.
    if one.created_s != other.created_s:
        rounded = [_rounded(now_s, pod.created_s) for pod in (one, other)]
        if rounded[0] != rounded[1]:
            return -1 if rounded[0] < rounded[1] else 1
        return -1 if one.uid < other.uid else 1
    return 0


def deleted(pods: Sequence[ControlledPod], count: int, now_s: int) -> list[str]:
    """Return the names of the `count` pods that a controller deletes, in its order."""
    ranks = Counter(pod.node for pod in pods)
    ordered = sorted(pods, key=cmp_to_key(lambda one, other: less(one, other, ranks, now_s)))
    return [pod.name for pod in ordered[:count]]


def _rounded(now_s: int, since_s: int) -> int:
    """Return the integer logarithm of an age, -1 below a second; an unknown time counts as the longest age."""
    if not since_s:
        return 1 << 60
    age_s = now_s - since_s
    return -1 if age_s <= 0 else int(math.log2(age_s * 1e9))
