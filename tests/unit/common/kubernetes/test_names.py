"""Names of objects: what Kubernetes allows, and that no name leaves its segment of a path."""

from urllib.parse import unquote

import pytest
import urllib3
from hypothesis import given
from hypothesis import strategies as st

from trimtab.common.kubernetes.names import first_invalid, is_label, is_subdomain, object_at, object_path


@pytest.mark.parametrize(
    "name", ["n1", "ip-10-0-0-1.eu-1.compute.internal", "a", "0", "a" * 63, ".".join(["a" * 63] * 3)]
)
def test_names_that_nodes_have_are_allowed(name: str) -> None:
    assert is_subdomain(name)


@pytest.mark.parametrize(
    "name",
    [
        "", ".", "..", "a..b", "-a", "a-", "A", "a_b", "a/b", "a b", "a\n", "\x1b[2J", "ü", "a" * 254,
        "../namespaces/kube-system/secrets/token", "n1?watch=1", "n1%2f",
    ],
)  # fmt: skip
def test_names_that_no_object_can_have_are_not(name: str) -> None:
    assert not is_subdomain(name)
    assert not is_label(name)


@pytest.mark.parametrize("name", ["a.b", "a" * 64])
def test_a_namespace_has_the_name_of_a_label(name: str) -> None:
    assert is_subdomain(name)
    assert not is_label(name)


@given(st.text(min_size=1).filter(lambda word: word not in (".", "..")))
def test_a_word_stays_in_its_segment_whatever_it_is(word: str) -> None:
    path = object_path("/api/v1/nodes", word, "status")
    sent = urllib3.util.parse_url("http://server" + path).path
    assert sent == path
    assert [unquote(part) for part in path.split("/")] == ["", "api", "v1", "nodes", word, "status"]


@pytest.mark.parametrize("word", ["", ".", ".."])
def test_a_word_that_would_change_the_path_is_refused(word: str) -> None:
    with pytest.raises(ValueError, match="not the name of an object"):
        object_path("/api/v1/nodes", word)


@given(st.lists(st.text("a0.-\nA_é", max_size=6) | st.just("b" * 254)))
def test_names_checked_together_are_checked_as_one_by_one(names: list[str]) -> None:
    expected = next((index for index, name in enumerate(names) if not is_subdomain(name)), None)
    assert first_invalid(names) == expected


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/api/v1/nodes/n1", ("nodes", "n1")),
        ("/api/v1/nodes", ("nodes", "")),
        ("/api/v1/namespaces/shop", ("namespaces", "shop")),
        ("/api/v1/namespaces/shop/pods", ("pods", "")),
        ("/api/v1/namespaces/shop/pods/a/eviction", ("pods", "a")),
        ("/apis/trimtab.dev/v1/namespaces/shop/podgroupcosts/a%2Fb/status", ("podgroupcosts", "a/b")),
        ("/apis/apps/v1/deployments", ("deployments", "")),
        ("/version", ("", "")),
        ("", ("", "")),
    ],
)
def test_a_path_names_the_object_that_it_is_about(path: str, found: tuple[str, str]) -> None:
    assert object_at(path) == found
