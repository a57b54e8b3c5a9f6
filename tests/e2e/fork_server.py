"""Many short-lived actuators: one process has imported everything, and forks a child for each.

A child is a separate process that starts without threads, and dies like any other: by SIGKILL, without warning.
"""

import faulthandler
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path


class ForkedProcess:
    """A child, with what is used of `subprocess.Popen`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Minus nine once it is dead, which is all that is known of it; None while it lives."""
        if self.returncode is None and not Path(f"/proc/{self.pid}").exists():
            self.returncode = -signal.SIGKILL
        return self.returncode

    def wait(self, timeout: float = 30) -> int:
        """Wait for its end."""
        end = time.monotonic() + timeout
        while self.poll() is None:
            assert time.monotonic() < end, f"process {self.pid} does not end"
            time.sleep(0.01)
        assert self.returncode is not None
        return self.returncode


class ForkServer:
    """The process that forks; use as a context manager."""

    def __init__(self, module: str) -> None:
        self._command = [sys.executable, "-m", module, "--fork-server"]
        self._lock = threading.Lock()

    def __enter__(self) -> "ForkServer":
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(30)

    def start(self, options: Sequence[str], environment: Mapping[str, str], log: Path) -> ForkedProcess:
        """Start an actuator with these options. May be called by several threads."""
        # One at a time, so children are not mixed up.
        with self._lock:
            return self._start({"options": list(options), "environment": dict(environment), "log": str(log)})

    def _start(self, order: Mapping[str, object]) -> ForkedProcess:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return ForkedProcess(int(self._process.stdout.readline()))


def serve_forks() -> Mapping[str, object] | None:
    """Fork a child for each line of standard input. Return its order in a child, None in the parent at the end."""
    # Children that end leave nothing behind.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        order: Mapping[str, object] = json.loads(line)
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _prepare(order)
            return order
        print(pid, flush=True)
    return None


def _prepare(order: Mapping[str, object]) -> None:
    """In the child: its own log, options and environment."""
    log = os.open(str(order["log"]), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number, target in ((0, nothing), (1, nothing), (2, log)):
        os.dup2(target, number)
    options, environment = order["options"], order["environment"]
    assert isinstance(options, list)
    assert isinstance(environment, dict)
    sys.argv[1:] = options
    os.environ.update(environment)
    # `kill -USR1` shows in the log what every thread does.
    faulthandler.register(signal.SIGUSR1, all_threads=True)
