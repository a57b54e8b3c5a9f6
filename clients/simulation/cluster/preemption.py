"""Which pods of a lower priority a pending pod takes the place of, and on which node, as kube-scheduler decides it.

On each node that a pod could ever have, the victims are the fewest pods of a lower priority without which it fits: all
are taken out, then as many as possible are put back, those first whose disruption budgets would be violated, within
these the important ones (higher priority, earlier start). Of the nodes, in this order of criteria: fewest violations of
budgets, lowest priority of the most important victim, smallest sum of priorities, fewest victims, latest start of the
earliest most important victim; then the first by name, where the scheduler takes any. Budgets are violated if nothing
else helps. Never victims: pods of DaemonSets and static pods. All nodes are examined, whereas kube-scheduler stops
after a tenth of a large cluster. Never changes a pod.
Source: Kubernetes, pkg/scheduler/framework/preemption (pickOneNodeForPreemption) and plugins/defaultpreemption
(SelectVictimsOnNode, filterPodsWithPDBViolation, PodEligibleToPreemptOthers).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from trimtab.clients.simulation.cluster.disruption import BudgetIndex
from trimtab.clients.simulation.cluster.node_info import NodeInfo
from trimtab.clients.simulation.cluster.pods import PodKey, SimulatedPod, parse_time_ms, priority_of

NOT_STARTED_MS: Final = 1 << 62
"""Start of a pod that has not started: later than any other."""
PRIORITY_OFFSET: Final = 1 << 31
"""Added to each priority of a sum, so that fewer victims are better with negative priorities too."""


class Candidate(NamedTuple):
    """A node with the pods that would have to go. victims : most important first; violations : how many of them have
    no disruption left in a budget.
    """

    node: NodeInfo
    victims: tuple[SimulatedPod, ...]
    violations: int


def possible_victims(info: NodeInfo, priority: int) -> list[SimulatedPod]:
    """Return the pods of a node that a pod of that priority may displace, most important first."""
    found = [
        pod
        for pod in info.pods.values()
        if not pod.terminal and not pod.stays_with_node and priority_of(pod) < priority
    ]
    return sorted(found, key=_importance)


def reprieved(
    pods: Sequence[SimulatedPod], budgets: BudgetIndex, put_back: Callable[[SimulatedPod], bool]
) -> tuple[tuple[SimulatedPod, ...], int]:
    """Return the victims, most important first, and how many violate a budget.

    pods : the possible victims, most important first, all of them taken out
    put_back : puts a pod back if the pending pod still fits then, and returns whether it did
    """
    violating, others = _by_violation(pods, budgets)
    violators = [pod for pod in violating if not put_back(pod)]
    rest = [pod for pod in others if not put_back(pod)]
    return tuple(sorted([*violators, *rest], key=_importance)), len(violators)


def best_candidate(candidates: Iterable[Candidate]) -> Candidate | None:
    """Return the node to preempt on, None = there is none."""
    return min(candidates, key=_rank, default=None)


def _rank(candidate: Candidate) -> tuple[int, int, int, int, int, str]:
    """Return the criteria in their order, smaller is better."""
    if not candidate.victims:
        return 0, -PRIORITY_OFFSET, 0, 0, 0, candidate.node.name
    priorities = [priority_of(pod) for pod in candidate.victims]
    highest = max(priorities)
    earliest = min(_start_ms(pod) for pod in candidate.victims if priority_of(pod) == highest)
    total = sum(priority + PRIORITY_OFFSET for priority in priorities)
    return candidate.violations, highest, total, len(candidate.victims), -earliest, candidate.node.name


def _by_violation(pods: Sequence[SimulatedPod], budgets: BudgetIndex) -> tuple[list[SimulatedPod], list[SimulatedPod]]:
    """Divide pods into those whose removal would violate a budget, after the ones before them, and the others."""
    left: dict[PodKey, int] = {}
    violating: list[SimulatedPod] = []
    others: list[SimulatedPod] = []
    for pod in pods:
        is_violating = False
        for key in _budgets_of(pod, budgets):
            left[key] = left.get(key, budgets.status(key).disruptions_allowed) - 1
            is_violating |= left[key] < 0
        (violating if is_violating else others).append(pod)
    return violating, others


def _budgets_of(pod: SimulatedPod, budgets: BudgetIndex) -> list[PodKey]:
    """Return the budgets that the scheduler counts: one with an empty selector is none for it."""
    return [key for key in budgets.of(pod) if any(_selector(budgets, key).values())]


def _selector(budgets: BudgetIndex, key: PodKey) -> Mapping[str, Any]:
    return (budgets.items[key].get("spec") or {}).get("selector") or {}


def _importance(pod: SimulatedPod) -> tuple[int, int, PodKey]:
    return -priority_of(pod), _start_ms(pod), pod.key


def _start_ms(pod: SimulatedPod) -> int:
    return parse_time_ms((pod.item.get("status") or {}).get("startTime")) or NOT_STARTED_MS
