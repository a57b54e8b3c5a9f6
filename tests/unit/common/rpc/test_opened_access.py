"""Policy file and token review as given by the options."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders.json_api import JsonApiServer
from trimtab.common.kubernetes.token_review import open_review
from trimtab.common.rpc.access import open_access

LOOP = "system:serviceaccount:trimtab:trimtab-loop"


@pytest.fixture
def server() -> Iterator[JsonApiServer]:
    with JsonApiServer() as running:
        yield running


def kubeconfig(directory: Path, server: JsonApiServer) -> Path:
    """Write a kubeconfig of the server; YAML is JSON too."""
    path = directory / "kubeconfig"
    address = f"http://127.0.0.1:{server._http.server_port}"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": address}}],
        "users": [{"name": "u", "user": {"token": "token"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }
    path.write_text(json.dumps(document))
    return path


def test_tokens_are_reviewed_by_the_cluster_of_the_kubeconfig(tmp_path: Path, server: JsonApiServer) -> None:
    access = open_access(None, "trimtab", kubeconfig(tmp_path, server), open_review)
    server.tokens["good"] = (LOOP, ["trimtab", "other"])
    assert access.knows_callers
    assert access.review is not None
    assert access.review("good") == (LOOP,)
    assert access.review("bad") == ()


def test_a_service_that_may_not_review_tokens_does_not_start(tmp_path: Path, server: JsonApiServer) -> None:
    server.forbidden.add("create tokenreviews")
    with pytest.raises(ValueError, match="resources: \\[tokenreviews\\], verbs: \\[create\\]"):
        open_access(None, "trimtab", kubeconfig(tmp_path, server), open_review)


def test_options_without_effect_and_files_that_are_not_there_are_errors(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="--token-audience"):
        open_access(None, "", tmp_path / "kubeconfig", open_review)
    with pytest.raises(OSError, match="missing"):
        open_access(tmp_path / "missing", "", None, open_review)
    assert not open_access(None, "", None, open_review).knows_callers
