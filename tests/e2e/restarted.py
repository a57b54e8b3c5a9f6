"""A program of ours that can be killed without warning and started again over the same state."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.e2e.actuator_process import kill


class RestartedProcess:
    """Runs until the end of the context."""

    def __init__(self, module: str, arguments: Sequence[object], log: Path) -> None:
        self._command = [sys.executable, "-m", module, *map(str, arguments)]
        self._log = log
        self._process = self._start()

    def __enter__(self) -> "RestartedProcess":
        return self

    def __exit__(self, *_: object) -> None:
        kill(self._process)

    def _start(self) -> "subprocess.Popen[bytes]":
        with self._log.open("ab") as log:
            return subprocess.Popen(self._command, stdout=log, stderr=log)

    def die_and_return(self) -> None:
        """Kill the process, which must still run, without warning, and start it again."""
        assert self._process.poll() is None, self._log.read_text()[-2000:]
        kill(self._process)
        self._process = self._start()
