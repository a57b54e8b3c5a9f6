"""On a stop signal the loop ends cleanly, and does not wait for silent services."""

import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.builders.api_server import FakeApiServer
from tests.builders.live_commands import kubeconfig
from tests.builders.waiting import LIMIT_S
from trimtab.clients.cli.live import stopping
from trimtab.clients.cli.live.stopping import Stopping


def tell() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def test_a_stop_before_the_loop_runs_ends_everything_at_once_and_quietly() -> None:
    reached, before = [], signal.getsignal(signal.SIGTERM)
    with Stopping().on_signals():
        tell()
        reached.append("after")
    assert reached == []
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_second_stop_does_not_interrupt_the_end() -> None:
    ended = []
    with Stopping().on_signals():
        try:
            tell()
        finally:
            tell()
            ended.append(True)
    assert ended == [True]


def test_a_stop_while_the_loop_runs_stops_it_and_keeps_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stopping, "GRACE_S", LIMIT_S)
    stopped, cut = threading.Event(), threading.Event()
    found = Stopping()
    with found.on_signals(), found.loop(stopped.set, cut.set):
        tell()
        assert stopped.wait(LIMIT_S)
    assert not cut.is_set()


def test_when_it_does_not_end_connections_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stopping, "GRACE_S", 0.01)
    cut = threading.Event()
    found = Stopping()
    with found.on_signals(), found.loop(lambda: None, cut.set):
        tell()
        assert cut.wait(LIMIT_S)


def test_a_planner_that_never_answers_does_not_keep_the_process(tmp_path: Path) -> None:
    with FakeApiServer() as server, socket.create_server(("127.0.0.1", 0)) as silent:
        planner = f"127.0.0.1:{silent.getsockname()[1]}"
        command = [
            sys.executable, "-m", "trimtab.clients.cli", "run", "--planner", planner,
            "--kubeconfig", str(kubeconfig(tmp_path, server.url)), "--no-leader-elect",
        ]  # fmt: skip
        environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
        try:
            silent.settimeout(LIMIT_S)
            connection, _ = silent.accept()
            with connection:
                process.send_signal(signal.SIGTERM)
                _, said = process.communicate(timeout=LIMIT_S)
        finally:
            process.kill()
            process.wait()
    assert process.returncode == 0, said
    assert '"stopped"' in said
    assert "Traceback" not in said
