"""Configuration and authentication from kubeconfigs."""

import sys
from pathlib import Path

import pytest

from tests.builders.api_server import FakeApiServer
from trimtab.common.kubernetes.api import Api
from trimtab.common.kubernetes.connection import ApiRequest, ConnectionSettings, connect_cluster
from trimtab.common.kubernetes.errors import ConfigurationError, UnreachableError


def kubeconfig(folder: Path, server: str, user: str) -> Path:
    path = folder / "config"
    path.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        f"clusters: [{{name: c, cluster: {{server: '{server}'}}}}]\n"
        f"users: [{{name: u, user: {user}}}]\n"
        "contexts: [{name: c, context: {cluster: c, user: u}}]\n"
    )
    return path


@pytest.fixture(autouse=True)
def no_other_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"):
        monkeypatch.delenv(name, raising=False)


def test_a_token_goes_into_every_request(tmp_path: Path) -> None:
    with FakeApiServer() as server:
        connection = connect_cluster(ConnectionSettings(kubeconfig(tmp_path, server.url, "{token: secret}")))
        assert connection.server == server.url
        assert connection._authorization() == "Bearer secret"
        assert connection.send(ApiRequest("GET", "/api/v1/pods")).status == 200
        connection.close()


def test_an_exec_plugin_is_asked_again_when_its_token_has_expired(tmp_path: Path) -> None:
    count = tmp_path / "count"
    script = tmp_path / "plugin.py"
    script.write_text(
        "import json, pathlib\n"
        f"path = pathlib.Path({str(count)!r})\n"
        "number = int(path.read_text()) + 1 if path.exists() else 1\n"
        "path.write_text(str(number))\n"
        "status = {'token': f'token-{number}', 'expirationTimestamp': '2020-01-01T00:00:00Z'}\n"
        "print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1', 'kind': 'ExecCredential',"
        " 'status': status}))\n"
    )
    user = (
        "{exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, "
        f"command: '{sys.executable}', args: ['{script}']}}}}"
    )
    connection = connect_cluster(ConnectionSettings(kubeconfig(tmp_path, "http://127.0.0.1:1", user)))
    first, second = connection._authorization(), connection._authorization()
    assert first.startswith("Bearer token-")
    assert second.startswith("Bearer token-")
    assert first != second


CONFIG = (
    "{{current-context: c, contexts: [{{name: c, context: {{cluster: c, user: u}}}}], "
    "clusters: [{{name: c, cluster: {cluster}}}], users: [{{name: u, user: {user}}}]}}"
)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("", id="empty"),
        pytest.param("kind: Config\n", id="without clusters"),
        pytest.param("{", id="no YAML"),
        pytest.param("just a sentence", id="a text"),
        pytest.param("- a\n- b\n", id="a list"),
        pytest.param("42", id="a number"),
        pytest.param(b"\xff\xfe\x00binary", id="binary"),
        pytest.param("{clusters: 3, users: x, contexts: [1]}", id="other types"),
        pytest.param("{current-context: c, clusters: [{cluster: {}}], users: [{}], contexts: [{}]}", id="no names"),
        pytest.param("{current-context: c, contexts: [{name: c}], clusters: [], users: []}", id="an empty context"),
        pytest.param(CONFIG.format(cluster="{}", user="{}"), id="no server"),
        pytest.param(CONFIG.format(cluster="{server: 10.0.0.1}", user="{}"), id="a server that is not a URL"),
        pytest.param(CONFIG.format(cluster="{server: [1]}", user="{}"), id="a server that is not text"),
        pytest.param(
            CONFIG.format(cluster="{server: 'https://a', certificate-authority: /does/not/exist}", user="{}"),
            id="no certificate",
        ),
        pytest.param(CONFIG.format(cluster="{server: 'https://a'}", user="{exec: 3}"), id="a plugin that is none"),
        pytest.param(
            CONFIG.format(
                cluster="{server: 'https://a'}",
                user="{exec: {apiVersion: client.authentication.k8s.io/v1, command: /does/not/exist}}",
            ),
            id="a plugin that is not there",
        ),
        pytest.param(None, id="no file"),
        pytest.param(Path(), id="a directory"),
    ],
)
def test_an_unusable_kubeconfig_is_named(tmp_path: Path, content: str | bytes | Path | None) -> None:
    path = tmp_path / "broken"
    if isinstance(content, Path):
        path.mkdir()
    elif content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ConfigurationError, match="broken") as caught:
        connect_cluster(ConnectionSettings(path))
    assert "\n" not in str(caught.value)


def test_a_plugin_that_fails_later_is_waited_for(tmp_path: Path) -> None:
    connection = connect_cluster(ConnectionSettings(kubeconfig(tmp_path, "http://127.0.0.1:1", "{token: x}")))

    def fail() -> str:
        raise UnreachableError("the credentials could not be renewed")

    connection._authorization = fail
    with pytest.raises(UnreachableError, match="credentials"):
        Api(connection).json("GET", "/version")


def test_an_unknown_context_is_an_error(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, "http://127.0.0.1:1", "{token: x}")
    with pytest.raises(ConfigurationError, match=r"there is no context other in .*; there are: "):
        connect_cluster(ConnectionSettings(path, "other"))
