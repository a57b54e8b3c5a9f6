"""PodDisruptionBudgets as the disruption controller maintains them.

Decides how many pods of a budget may be disrupted now. Rounds percentages up. Never changes an object.
Source: Kubernetes, pkg/controller/disruption: `getExpectedPodCount`, `countHealthyPods`, `updatePdbStatus`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from trimtab.clients.simulation.cluster.pods import PodKey, SimulatedPod
from trimtab.clients.simulation.cluster.tallies import BudgetTally
from trimtab.common.kubernetes.object_files import Object, ObjectFileError
from trimtab.common.kubernetes.selectors import selects

# Desired replicas of an owner by uid, None = unknown.
Scale = Callable[[str], int | None]


class BudgetStatus(NamedTuple):
    """Status of a budget, in pods. disruptions_allowed : that may be evicted now; current_healthy, desired_healthy :
    healthy ones, and how many there must be; expected_pods : all that the controllers want.
    """

    disruptions_allowed: int
    current_healthy: int
    desired_healthy: int
    expected_pods: int


def covers(budget: Mapping[str, Any], pod: SimulatedPod) -> bool:
    """Return whether a budget of the pod's namespace selects it."""
    return selects((budget.get("spec") or {}).get("selector"), pod.labels)


def budget_status(budget: Mapping[str, Any], pods: BudgetTally, scale: Scale) -> BudgetStatus:
    """Return the status of a budget. `pods` are those that it covers. O(their controllers)."""
    expected, desired = _expected_and_desired(budget.get("spec") or {}, pods, scale)
    allowed = max(0, pods.healthy - desired) if expected > 0 else 0
    return BudgetStatus(allowed, pods.healthy, desired, expected)


class BudgetIndex:
    """All budgets, the pods that each covers, and their status as long as none of these pods changes. Labels of pods
    and selectors of budgets do not change here, so a pod's budgets are found only once.
    """

    def __init__(self, scale: Scale) -> None:
        self._scale = scale
        self.items: dict[PodKey, Object] = {}
        self._members: dict[PodKey, BudgetTally] = {}
        self._status: dict[PodKey, BudgetStatus] = {}
        # Budgets by namespace and labels of the pods that they cover.
        self._of: dict[tuple[str, frozenset[tuple[str, str]]], list[PodKey]] = {}

    def put(self, item: Object, pods: Iterable[SimulatedPod]) -> None:
        """Add a budget; `pods` are the pods of its namespace."""
        key = item["metadata"].get("namespace") or "default", item["metadata"]["name"]
        self.items[key] = item
        self._of.clear()
        members = self._members[key] = BudgetTally()
        for pod in pods:
            if covers(item, pod):
                members.put(pod)
        self._status.pop(key, None)

    def of(self, pod: SimulatedPod) -> list[PodKey]:
        """Return the budgets that cover a pod."""
        known = pod.key[0], frozenset(pod.labels.items())
        found = self._of.get(known)
        if found is None:
            found = [key for key, item in self.items.items() if key[0] == pod.key[0] and covers(item, pod)]
            self._of[known] = found
        return found

    def pod_changed(self, pod: SimulatedPod) -> None:
        """Call when a pod is new or has changed."""
        for key in self.of(pod):
            self._members[key].put(pod)
            self._status.pop(key, None)

    def pod_gone(self, pod: SimulatedPod) -> None:
        """Call when a pod is gone."""
        for key in self.of(pod):
            self._members[key].drop(pod.key)
            self._status.pop(key, None)

    def status(self, key: PodKey) -> BudgetStatus:
        """Return the status of a budget. Raises ValueError if it is invalid."""
        found = self._status.get(key)
        if found is None:
            found = self._status[key] = budget_status(self.items[key], self._members[key], self._scale)
        return found

    def write_statuses(self) -> None:
        """Write every status into its object. Raises `ObjectFileError` naming the budget."""
        for key, item in self.items.items():
            try:
                write_status(item, self.status(key))
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                raise ObjectFileError(f"PodDisruptionBudget {key[0]}/{key[1]}: {error!r}") from error


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


def _expected_and_desired(spec: Mapping[str, Any], pods: BudgetTally, scale: Scale) -> tuple[int, int]:
    if spec.get("maxUnavailable") is not None:
        expected = _expected(pods, scale)
        return expected, max(0, expected - _scaled(spec["maxUnavailable"], expected))
    if spec.get("minAvailable") is not None:
        wanted = spec["minAvailable"]
        expected = _expected(pods, scale) if isinstance(wanted, str) else pods.selected
        return expected, _scaled(wanted, expected)
    return pods.selected, 0


def _expected(pods: BudgetTally, scale: Scale) -> int:
    """Return the sum of desired replicas of the selected pods' controllers; an unknown controller counts its pods."""
    total = 0
    for owner, count in pods.by_owner.items():
        wanted = scale(owner)
        total += count if wanted is None else wanted
    return total


def _scaled(value: object, total: int) -> int:
    """Return an integer, or a percentage of the total, rounded up."""
    text = str(value)
    if text.endswith("%"):
        return -(-int(text[:-1]) * total // 100)
    return int(text)
