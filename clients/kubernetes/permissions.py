"""Permission checks before the first request: one error then names all missing permissions.

Decides nothing: callers name the rules.
"""

from collections.abc import Iterable

import msgspec
import structlog

from trimtab.clients.kubernetes.api import JSON_TIMEOUT_S, Api, json_object
from trimtab.clients.kubernetes.connection import Request
from trimtab.clients.kubernetes.errors import ApiError, MissingPermissionError
from trimtab.clients.kubernetes.rules import Rule

log = structlog.get_logger("permissions")

_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def own_object(group: str, resource: str, verbs: tuple[str, ...], namespace: str, name: str) -> tuple[Rule, ...]:
    """Return the permissions to create an object and to use these verbs on that object only."""
    return (Rule(group, resource, ("create",), namespace), Rule(group, resource, verbs, namespace, name))


def lease_rules(namespace: str, name: str) -> tuple[Rule, ...]:
    """Return the permissions that leadership by a Lease of that name needs."""
    return own_object("coordination.k8s.io", "leases", ("get", "update"), namespace, name)


def require(api: Api, rules: Iterable[Rule]) -> None:
    """Check for each verb whether it is allowed.

    Errors: MissingPermissionError with the missing RBAC rules; UnreachableError, ApiError. If the review itself is
    forbidden, everything counts as allowed: the requests themselves will fail.
    """
    missing: list[Rule] = []
    for rule in rules:
        refused = tuple(verb for verb in rule.verbs if not _allowed(api, rule, verb))
        if refused:
            missing.append(rule._replace(verbs=refused))
    if missing:
        raise MissingPermissionError(rules_yaml(missing))


def rules_yaml(rules: Iterable[Rule]) -> str:
    """Return rules in the form of a Role or ClusterRole, one per line."""
    lines = []
    for rule in rules:
        where = f"  # Role in namespace {rule.namespace}" if rule.namespace else ""
        verbs = ", ".join(rule.verbs)
        named = f", resourceNames: [{rule.name}]" if rule.name else ""
        lines.append(f'- {{apiGroups: ["{rule.group}"], resources: [{rule.resource}]{named}, verbs: [{verbs}]}}{where}')
    return "\n".join(lines)


def _allowed(api: Api, rule: Rule, verb: str) -> bool:
    resource, _, subresource = rule.resource.partition("/")
    attributes = {"group": rule.group, "resource": resource, "verb": verb}
    attributes |= {"subresource": subresource} if subresource else {}
    attributes |= {"namespace": rule.namespace} if rule.namespace else {}
    attributes |= {"name": rule.name} if rule.name else {}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    request = Request("POST", _REVIEWS, body=msgspec.json.encode(review), read_timeout_s=JSON_TIMEOUT_S)
    try:
        answer = json_object(request, api.read_patiently(request))
    except ApiError as error:
        if error.may_pass:
            raise
        log.warning("permissions_unknown", error=str(error))
        return True
    return bool((answer.get("status") or {}).get("allowed"))
