"""`trimtab run` as a command: an error is one message, before any work begins."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.builders.api_server import FakeApiServer
from tests.builders.waiting import LIMIT_S


def kubeconfig(folder: Path, server: str) -> Path:
    path = folder / "kubeconfig"
    path.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        f"clusters: [{{name: c, cluster: {{server: '{server}'}}}}]\n"
        "users: [{name: u, user: {token: t}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n"
    )
    return path


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)


def test_all_permissions_that_lack_are_said_those_of_the_loop_itself_included(trimtab: Any, tmp_path: Path) -> None:
    with FakeApiServer() as server:
        server.forbidden = {("leases", "update"), ("configmaps", "patch"), ("events", "create"), ("nodes", "watch")}
        options = ("--planner", "127.0.0.1:1", "--actuator", "127.0.0.1:1", "--health-address", "")
        done = trimtab("run", "--kubeconfig", kubeconfig(tmp_path, server.url), *options)
    assert done.code == 1
    assert [line for line in done.err.splitlines() if line.startswith("- ")] == [
        '- {apiGroups: [""], resources: [nodes], verbs: [watch]}',
        '- {apiGroups: ["coordination.k8s.io"], resources: [leases], resourceNames: [trimtab-loop], verbs: [update]}'
        "  # Role in namespace kube-system",
        '- {apiGroups: [""], resources: [configmaps], resourceNames: [trimtab-state], verbs: [patch]}'
        "  # Role in namespace kube-system",
        '- {apiGroups: [""], resources: [configmaps], resourceNames: [trimtab-status], verbs: [patch]}'
        "  # Role in namespace kube-system",
        '- {apiGroups: [""], resources: [events], verbs: [create]}',
    ]


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        pytest.param(("--kubeconfig", "/does/not/exist"), 2, "/does/not/exist", id="no kubeconfig"),
        pytest.param(("--settings", "/does/not/exist"), 2, "no such file", id="no settings"),
        pytest.param(("--node-groups", "/does/not/exist"), 2, "/does/not/exist", id="no node groups"),
        pytest.param(("--decision", "scale-sideways"), 2, "scale-sideways", id="an unknown decision"),
        pytest.param(("--log-level", "loud"), 2, "loud", id="an unknown log level"),
        pytest.param(("--prices", "/does/not/exist"), 2, "/does/not/exist", id="no price file"),
    ],
)
def test_what_cannot_be_used_is_named_without_a_traceback(
    trimtab: Any, options: tuple[str, ...], code: int, words: str
) -> None:
    done = trimtab("run", "--planner", "127.0.0.1:1", *options)
    assert done.code == code
    assert words in done.err
    assert "Traceback" not in done.err


def test_a_server_that_is_away_is_said_at_the_start(trimtab: Any, tmp_path: Path) -> None:
    done = trimtab("run", "--planner", "127.0.0.1:1", "--kubeconfig", kubeconfig(tmp_path, "http://127.0.0.1:1"))
    assert done.code == 1
    assert "127.0.0.1:1" in done.err


def test_a_dry_run_writes_nothing_to_the_cluster(trimtab: Any, tmp_path: Path) -> None:
    with FakeApiServer() as server:
        server.forbidden = {(kind, "create") for kind in ("leases", "configmaps", "events")}
        config = kubeconfig(tmp_path, server.url)
        planner = ("--planner", "127.0.0.1:1", "--dry-run", "--rounds", "1", "--interval", "0.1")
        process = subprocess.Popen(
            [sys.executable, "-m", "clients.cli", "run", *planner, "--kubeconfig", str(config)], stderr=subprocess.PIPE
        )
        try:
            said = b""
            while b"round_failed" not in said:
                line = process.stderr.readline() if process.stderr is not None else b""
                assert line, said
                said += line
        finally:
            process.terminate()
            process.communicate(timeout=LIMIT_S)
        written = {(method, path) for method, path, _ in server.requests if method != "GET"}
    assert process.returncode == 0
    assert {path.rpartition("/")[2] for _, path in written} == {"selfsubjectaccessreviews"}
