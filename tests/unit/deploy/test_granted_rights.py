"""Comparing granted rights with an audit log: unused rights, missing rights, and creations by server-side apply."""

import json
from pathlib import Path
from typing import Any

from tests.e2e.granted_rights import Grant, Request, grants_by_account, requests_of

USER = "system:serviceaccount:ns:a"


def event(verb: str, resource: str, code: int = 200, user: str = USER, **target: str) -> dict[str, Any]:
    status = {"code": code}
    return {
        "verb": verb,
        "user": {"username": user},
        "objectRef": {"resource": resource, **target},
        "responseStatus": status,
    }


def log(path: Path, *events: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in events))
    return path


def test_bindings_give_an_account_what_their_roles_grant() -> None:
    rules = [{"apiGroups": [""], "resources": ["pods", "pods/eviction"], "verbs": ["get"], "resourceNames": ["p"]}]
    role = {"kind": "Role", "metadata": {"name": "r", "namespace": "ns"}, "rules": rules}
    subjects = [{"kind": "ServiceAccount", "name": "a", "namespace": "ns"}]
    binding = {"kind": "RoleBinding", "roleRef": {"kind": "Role", "name": "r"}, "subjects": subjects}
    assert grants_by_account([role, binding]) == {
        USER: {Grant("", "pods", "get", "ns", "p"), Grant("", "pods/eviction", "get", "ns", "p")}
    }


def test_a_grant_allows_only_its_own_verb_namespace_and_name() -> None:
    grant = Grant("", "configmaps", "get", "ns", "state")
    asked = Request("", "configmaps", "get", "ns", "state")
    assert grant.allows(asked)
    for field, other in (("verb", "patch"), ("namespace", "default"), ("name", "other"), ("resource", "secrets")):
        assert not grant.allows(asked._replace(**{field: other}))
    assert Grant("", "configmaps", "get").allows(asked)


def test_requests_are_read_from_the_log_with_those_that_were_forbidden(tmp_path: Path) -> None:
    path = log(
        tmp_path / "audit",
        event("create", "pods", 201, subresource="eviction", namespace="default", name="p"),
        event("patch", "configmaps", 201, namespace="ns", name="state"),
        event("list", "nodes", 403),
        event("list", "secrets", user="somebody else"),
        event("create", "selfsubjectaccessreviews", 201, apiGroup="authorization.k8s.io"),
    )
    made, forbidden = requests_of(path, USER)
    assert made == {
        Request("", "pods/eviction", "create", "default", "p"),
        Request("", "configmaps", "patch", "ns", "state"),
        Request("", "configmaps", "create", "ns", "state"),
        Request("", "nodes", "list", "", ""),
    }
    assert forbidden == {Request("", "nodes", "list", "", "")}
    assert requests_of(tmp_path / "absent", USER) == (set(), set())
