"""PodDisruptionBudgets as the disruption controller keeps them.

Decides how many pods of a budget may be disrupted now. Rounds percentages up. Never changes an object.
Source: Kubernetes, pkg/controller/disruption: `getExpectedPodCount`, `countHealthyPods`, `updatePdbStatus`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from actuator.cloud.memory.objects import Object
from actuator.cloud.memory.pods import Pod
from actuator.cloud.memory.selectors import matches

# Desired replicas of an owner by uid, None = unknown.
Scale = Callable[[str], int | None]


class BudgetStatus(NamedTuple):
    """Status of a budget, counts of pods."""

    disruptions_allowed: int
    current_healthy: int
    desired_healthy: int
    expected_pods: int


def covers(budget: Mapping[str, Any], pod: Pod) -> bool:
    """Whether a budget of the pod's namespace selects it."""
    return matches((budget.get("spec") or {}).get("selector"), pod.labels)


def budget_status(budget: Mapping[str, Any], pods: Iterable[Pod], scale: Scale) -> BudgetStatus:
    """Count. `pods` are those of the budget's namespace."""
    selected = [pod for pod in pods if covers(budget, pod) and not pod.terminal]
    spec = budget.get("spec") or {}
    expected, desired = _expected_and_desired(spec, selected, scale)
    healthy = sum(pod.ready and not pod.terminating for pod in selected)
    allowed = max(0, healthy - desired) if expected > 0 else 0
    return BudgetStatus(allowed, healthy, desired, expected)


def write_status(budget: Object, status: BudgetStatus) -> None:
    """Write the counts into the object."""
    budget["status"] = {
        **(budget.get("status") or {}),
        "disruptionsAllowed": status.disruptions_allowed,
        "currentHealthy": status.current_healthy,
        "desiredHealthy": status.desired_healthy,
        "expectedPods": status.expected_pods,
    }
    generation = budget["metadata"].get("generation")
    if generation is not None:
        budget["status"]["observedGeneration"] = generation


def _expected_and_desired(spec: Mapping[str, Any], selected: list[Pod], scale: Scale) -> tuple[int, int]:
    if spec.get("maxUnavailable") is not None:
        expected = _expected(selected, scale)
        return expected, max(0, expected - _scaled(spec["maxUnavailable"], expected))
    if spec.get("minAvailable") is not None:
        wanted = spec["minAvailable"]
        expected = _expected(selected, scale) if isinstance(wanted, str) else len(selected)
        return expected, _scaled(wanted, expected)
    return len(selected), 0


def _expected(selected: list[Pod], scale: Scale) -> int:
    """Replicas that the controllers of the selected pods want together; where one is unknown, its pods count."""
    counts: dict[str, int] = {}
    for pod in selected:
        owner = str(pod.owner.get("uid") or pod.uid)
        counts[owner] = counts.get(owner, 0) + 1
    total = 0
    for owner, count in counts.items():
        wanted = scale(owner)
        total += count if wanted is None else wanted
    return total


def _scaled(value: object, total: int) -> int:
    """An integer, or a percentage of the total, rounded up."""
    text = str(value)
    if text.endswith("%"):
        return -(-int(text[:-1]) * total // 100)
    return int(text)
