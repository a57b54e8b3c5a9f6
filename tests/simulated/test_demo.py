"""`trimtab demo` as a user runs it: a separate process, judged by its output and by what it leaves behind.

The whole demo is a stage of `.ci/run` too; here it runs in the nightly tier, where its output is read.
"""

import os
import re
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.builders import kubernetes as k8s
from tests.builders.cli import listed
from tests.builders.waiting import LIMIT_S
from trimtab.clients.cli.demo.command import OWN_CLUSTER

TIMEOUT_S = 280
MARK = "TRIMTAB_TEST_RUN"


class Demo(NamedTuple):
    """A demo whose processes and files can be distinguished from others."""

    environment: dict[str, str]
    temporary: Path
    mark: str

    def command(self, *arguments: object) -> list[str]:
        """Return the command line."""
        return [sys.executable, "-m", "trimtab.clients.cli", "demo", *map(str, arguments)]

    def left_behind(self) -> list[str]:
        """Return what remains; terminated processes may take a moment."""
        until_s = time.monotonic() + LIMIT_S
        while (found := self._left_now()) and time.monotonic() < until_s:
            time.sleep(0.1)
        return found

    def _left_now(self) -> list[str]:
        """Return running processes of this run, and files in its temporary directory."""
        found = [str(path) for path in self.temporary.iterdir()]
        for process in Path("/proc").glob("[0-9]*"):
            try:
                environment, command = ((process / name).read_bytes() for name in ("environ", "cmdline"))
            except OSError:
                continue
            if f"{MARK}={self.mark}".encode() in environment and process.name != str(os.getpid()):
                found.append(f"process {process.name}: {command!r}")
        return found


@pytest.fixture
def demo(tmp_path: Path) -> Demo:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    mark = uuid.uuid4().hex
    return Demo(os.environ | {MARK: mark, "TMPDIR": str(temporary), "COLUMNS": "120"}, temporary, mark)


@pytest.mark.nightly
def test_the_demo_removes_nodes_serves_a_burst_and_loses_nothing(demo: Demo) -> None:
    done = subprocess.run(
        demo.command(), env=demo.environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    first_loop = next(at for at, line in enumerate(lines) if line.startswith("Loop 1:"))
    first_screen = "\n".join(lines[:first_loop])
    assert len(first_screen.splitlines()) <= 36, "what can go, why the others stay and what to change come first"
    for part in ("161 of 300 nodes can go (54 %)", "56,772 a month", "Why the others stay:", "What to change"):
        assert part in first_screen
    assert done.stdout.index("A generated cluster") < done.stdout.index("A recorded real cluster")
    numbers = [int(found) for found in re.findall(r"^Loop (\d+):", done.stdout, re.MULTILINE)]
    shown = [1 + at for at in range(numbers.index(1, 1))]
    assert numbers == [*shown, *(1 + at for at in range(len(numbers) - len(shown)))], "no gaps, from 1 in each chapter"
    assert lines[-1] == OWN_CLUSTER
    assert done.stdout.count("Nothing lost:") == 2
    assert done.stdout.count("All kept:") == 2
    assert "kill -9" in done.stdout
    assert done.stdout.count("Survived:") == 1
    assert done.stdout.count("Cluster Autoscaler 1.36 (recorded)") == 2
    for part in ("A burst: 60 pods", "The burst ends", "60 of 60 pods ran", "the cluster shrank again"):
        assert part in done.stdout
    assert len(lines) <= 70, "an answer that is read at once"
    assert max(map(len, lines[:-1])) <= 120
    assert "\x1b[" not in done.stdout, "no colours where nobody looks"
    assert demo.left_behind() == []


@pytest.mark.nightly
def test_the_demo_takes_the_users_cluster(demo: Demo, tmp_path: Path) -> None:
    owner = k8s.replica_set("web", replicas=2)
    file = listed(
        tmp_path,
        *[k8s.node(name, labels={"pool": "a"}) for name in ("n1", "n2", "n3")],
        owner,
        *k8s.pods_of(owner, 2, cpu="500m", node="n1"),
        k8s.node_group("a", min_size=1, max_size=5, selector={"pool": "a"}),
    )
    done = subprocess.run(
        demo.command(file), env=demo.environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 of 3 nodes removed (67 %)" in done.stdout
    assert demo.left_behind() == []


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGINT, id="Ctrl-C", marks=pytest.mark.ci),
        pytest.param(signal.SIGTERM, id="kill", marks=pytest.mark.nightly),
    ],
)
def test_an_interrupted_demo_leaves_nothing_behind(demo: Demo, number: signal.Signals) -> None:
    # Background processes of a shell and their children ignore Ctrl-C, unless they have a handler.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(
        demo.command(), env=demo.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    signal.signal(signal.SIGINT, before)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if "Loop 1" in line:
                break
        process.send_signal(number)
        _, err = process.communicate(timeout=LIMIT_S)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    assert "Traceback" not in err
    assert demo.left_behind() == []


def test_the_command_for_ones_own_cluster_is_that_of_the_readme() -> None:
    readme = Path(__file__).parents[2] / "README.md"
    assert f"\n{OWN_CLUSTER}\n" in readme.read_text()


def test_a_file_that_is_not_a_cluster_ends_the_demo_with_its_name(demo: Demo, tmp_path: Path) -> None:
    file = tmp_path / "cluster.json"
    file.write_text("{}")
    done = subprocess.run(
        demo.command(file), env=demo.environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 2
    assert str(file) in done.stderr
    assert "Traceback" not in done.stderr
    assert demo.left_behind() == []
