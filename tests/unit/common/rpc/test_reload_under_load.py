"""Policy and certificates that are replaced many times while calls are made: no call fails because of it."""

import secrets
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.builders.tls import OwnCa, make_ca
from tests.builders.waiting import LIMIT_S
from trimtab.clients.actuator_client import ActuatorClient
from trimtab.common.kubernetes.token_review import open_review
from trimtab.common.rpc.access import open_access
from trimtab.common.rpc.certificates import Reloaded
from trimtab.common.rpc.channel_security import ChannelSecurity
from trimtab.common.rpc.errors import TrimtabError
from trimtab.common.rpc.retries import RetryPolicy
from trimtab.common.rpc.server import Registration, ServerSettings, Shell
from trimtab.v1 import actuator_pb2, actuator_pb2_grpc

CALLERS = 6
ROUNDS = 40
ONCE = RetryPolicy(attempts=1)
POLICY = """
apiVersion: trimtab.dev/v1
kind: AccessPolicy
callers:
  - {identities: ["spiffe://trimtab/*"], rights: [read]}
"""


class Servicer(actuator_pb2_grpc.ActuatorServicer):
    def GetStatus(self, request, context):
        return actuator_pb2.GetStatusResponse()


class Load:
    """Callers that call one after another, some on one connection, some on a new one each time."""

    def __init__(self, address: str, security: Callable[[], ChannelSecurity]) -> None:
        self.address, self.security = address, security
        self.answers: Counter[str] = Counter()
        self.lock = threading.Lock()
        self.stopped = threading.Event()

    def call(self, number: int) -> None:
        while not self.stopped.is_set():
            with ActuatorClient(self.address, ONCE, security=self.security()) as client:
                for _ in range(200 if number % 2 else 1):
                    if not self.stopped.is_set():
                        self.count(client)

    def count(self, client: ActuatorClient) -> None:
        try:
            client.get_status()
            answer = "OK"
        except TrimtabError as error:
            answer = f"{error.code.name} {error.reason_name} {error.message}"
        with self.lock:
            self.answers[answer] += 1

    def until_more(self, count: int) -> None:
        """Wait until this many calls have been answered since."""
        target, until_s = self.answers.total() + count, time.monotonic() + LIMIT_S
        while self.answers.total() < target:
            assert time.monotonic() < until_s, self.answers
            time.sleep(0.002)


@contextmanager
def load(ca: OwnCa, policy: Path) -> Iterator[Load]:
    registration = Registration(actuator_pb2_grpc.add_ActuatorServicer_to_server, Servicer(), "trimtab.v1.Actuator")
    settings = ServerSettings(security=ca.port(), access=open_access(policy, "", None, open_review))
    with Shell("test", [registration], settings) as shell, ThreadPoolExecutor(CALLERS) as threads:
        running = Load(shell.address, lambda: ca.channel("client"))
        calls = [threads.submit(running.call, number) for number in range(CALLERS)]
        try:
            running.until_more(CALLERS)
            yield running
        finally:
            running.stopped.set()
        for one in calls:
            one.result(LIMIT_S)


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY)
    return path


def test_a_policy_that_is_replaced_again_and_again_refuses_no_call_that_each_version_grants(
    ca: OwnCa, policy: Path
) -> None:
    with load(ca, policy) as running:
        for number in range(ROUNDS):
            # In place, as an editor does: half-written versions are read too.
            with policy.open("w") as file:
                for line in f"# {number}{POLICY}".splitlines(keepends=True):
                    file.write(line)
                    file.flush()
            running.until_more(CALLERS)
    assert set(running.answers) == {"OK"}
    assert running.answers["OK"] > ROUNDS * CALLERS


def mounted(ca: OwnCa) -> OwnCa:
    """Return the CA with its files as Kubernetes mounts those of a Secret: links into a folder that a link names."""
    folder = ca.directory.parent / "mounted"
    folder.mkdir()
    renew(ca, folder)
    for path in ca.directory.iterdir():
        (folder / path.name).symlink_to(f"..data/{path.name}")
    return OwnCa(folder, ca.made)


def renew(ca: OwnCa, folder: Path) -> None:
    """Issue all certificates again, and replace those that are mounted at once."""
    for name in ("server", "client"):
        ca.issue(name, hosts=("localhost", "127.0.0.1"))
    version = folder / f"..{secrets.token_hex(4)}"
    shutil.copytree(ca.directory, version)
    (folder / "..new").symlink_to(version.name)
    (folder / "..new").replace(folder / "..data")


@pytest.mark.nightly
def test_secrets_that_are_replaced_again_and_again_fail_no_call_nor_any_caller_that_starts(
    ca: OwnCa, policy: Path
) -> None:
    secret = mounted(ca)
    with load(secret, policy) as running:
        for _ in range(ROUNDS):
            renew(ca, secret.directory)
            running.until_more(CALLERS)
    assert set(running.answers) == {"OK"}


def test_a_servers_files_that_are_written_one_after_the_other_fail_no_call(ca: OwnCa, policy: Path) -> None:
    with load(ca, policy) as running:
        for _ in range(ROUNDS):
            # In between key and certificate do not belong together.
            ca.issue("server")
            running.until_more(CALLERS)
    assert set(running.answers) == {"OK"}


SERVER_OF_STORM = """
import errno, pathlib, socket, sys, threading, time
from tests.builders.tls import OwnCa
from trimtab.common.rpc.server import ServerSettings, Shell

folder, (first, second) = pathlib.Path(sys.argv[1]), (pathlib.Path(path) for path in sys.argv[2:])
stopped = threading.Event()

def connect(port):
    while not stopped.is_set():
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(0.01)

with Shell("test", [], ServerSettings(security=OwnCa(folder).port())) as shell:
    port = int(shell.address.rpartition(":")[2])
    threads = [threading.Thread(target=connect, args=(port,)) for _ in range(6)]
    for thread in threads:
        thread.start()
    until = time.monotonic() + 15
    try:
        while time.monotonic() < until:
            first, second = second, first
            for name in ("server.crt", "server.key", "ca.crt"):
                (folder / "next").write_bytes((first / name).read_bytes())
                (folder / "next").replace(folder / name)
            time.sleep(0.001)
    except OSError as error:
        # The connections, which nobody counts, may take all files of the process for a moment.
        if error.errno != errno.EMFILE:
            raise
    finally:
        stopped.set()
    for thread in threads:
        thread.join()
"""


@pytest.mark.ci
def test_no_server_dies_when_certificates_change_while_many_connect(tmp_path: Path) -> None:
    """gRPC frees the replaced configuration while other handshakes use it (`PortSecurity.server_credentials`)."""
    folders = [tmp_path / name for name in ("used", "first", "second")]
    for folder in folders:
        make_ca(folder)
    command = [sys.executable, "-c", SERVER_OF_STORM, *map(str, folders)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr


def test_files_that_change_while_they_are_read_are_read_again(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("0")

    def make() -> int:
        found = int(path.read_text())
        if found < 2:
            path.write_text(f"{found + 1}" + " " * (found + 1))
            raise ValueError("of two versions")
        return found

    assert Reloaded((path,), make).get() == 2
