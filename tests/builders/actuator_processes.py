"""The actuator with its simulated cluster as a process, quick enough for tests."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.builders.waiting import LIMIT_S
from trimtab.clients.actuator_client import ActuatorClient
from trimtab.common.rpc.retries import RetryPolicy

QUICK = (
    "--delay-after-taint=0", "--drain-poll=0.03", "--eviction-retry=0.05", "--delete-poll=0.03", "--pod-start=0.15",
    "--pod-stop=0.1", "--node-start=0.1", "--instance-delete=0.15", "--log-level=warning",
)  # fmt: skip


def command(directory: Path, *more: str) -> list[str]:
    files = (f"--state-dir={directory / 'state'}", f"--cluster={directory / 'cluster.json'}")
    return ["trimtab.actuator", f"--address-file={directory / 'address'}", *files, *QUICK, *more]


@contextmanager
def running(directory: Path, *more: str) -> Iterator[tuple[subprocess.Popen[str], ActuatorClient]]:
    """Yield a ready process and a client; kill the process at the end if it still runs."""
    (directory / "address").unlink(missing_ok=True)
    whole = [sys.executable, "-m", *command(directory, *more)]
    process = subprocess.Popen(whole, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        while not (directory / "address").exists():
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.01)
        with ActuatorClient((directory / "address").read_text().strip(), RetryPolicy(total_s=LIMIT_S)) as client:
            client.wait_until_serving(LIMIT_S)
            yield process, client
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
