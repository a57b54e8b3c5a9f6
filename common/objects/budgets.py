"""PodDisruptionBudgets as rows. The numbers are the disruption controller's.

Source: policy/v1 (a missing selector matches nothing, an empty one everything; v1beta1: both nothing), registry
core/pod eviction (a status of an older generation allows no disruption), policy validation (one of minAvailable and
maxUnavailable, a number of at least 0 or a percentage).
"""

import re

from trimtab.common.kubernetes.kinds.metadata import ObjectMeta
from trimtab.common.kubernetes.kinds.policies import (
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
)
from trimtab.common.kubernetes.object_errors import FieldError, below
from trimtab.common.kubernetes.selectors import label_selector
from trimtab.common.objects.dictionary import Dictionary
from trimtab.v1 import snapshot_pb2 as pb

_LIMIT = re.compile(r"[0-9]{1,10}%?")
_POLICIES = (None, "IfHealthyBudget", "AlwaysAllow")


def budget_row(budget: PodDisruptionBudget, dictionary: Dictionary) -> pb.PodDisruptionBudget:
    """Return the row of a budget. Errors: FieldError with the path below the object."""
    meta, spec = budget.metadata or ObjectMeta(), budget.spec or PodDisruptionBudgetSpec()
    with below("spec.selector"):
        requirements = label_selector(spec.selector)
    if requirements == () and budget.api_version == "policy/v1beta1":
        requirements = None
    if spec.unhealthy_pod_eviction_policy not in _POLICIES:
        policy = spec.unhealthy_pod_eviction_policy
        raise FieldError(
            "spec.unhealthyPodEvictionPolicy", f"{policy!r} is unknown", "use IfHealthyBudget or AlwaysAllow"
        )
    if spec.min_available is not None and spec.max_unavailable is not None:
        raise FieldError("spec.maxUnavailable", "minAvailable is given too", "give one of the two")
    return pb.PodDisruptionBudget(
        namespace=meta.namespace or "default",
        name=meta.name or "",
        selector=dictionary.selector(requirements),
        status=_status(budget.status, meta.generation or 0),
        always_allow_unhealthy=spec.unhealthy_pod_eviction_policy == "AlwaysAllow",
        min_available=_limit("minAvailable", spec.min_available),
        max_unavailable=_limit("maxUnavailable", spec.max_unavailable),
    )


def _limit(field: str, value: int | str | None) -> str:
    """Return a number of pods or a share of them as text; "" for none."""
    if value is None:
        return ""
    if not _LIMIT.fullmatch(str(value)):
        raise FieldError(
            f"spec.{field}", f"{value!r} is neither a number of pods nor a percentage", 'give 1 or "50%", for example'
        )
    return str(value)


def _status(status: PodDisruptionBudgetStatus | None, generation: int) -> pb.PodDisruptionBudgetStatus | None:
    if status is None or status.disruptions_allowed is None:
        return None
    return pb.PodDisruptionBudgetStatus(
        disruptions_allowed=_count("disruptionsAllowed", status.disruptions_allowed),
        current_healthy=_count("currentHealthy", status.current_healthy),
        desired_healthy=_count("desiredHealthy", status.desired_healthy),
        expected_pods=_count("expectedPods", status.expected_pods),
        observed=(status.observed_generation or 0) >= generation,
        disrupted_pods=sorted(status.disrupted_pods or ()),
        sync_error=_sync_error(status),
    )


def _sync_error(status: PodDisruptionBudgetStatus) -> str:
    """Return why the controller cannot count the pods, "" = it can. Source: Kubernetes, disruption, failSafe."""
    for condition in status.conditions or ():
        if condition.type == "DisruptionAllowed" and condition.status == "False" and condition.reason == "SyncFailed":
            return condition.message or condition.reason
    return ""


def _count(field: str, value: int | None) -> int:
    if value is not None and not 0 <= value < 2**31:
        raise FieldError(f"status.{field}", f"{value} is out of range", "give a number of at least 0")
    return value or 0
