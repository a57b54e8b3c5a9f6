"""`trimtab top` as a command: sources, text without a terminal, a real terminal, what is refused."""

import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.builders import kubernetes as k8s
from tests.builders.cli import Run, listed
from tests.builders.live_commands import kubeconfig
from tests.builders.screens import NOW, cluster_objects
from tests.builders.waiting import LIMIT_S
from trimtab.clients.cli.blocks import plain_text
from trimtab.clients.cli.plan import CommandOptions
from trimtab.clients.cli.top.command import _picture


def test_without_a_terminal_files_are_shown_once_as_text(trimtab: Run, tmp_path: Path) -> None:
    done = trimtab("top", listed(tmp_path, *cluster_objects()), "--now", NOW)
    lines = done.out.splitlines()
    assert done.code == 0
    assert lines[0].startswith("Cluster cluster; Plan of 2026-03-01 00:00:00 UTC; 32 % of cpu, 11 % of memory")
    assert "Now: 2,555 (5 nodes, a month)" in lines
    titles = {line.strip() for line in lines}
    assert {"Nodes", "Node groups", "Pending pods"} <= titles
    assert "Deletions" not in titles


def test_details_of_a_node_in_files_name_every_pod_that_blocks_it(tmp_path: Path) -> None:
    bare = [k8s.pod(f"bare-{i}", cpu="100m", node="a-2") for i in range(2)]
    picture = _picture(CommandOptions((listed(tmp_path, *cluster_objects(), *bare),), now=NOW))
    shown = [plain_text(one) for one in picture.explain("a-2")]
    assert "3 pods of it must not be evicted:" in shown
    assert sum("has no controller" in line for line in shown) == 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        pytest.param(("--demo", "x.json"), "omit FILE", id="the demo of a file"),
        pytest.param(("/does/not/exist",), "/does/not/exist", id="no file"),
        pytest.param(("--kubeconfig", "/does/not/exist"), "/does/not/exist", id="no kubeconfig"),
        pytest.param(("--context", "a", "--context", "b", "--planner", "127.0.0.1:1"), "--context once", id="two"),
        pytest.param(("--offers", "/does/not/exist", "x.json"), "/does/not/exist", id="no file of offerings"),
        pytest.param(("--group-by", "", "x.json"), "--group-by", id="no label"),
    ],
)
def test_what_cannot_be_shown_is_named_without_a_traceback(trimtab: Run, options: tuple[str, ...], words: str) -> None:
    done = trimtab("top", *options)
    assert done.code == 2
    assert words in done.err
    assert "Traceback" not in done.err


def test_an_actuator_belongs_to_a_live_cluster(trimtab: Run, tmp_path: Path) -> None:
    done = trimtab("top", listed(tmp_path, *cluster_objects()), "--actuator", "127.0.0.1:1")
    assert (done.code, "--actuator belongs to a live cluster" in done.err) == (2, True)


def test_a_cluster_that_is_away_at_the_start_is_said(trimtab: Run, tmp_path: Path) -> None:
    done = trimtab("top", "--kubeconfig", kubeconfig(tmp_path, "http://127.0.0.1:1"), "--once")
    assert (done.code, "127.0.0.1:1" in done.err, "Traceback" in done.err) == (1, True, False)


def test_on_a_terminal_the_screen_opens_and_q_leaves_it_as_it_was(tmp_path: Path) -> None:
    file = listed(tmp_path, *cluster_objects())
    ours, theirs = pty.openpty()
    variables = os.environ | {"TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"}
    command = [sys.executable, "-m", "trimtab.clients.cli", "top", str(file), "--now", NOW]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=variables) as process:
        os.close(theirs)
        shown, end_s, is_asked = b"", time.monotonic() + LIMIT_S, False
        try:
            while process.poll() is None and time.monotonic() < end_s:
                if select.select([ours], [], [], 0.1)[0]:
                    shown += os.read(ours, 1 << 16)
                if b"pool-b" in shown and not is_asked:
                    os.write(ours, b"q")
                    is_asked = True
        except OSError:  # The other side is closed.
            pass
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == 0
    os.close(ours)
    text = shown.decode(errors="replace")
    assert "\x1b[?1049h" in text
    assert "\x1b[?1049l" in text
    assert "Traceback" not in text
