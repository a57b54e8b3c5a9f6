"""Configuration and authentication, as kubeconfigs give them."""

import sys
from pathlib import Path

import pytest

from clients.kubernetes_api.connection import ConnectionSettings, Request, connect_cluster
from clients.kubernetes_api.errors import ConfigurationError
from tests.builders.api_server import FakeApiServer


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
        assert connection.send(Request("GET", "/api/v1/pods")).status == 200
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


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("kind: Config\n", id="without clusters"),
        pytest.param("{", id="no YAML"),
        pytest.param(None, id="no file"),
    ],
)
def test_an_unusable_kubeconfig_is_named(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "broken"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigurationError, match="broken"):
        connect_cluster(ConnectionSettings(path))


def test_an_unknown_context_is_an_error(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, "http://127.0.0.1:1", "{token: x}")
    with pytest.raises(ConfigurationError, match="other"):
        connect_cluster(ConnectionSettings(path, "other"))
