"""A store on a disk that is full: what was confirmed is kept, nothing else is, and the error says what to do."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders.actuator import small_cluster
from tests.builders.actuator_processes import running
from tests.builders.kubernetes import listed
from tests.builders.waiting import LIMIT_S
from trimtab.actuator.store.records import Record, StoreError
from trimtab.actuator.store.sql import SqlStore, sqlite_url
from trimtab.clients.actuator_client import ActuatorClient
from trimtab.common.rpc.errors import TrimtabError
from trimtab.common.rpc.retries import RetryPolicy
from trimtab.v1 import actuator_pb2

ROOT = Path(__file__).parents[4]
WRITER = """
import json, resource, signal, sys
from pathlib import Path
from trimtab.actuator.store.records import Record, StoreError
from trimtab.actuator.store.sql import SqlStore, sqlite_url

limit, path = int(sys.argv[1]), Path(sys.argv[2])
if limit:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
errors, seq = [], 0
try:
    store = SqlStore(sqlite_url(path))
    seq = store.load().last_seq
    while True:
        store.append(seq + 1, [Record(seq, b"x" * 3000) for _ in range(3)])
        seq += 3
except StoreError as error:
    errors.append(str(error))
print(json.dumps([seq, errors]), flush=True)
# Closing would move records from the log to the database.
signal.raise_signal(signal.SIGKILL)
"""


def fill(path: Path, limit_bytes: int = 0) -> tuple[int, str]:
    """Append to a store in another process until that fails; return the last confirmed number and the error."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "protos")])}
    command = [sys.executable, "-c", WRITER, str(limit_bytes), str(path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == -signal.SIGKILL, done.stderr
    seq, (error,) = json.loads(done.stdout)
    return seq, error


def kept(path: Path) -> int:
    """Return the number of the last record that a restart finds; there is room again."""
    store = SqlStore(sqlite_url(path))
    try:
        last = store.load().last_seq
        store.append(last + 1, [Record(1, b"{}")])
    finally:
        store.close()
    return last


def test_a_store_whose_files_may_not_grow_keeps_what_it_confirmed_and_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    confirmed, error = fill(path, 300_000)
    assert confirmed > 0
    assert "has room, and restart" in error
    assert "damaged" not in error
    assert kept(path) == confirmed


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Return a directory on a file system of 1 MiB of its own."""
    directory = tmp_path / "disk"
    directory.mkdir()
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("needs root, to mount")
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(directory)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("needs a machine that lets root mount")
    yield directory
    subprocess.run(["umount", str(directory)], check=True)


def test_a_full_disk_loses_nothing_and_a_restart_waits_for_room(small_disk: Path) -> None:
    path, ballast = small_disk / "store.sqlite", small_disk / "ballast"
    ballast.write_bytes(bytes(300_000))
    confirmed, error = fill(path)
    assert confirmed > 0
    assert "has room, and restart" in error
    # Whatever room is left; Python's own writing would try again.
    subprocess.run(["dd", "if=/dev/zero", f"of={small_disk}/more", "bs=1k"], capture_output=True, check=False)
    # Nothing may be resumed that cannot be recorded: the store does not open.
    with pytest.raises(StoreError, match="has room, and restart"):
        SqlStore(sqlite_url(path))
    ballast.unlink()
    assert kept(path) == confirmed


def test_an_actuator_whose_store_fails_while_a_caller_waits_ends_with_the_reason(small_disk: Path) -> None:
    (small_disk / "cluster.json").write_text(json.dumps(listed(*small_cluster())))
    with running(small_disk) as (process, _):
        # Room for the decision, or not even that, and none for what follows.
        ballast = small_disk / "ballast"
        ballast.write_bytes(bytes(24_000))
        subprocess.run(["dd", "if=/dev/zero", f"of={small_disk}/more", "bs=1k"], capture_output=True, check=False)
        ballast.unlink()
        nodes = [actuator_pb2.NodeToDelete(node=f"n{number}", drain=True) for number in range(6)]
        request = actuator_pb2.StartDeletionRequest(request_id="r", nodes=nodes)
        address = (small_disk / "address").read_text().strip()
        with ActuatorClient(address, RetryPolicy(attempts=1)) as impatient, pytest.raises(TrimtabError):
            impatient.start_deletion(request)
        # It does not end because of that: a caller waits for a minute for its answer.
        assert process.wait(LIMIT_S / 2) == 2
        assert process.stderr is not None
        assert "has room, and restart" in process.stderr.read()
