"""Which pods may be moved at all, and what their disruption budgets allow.

Source: Kubernetes eviction subresource and policy/v1; Cluster Autoscaler's rules for draining, as documented.
"""

from collections import Counter
from collections.abc import Iterable

from tests.certificates.cluster import DAEMON, MIRROR, OTHER_KIND, OTHER_STATEFUL_SET, READY, Cluster, Pod
from tests.certificates.scheduling import selects
from trimtab.v1 import plan_pb2
from trimtab.v1 import snapshot_pb2 as pb

KNOWN_KINDS = {"ReplicationController", "ReplicaSet", "StatefulSet", "Job"}


def goes_with_its_node(pod: Pod, now_s: int, cutoff: int) -> bool:
    """Return whether a pod needs no place when its node goes."""
    grace = pod.spec.termination_grace_period.seconds if pod.spec.HasField("termination_grace_period") else 30
    overdue = pod.deletion_s > 0 and pod.deletion_s + grace + 30 < now_s
    return bool(pod.flags & (MIRROR | DAEMON)) or pod.ended or overdue or pod.spec.priority < cutoff


def waits_for_completion(pod: Pod) -> bool:
    return pod.spec.safe_to_evict == pb.SafeToEvict.ON_COMPLETION


def blocks(cluster: Cluster, pod: Pod, settings: plan_pb2.ScaleDownSettings, now_s: int) -> str:
    """Return why a pod must not be moved although its node is removed, "" = it may be. Ignores budgets."""
    asks_no_budget = pod.deletion_s or pod.ended or pod.phase == pb.PodPhase.PENDING
    if len(budgets_of(cluster, pod)) > 1 and not asks_no_budget:
        return "several budgets match it"
    custom = _on(settings, "skip_nodes_with_custom_controller_pods")
    owner = cluster.owners.get(pod.owner)
    if pod.spec.safe_to_evict == pb.SafeToEvict.TRUE:
        return ""
    if custom and pod.owner and owner is None and not pod.flags & (OTHER_KIND | OTHER_STATEFUL_SET):
        return "its controller is not there"
    known = pod.flags & OTHER_STATEFUL_SET or (owner is not None and owner.kind in KNOWN_KINDS)
    if not pod.owner or (custom and not known):
        return "nothing creates it again"
    if _on(settings, "skip_nodes_with_system_pods") and pod.namespace == "kube-system" and not budgets_of(cluster, pod):
        timeout = settings.blocking_system_pod_disruption_timeout.seconds or 3600
        return "" if now_s - pod.created_s > timeout else "a young system pod"
    if pod.spec.safe_to_evict == pb.SafeToEvict.FALSE:
        return "it is not safe to evict"
    if _on(settings, "skip_nodes_with_local_storage") and pod.spec.local_storage:
        return "it uses local storage"
    return ""


def _on(settings: plan_pb2.ScaleDownSettings, name: str) -> bool:
    return bool(getattr(settings, name)) if settings.HasField(name) else True  # type: ignore[arg-type]


def budgets_of(cluster: Cluster, pod: Pod) -> list[pb.PodDisruptionBudget]:
    return [
        budget
        for budget in cluster.message.pod_disruption_budgets
        if budget.namespace == pod.namespace
        and budget.HasField("selector")
        and selects(cluster, budget.selector, pod.labels)
    ]


def allowed(budget: pb.PodDisruptionBudget) -> int:
    status = budget.status
    return status.disruptions_allowed if budget.HasField("status") and status.observed else 0


def allowed_healthy(budget: pb.PodDisruptionBudget) -> int:
    """Return what a budget allows once all its pods are healthy."""
    status = budget.status
    return max(allowed(budget), status.expected_pods - status.desired_healthy if status.observed else 0)


def disrupts(budget: pb.PodDisruptionBudget, pod: Pod) -> bool:
    """Return whether evicting the pod uses one of the budget's disruptions."""
    if pod.deletion_s or pod.ended or pod.phase == pb.PodPhase.PENDING or pod.name in budget.status.disrupted_pods:
        return False
    if pod.flags & READY:
        return True
    status = budget.status
    healthy = allowed(budget) >= 0 and status.observed and 0 < status.desired_healthy <= status.current_healthy
    return not (budget.always_allow_unhealthy or healthy)


def needed(count: int, most: int) -> int:
    """Return how many disruptions so many pods of one node need of a budget that allows so many at most at once."""
    return min(count, most) if most else count


def overdrawn(cluster: Cluster, first: Iterable[Pod], then: Iterable[Pod], *, in_turn: bool) -> list[str]:
    """Return the budgets that the pods of a plan (`then`) exceed after those of deletions in progress (`first`).

    A node with more pods than a budget ever allows at once needs all of it: they are evicted serially. in_turn: one
    node may have more pods than disruptions are left if all other nodes leave one disruption for it.
    """
    problems = []
    first, then = list(first), list(then)
    for budget in cluster.message.pod_disruption_budgets:
        used = Counter(pod.node for pod in then if budget in budgets_of(cluster, pod) and disrupts(budget, pod))
        spent = sum(disrupts(budget, pod) for pod in first if budget in budgets_of(cluster, pod))
        left = max(allowed(budget) - spent, 0)
        total = sum(needed(count, allowed_healthy(budget)) for count in used.values())
        others = sum(used.values()) - max(used.values(), default=0)
        if total > left and not (in_turn and others <= left - 1):
            problems.append(f"budget {budget.namespace}/{budget.name}: {total} disruptions of {left}")
    return problems


def overdrawn_later(cluster: Cluster, pods: Iterable[Pod]) -> list[str]:
    """Return the budgets that the pods of a later wave exceed although the pods evicted before run again."""
    problems, pods = [], list(pods)
    for budget in cluster.message.pod_disruption_budgets:
        by_node = Counter(pod.node for pod in pods if budget in budgets_of(cluster, pod) and disrupts(budget, pod))
        used = sum(needed(count, allowed_healthy(budget)) for count in by_node.values())
        if used > allowed_healthy(budget):
            problems.append(f"budget {budget.namespace}/{budget.name}: {used} of {allowed_healthy(budget)} in a wave")
    return problems
