"""The registry of kinds: what follows from its rows is complete, and nothing else lists kinds."""

import re
from pathlib import Path

import msgspec
import pytest

from trimtab.common.kubernetes.encodings import PROTOBUF
from trimtab.common.kubernetes.registry import (
    BY_KIND,
    EXPORTED_KINDS,
    RESOURCES,
    STRUCTS,
    WATCHED,
    PermissionRule,
    Resource,
    User,
    rules_of,
)
from trimtab.common.objects import decode_objects

ROOT = Path(__file__).parents[4]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))


def test_a_kind_is_listed_once() -> None:
    assert len(BY_KIND) == len(RESOURCES)


@pytest.mark.parametrize("row", WATCHED.values(), ids=WATCHED)
def test_what_a_snapshot_is_made_of_is_read_from_files_and_as_the_server_sends_it(row: Resource) -> None:
    assert row.struct is STRUCTS[row.kind]
    assert (row.encoding is PROTOBUF) == (row.kind == "Pod")
    for version in row.api_versions:
        item = {"apiVersion": version, "kind": row.kind, "metadata": {"name": "a", "namespace": "b"}}
        objects = decode_objects([item])
        assert objects.of(row.kind) == [msgspec.convert(item, STRUCTS[row.kind])]
        assert not objects.notes


@pytest.mark.parametrize("user", User)
def test_each_user_needs_something_and_no_verb_twice(user: User) -> None:
    rules = rules_of(user, "here", "mine")
    verbs = [(rule.group, rule.resource, verb) for rule in rules for verb in rule.verbs]
    assert verbs
    assert len(set(verbs)) == len(verbs)


def test_rules_are_limited_to_a_namespace_and_to_the_own_object() -> None:
    assert rules_of(User.KWOK, "here", "mine") == (
        PermissionRule("", "nodes", ("create",)),
        PermissionRule("", "configmaps", ("create",), "here"),
        PermissionRule("", "configmaps", ("get", "update"), "here", "mine"),
    )


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (BY_KIND["Node"].path_of("n1"), "/api/v1/nodes/n1"),
        (BY_KIND["Pod"].path_in("a", "b", "eviction"), "/api/v1/namespaces/a/pods/b/eviction"),
        (BY_KIND["StorageClass"].path, "/apis/storage.k8s.io/v1/storageclasses"),
    ],
)
def test_a_path_names_group_version_and_collection(path: str, expected: str) -> None:
    assert path == expected


def test_every_page_asks_kubectl_for_all_that_a_snapshot_is_made_of() -> None:
    named = [
        words for page in PAGES for words in re.findall(r"kubectl get (nodes,\S*priorityclasses\S*)", page.read_text())
    ]
    assert len(named) >= 2
    assert set(named) == {EXPORTED_KINDS}
