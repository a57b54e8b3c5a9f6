"""What the actuator must be allowed to do, asked before anything else, so that all that lacks is said at once.

Decides the rules: `deploy/` grants exactly these. Never acts.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import structlog

from actuator.kube.api import Api, Call
from actuator.kube.cluster import RefusedError

log = structlog.get_logger("permissions")


class Rule(NamedTuple):
    """Verbs on a resource. `namespace` "" = in all namespaces, or a resource that has none."""

    group: str
    resource: str
    verbs: tuple[str, ...]
    namespace: str = ""


class MissingPermissionError(RefusedError):
    """Verbs that the cluster forbids; `rules` is the YAML of what is missing."""

    def __init__(self, missing: Sequence[Rule]) -> None:
        self.rules = rules_yaml(missing)
        super().__init__(f"the cluster forbids what is needed; give this user a role with these rules:\n{self.rules}")


# What every actuator needs.
ACTUATOR = (
    Rule("", "nodes", ("get", "list", "patch", "delete")),
    Rule("", "pods", ("list",)),
    Rule("", "pods/eviction", ("create",)),
)


def lease_rules(namespace: str) -> tuple[Rule, ...]:
    """What leadership needs."""
    return (Rule("coordination.k8s.io", "leases", ("get", "create", "update"), namespace),)


def kwok_rules(namespace: str) -> tuple[Rule, ...]:
    """What the cloud `kwok` needs: it makes nodes, and keeps its books in a ConfigMap."""
    return (Rule("", "nodes", ("create",)), Rule("", "configmaps", ("get", "create", "update"), namespace))


def require(api: Api, rules: Iterable[Rule]) -> None:
    """Ask for each verb whether it is allowed. Raises `MissingPermissionError`, `ClusterError`."""
    missing: list[Rule] = []
    for rule in rules:
        refused = tuple(verb for verb in rule.verbs if not _allowed(api, rule, verb))
        if refused:
            missing.append(rule._replace(verbs=refused))
    if missing:
        raise MissingPermissionError(missing)


def rules_yaml(rules: Iterable[Rule]) -> str:
    """Rules as a Role or ClusterRole has them, one a line."""
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
    try:
        answer = api.json(Call("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body=review))
    except RefusedError as error:
        # A cluster that does not say is taken to allow: the calls themselves will tell.
        log.warning("permissions unknown", detail=str(error))
        return True
    return bool((answer.get("status") or {}).get("allowed"))
