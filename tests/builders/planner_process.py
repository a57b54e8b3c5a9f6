"""A planner in a process of its own."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import sleep


@contextmanager
def running(directory: Path, *options: str, **environment: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Yield a listening process and its address; kill it at the end if it still runs."""
    file = directory / "address"
    command = [sys.executable, "-m", "trimtab.planner", f"--address-file={file}", *options]
    with (directory / "log").open("w") as log:
        process = subprocess.Popen(command, stderr=log, env=os.environ | environment, text=True)
        try:
            while not file.exists():
                assert process.poll() is None, (directory / "log").read_text()
                sleep(0.01)
            yield process, file.read_text().strip()
        finally:
            process.kill()
            process.wait()
