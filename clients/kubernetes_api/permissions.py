"""What a user must be allowed to do, asked before anything else, so that all that lacks is said at once.

Decides nothing: callers name the rules.
"""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec
import structlog

from clients.kubernetes_api.api import JSON_TIMEOUT_S, Api, json_object
from clients.kubernetes_api.connection import Request
from clients.kubernetes_api.errors import ApiError, MissingPermissionError

log = structlog.get_logger("permissions")

_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class Rule(NamedTuple):
    """Verbs on a resource ("pods" or "pods/eviction"). `namespace` "" = in all, or a resource that has none."""

    group: str
    resource: str
    verbs: tuple[str, ...]
    namespace: str = ""


def lease_rule(namespace: str) -> Rule:
    """Return what leadership by a Lease needs."""
    return Rule("coordination.k8s.io", "leases", ("get", "create", "update"), namespace)


def require(api: Api, rules: Iterable[Rule]) -> None:
    """Ask for each verb whether it is allowed.

    Errors: MissingPermissionError with the RBAC rules that lack; UnreachableError, ApiError. A cluster that does not
    say (the review itself is forbidden) is taken to allow: the calls themselves will tell.
    """
    missing: list[Rule] = []
    for rule in rules:
        refused = tuple(verb for verb in rule.verbs if not _allowed(api, rule, verb))
        if refused:
            missing.append(rule._replace(verbs=refused))
    if missing:
        raise MissingPermissionError(rules_yaml(missing))


def rules_yaml(rules: Iterable[Rule]) -> str:
    """Return rules as a Role or ClusterRole has them, one a line."""
    lines = []
    for rule in rules:
        where = f"  # Role in namespace {rule.namespace}" if rule.namespace else ""
        verbs = ", ".join(rule.verbs)
        lines.append(f'- {{apiGroups: ["{rule.group}"], resources: [{rule.resource}], verbs: [{verbs}]}}{where}')
    return "\n".join(lines)


def _allowed(api: Api, rule: Rule, verb: str) -> bool:
    resource, _, subresource = rule.resource.partition("/")
    attributes = {"group": rule.group, "resource": resource, "verb": verb}
    attributes |= {"subresource": subresource} if subresource else {}
    attributes |= {"namespace": rule.namespace} if rule.namespace else {}
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
