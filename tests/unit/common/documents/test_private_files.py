"""Files that hold the names of a cluster's objects are for their owner, whatever the umask is."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from trimtab.actuator.store.sql import SqlStore, sqlite_url
from trimtab.clients.simulation.cluster.database import Database
from trimtab.common.recording import RecordingWriter


def store(path: Path) -> None:
    SqlStore(sqlite_url(path)).close()


def cluster(path: Path) -> None:
    Database(path).close()


def recording(path: Path) -> None:
    with RecordingWriter(path):
        pass


@pytest.mark.parametrize("write", [store, cluster, recording])
def test_new_files_are_for_their_owner_alone(tmp_path: Path, write: Callable[[Path], None]) -> None:
    before = os.umask(0o022)
    try:
        write(tmp_path / "file")
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert modes["file"] == 0o600
    assert set(modes.values()) == {0o600}


def test_a_cluster_that_others_could_read_is_taken_from_them(tmp_path: Path) -> None:
    path = tmp_path / "cluster.sqlite"
    cluster(path)
    path.chmod(0o644)
    cluster(path)
    assert stat.S_IMODE(path.stat().st_mode) & stat.S_IRWXO == 0
