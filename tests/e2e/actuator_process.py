"""The actuator as a process on a real control plane, and helpers that wait for a condition."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol, TypeVar

from tests.e2e.control_plane.control_plane import ControlPlane
from trimtab.clients.actuator_client import ActuatorClient
from trimtab.common.rpc.errors import TrimtabError
from trimtab.common.rpc.retries import RetryPolicy
from trimtab.v1 import actuator_pb2

Json = dict[str, Any]
QUICK = (
    "--cloud=kwok", "--delay-after-taint=0.3", "--drain-poll=0.2", "--eviction-retry=0.5", "--delete-poll=0.2",
    "--node-start=1", "--instance-delete=0.5", "--max-parallelism=500", "--max-drain-parallelism=500",
    "--log-level=warning",
)  # fmt: skip


P = TypeVar("P", bound="Process")


class EndedError(Exception):
    """The process ended before it answered."""


def command(plane: ControlPlane, directory: Path, groups: Sequence[Json], *more: str) -> list[str]:
    """The options of an actuator that has its state in a directory."""
    directory.mkdir(exist_ok=True)
    config = directory / "groups.json"
    config.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(groups)}))
    files = (
        f"--state-dir={directory / 'state'}",
        f"--address-file={directory / 'address'}",
        f"--cloud-config={config}",
        f"--kubeconfig={plane.kubeconfig('admin')}",
    )
    return [*files, *QUICK, *more]


class Process(Protocol):
    """The used methods of a process."""

    pid: int
    returncode: Any

    def poll(self) -> int | None:
        """Return its exit code once it has ended."""

    def wait(self, timeout: float) -> int:
        """Wait for its end."""


@contextmanager
def running(directory: Path, options: Sequence[str]) -> Iterator[tuple["subprocess.Popen[bytes]", ActuatorClient]]:
    """Yield a process that answers, and a client; kill the process at the end if it still runs."""

    def start() -> "subprocess.Popen[bytes]":
        with (directory / "log").open("ab") as log:
            return subprocess.Popen([sys.executable, "-m", "trimtab.actuator", *options], stderr=log)

    with living(directory, start, 5) as (process, client):
        yield process, client


@contextmanager
def living(directory: Path, start: Callable[[], P], attempts: int) -> Iterator[tuple[P, ActuatorClient]]:
    """Do the same for any process that `start` starts; calls are attempted `attempts` times."""
    (directory / "address").unlink(missing_ok=True)
    process = start()
    try:
        until(lambda: (directory / "address").exists() or process.poll() is not None, 30, "the actuator's address")
        if process.poll() is not None:
            raise EndedError(f"ended with {process.returncode}: {(directory / 'log').read_text()[-2000:]}")
        address = (directory / "address").read_text().strip()
        with ActuatorClient(address, RetryPolicy(attempts)) as client:
            yield process, client
    finally:
        kill(process)


def serving(process: Process, client: ActuatorClient) -> None:
    """Wait until it serves; raise `EndedError` if it has ended."""
    while process.poll() is None:
        try:
            return client.wait_until_serving(0.5)
        except TrimtabError:
            continue
    raise EndedError(f"ended with {process.returncode}")


def kill(process: Process) -> None:
    """End a process without warning."""
    if process.poll() is None:
        with suppress(ProcessLookupError):  # it may end just now
            os.kill(process.pid, signal.SIGKILL)
    process.wait(timeout=30)


def until(reached: Callable[[], bool], limit_s: float, what: str) -> None:
    """Wait for a condition; fail with its name."""
    end = time.monotonic() + limit_s
    while not reached():
        assert time.monotonic() < end, f"{what}: not within {limit_s} s"
        time.sleep(0.05)


def apply(plane: ControlPlane, *objects: Json) -> None:
    """Create objects."""
    document = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
    plane.kubectl("create", "-f", "-", stdin=document)


def listed(plane: ControlPlane, kinds: str) -> list[Json]:
    """Return objects of all namespaces as kubectl prints them."""
    items: list[Json] = json.loads(plane.kubectl("get", kinds, "-A", "-o", "json"))["items"]
    return items


def all_ready(plane: ControlPlane) -> bool:
    """Return whether every Deployment, StatefulSet and DaemonSet has its desired replicas."""
    for item in listed(plane, "deployments,statefulsets,daemonsets"):
        status, wanted = item.get("status", {}), item["spec"].get("replicas")
        if status.get("observedGeneration") != item["metadata"]["generation"]:
            return False
        if wanted is None:
            if status.get("numberReady", -1) != status.get("desiredNumberScheduled"):
                return False
        elif status.get("readyReplicas", 0) != wanted or status.get("replicas") != wanted:
            return False
    return True


def deletion_of(request_id: str, names: Sequence[str]) -> actuator_pb2.StartDeletionRequest:
    """Return a request to drain and delete nodes."""
    entries = [actuator_pb2.NodeToDelete(node=name, drain=True) for name in names]
    return actuator_pb2.StartDeletionRequest(request_id=request_id, nodes=entries)
