"""Rights that roles grant to accounts, and requests that an API server has recorded, as values that can be compared.

Source: https://kubernetes.io/docs/tasks/debug/debug-cluster/audit/ (the log), RBAC's rules.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

Json = dict[str, Any]
_REVIEWS = "authorization.k8s.io"
"""Reviews of one's own rights are granted to every account by Kubernetes itself."""


class Request(NamedTuple):
    """A request to the API server."""

    group: str
    resource: str
    verb: str
    namespace: str
    name: str


class Grant(NamedTuple):
    """One verb on one resource, in a namespace ("" = all), of one object ("" = any)."""

    group: str
    resource: str
    verb: str
    namespace: str = ""
    name: str = ""

    def allows(self, one: Request) -> bool:
        """Whether a request is one of this kind."""
        is_same = (self.group, self.resource, self.verb) == (one.group, one.resource, one.verb)
        return is_same and self.namespace in ("", one.namespace) and self.name in ("", one.name)


def account(subject: Json) -> str:
    """The user that a ServiceAccount is to the API server."""
    return f"system:serviceaccount:{subject['namespace']}:{subject['name']}"


def grants_by_account(objects: Sequence[Json]) -> dict[str, set[Grant]]:
    """What bindings give to each account, by way of their roles."""
    roles = {(item["kind"], item["metadata"]["name"]): item for item in objects if item["kind"].endswith("Role")}
    found: dict[str, set[Grant]] = {}
    for binding in (item for item in objects if item["kind"].endswith("Binding") and "roleRef" in item):
        role = roles[binding["roleRef"]["kind"], binding["roleRef"]["name"]]
        granted = set(_grants(role["rules"], role["metadata"].get("namespace", "")))
        for subject in binding["subjects"]:
            found.setdefault(account(subject), set()).update(granted)
    return found


def _grants(rules: Iterable[Json], namespace: str) -> Iterable[Grant]:
    return (
        Grant(group, resource, verb, namespace, name)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    )


def requests_of(log: Path, user: str) -> tuple[set[Request], set[Request]]:
    """Requests for objects that a user made, and those of them that were forbidden."""
    made: set[Request] = set()
    forbidden: set[Request] = set()
    for line in log.read_text().splitlines() if log.exists() else ():
        event = json.loads(line) if line.endswith("}") else {}
        target = event.get("objectRef") or {}
        if event.get("user", {}).get("username") != user or target.get("apiGroup") == _REVIEWS or not target:
            continue
        code = event.get("responseStatus", {}).get("code")
        for one in _meant(event["verb"], target, code):
            made.add(one)
            if code == 403:
                forbidden.add(one)
    return made, forbidden


def _meant(verb: str, target: Json, code: int | None) -> list[Request]:
    resource = "/".join(part for part in (target["resource"], target.get("subresource", "")) if part)
    place = (target.get("apiGroup", ""), resource)
    where = (target.get("namespace", ""), target.get("name", ""))
    verbs = [verb]
    if verb == "patch" and code == 201:
        # A server-side apply of an object that was not there: the API server asks for the right to create it as well.
        verbs.append("create")
    return [Request(*place, one, *where) for one in verbs]
