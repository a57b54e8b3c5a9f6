"""Permission checks before the first request: one error then names all missing permissions."""

from collections.abc import Iterable

import msgspec
import structlog

from trimtab.common.kubernetes.api import JSON_TIMEOUT_S, Api, json_object
from trimtab.common.kubernetes.connection import ApiRequest
from trimtab.common.kubernetes.errors import ApiError, MissingPermissionError
from trimtab.common.kubernetes.registry import BY_KIND, PermissionRule

log = structlog.get_logger("permissions")

_REVIEW = BY_KIND["SelfSubjectAccessReview"]


def require(api: Api, rules: Iterable[PermissionRule]) -> None:
    """Check for each verb whether it is allowed.

    Raises MissingPermissionError with the missing RBAC rules; UnreachableError, ApiError. If the review itself is
    forbidden, everything counts as allowed: the requests themselves will fail.
    """
    missing: list[PermissionRule] = []
    for rule in rules:
        refused = tuple(verb for verb in rule.verbs if not _allowed(api, rule, verb))
        if refused:
            missing.append(rule._replace(verbs=refused))
    if missing:
        raise MissingPermissionError(rules_yaml(missing))


def rules_yaml(rules: Iterable[PermissionRule]) -> str:
    """Return rules in the form of a Role or ClusterRole, one per line."""
    lines = []
    for rule in rules:
        where = f"  # Role in namespace {rule.namespace}" if rule.namespace else ""
        verbs = ", ".join(rule.verbs)
        named = f", resourceNames: [{rule.name}]" if rule.name else ""
        lines.append(f'- {{apiGroups: ["{rule.group}"], resources: [{rule.resource}]{named}, verbs: [{verbs}]}}{where}')
    return "\n".join(lines)


def _allowed(api: Api, rule: PermissionRule, verb: str) -> bool:
    resource, _, subresource = rule.resource.partition("/")
    attributes = {"group": rule.group, "resource": resource, "verb": verb}
    attributes |= {"subresource": subresource} if subresource else {}
    attributes |= {"namespace": rule.namespace} if rule.namespace else {}
    attributes |= {"name": rule.name} if rule.name else {}
    review = _REVIEW.type_meta | {"spec": {"resourceAttributes": attributes}}
    request = ApiRequest("POST", _REVIEW.path, body=msgspec.json.encode(review), read_timeout_s=JSON_TIMEOUT_S)
    try:
        answer = json_object(request, api.read_with_retries(request))
    except ApiError as error:
        if error.is_transient:
            raise
        log.warning("permissions_unknown", error=str(error))
        return True
    return bool((answer.get("status") or {}).get("allowed"))
