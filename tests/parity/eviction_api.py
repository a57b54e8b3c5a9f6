"""Nodes of a document that can never be drained by the eviction API, or not at once: upstream plans them anyway.

A pod under two budgets is answered 500; one under a budget that allows nothing, or whose status is outdated, 429 for
as long as that lasts. Source: Kubernetes, the eviction subresource.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

Object = dict[str, Any]


def refused(document: Object) -> set[str]:
    """Return the nodes with a pod that must move and that the API refuses to evict."""
    budgets = [item for item in document["items"] if item["kind"] == "PodDisruptionBudget"]
    pods = [item for item in document["items"] if item["kind"] == "Pod" and item["spec"].get("nodeName")]
    return {pod["spec"]["nodeName"] for pod in pods if _asks(pod) and _is_refused(pod, budgets)}


def exceeds_a_budget(document: Object, nodes: Collection[str]) -> bool:
    """Return whether pods on nodes that go are more than some budget allows to be evicted at once."""
    pods = [item for item in document["items"] if item["kind"] == "Pod" and item["spec"].get("nodeName") in nodes]
    evicted = [pod for pod in pods if _asks(pod)]
    budgets = [item for item in document["items"] if item["kind"] == "PodDisruptionBudget"]
    return any(
        sum(_matches(budget, pod) for pod in evicted) > budget.get("status", {}).get("disruptionsAllowed", 0)
        for budget in budgets
    )


def _asks(pod: Object) -> bool:
    """Return whether the pod has to be evicted, subject to budgets."""
    meta = pod["metadata"]
    kinds = {owner["kind"] for owner in meta.get("ownerReferences", ())}
    mirror = "kubernetes.io/config.mirror" in meta.get("annotations", {})
    going = "deletionTimestamp" in meta or pod["status"].get("phase") in {"Succeeded", "Failed", "Pending"}
    return not (mirror or going or kinds & {"DaemonSet", "Node"})


def _is_refused(pod: Object, budgets: list[Object]) -> bool:
    mine = [budget for budget in budgets if _matches(budget, pod)]
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", ()))
    return len(mine) > 1 or (ready and any(_allows_nothing(budget) for budget in mine))


def _allows_nothing(budget: Object) -> bool:
    status = budget.get("status", {})
    outdated = budget["metadata"].get("generation", 0) > status.get("observedGeneration", 0)
    return outdated or status.get("disruptionsAllowed", 0) < 1


def _matches(budget: Object, pod: Object) -> bool:
    if budget["metadata"]["namespace"] != pod["metadata"]["namespace"]:
        return False
    selector, labels = budget["spec"].get("selector", {}), pod["metadata"].get("labels", {})
    same = all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items())
    return same and all(labels.get(one["key"]) in one["values"] for one in selector.get("matchExpressions", ()))
