"""Files that are written as a whole or not at all; a full disk is a limit to the size of files."""

import os
import stat
from pathlib import Path

import pytest

from tests.builders.full_disk import LIMIT, full_disk
from trimtab.clients.simulation.result import write_result
from trimtab.common.documents.output import write_whole


def test_a_full_disk_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    path, new = tmp_path / "result.json", tmp_path / "new.json"
    path.write_text("old")
    with full_disk():
        for one in (path, new):
            with pytest.raises(OSError, match="too large"):
                write_whole(one, bytes(2 * LIMIT))
        with pytest.raises(OSError, match="too large"):
            write_result(path, {"kind": "x" * 2 * LIMIT})
    assert {one.name: one.read_text() for one in tmp_path.iterdir()} == {"result.json": "old"}


def test_a_file_keeps_its_permissions_and_a_link_stays_one(tmp_path: Path) -> None:
    path, link = tmp_path / "file", tmp_path / "link"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    write_whole(link, b"new")
    assert (path.read_bytes(), link.is_symlink(), stat.S_IMODE(path.stat().st_mode)) == (b"new", True, 0o640)
    write_whole(path, b"secret", 0o600)
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"secret", 0o600)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["file", "link"]


def test_a_new_file_has_the_permissions_that_the_process_gives(tmp_path: Path) -> None:
    path, other = tmp_path / "file", tmp_path / "other"
    write_whole(path, b"new")
    other.write_bytes(b"new")
    assert path.stat().st_mode == other.stat().st_mode


def test_what_is_no_regular_file_is_written_in_place(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_whole(pipe, b"new")
        assert os.read(reader, 10) == b"new"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    with pytest.raises(IsADirectoryError):
        write_whole(tmp_path, b"new")
