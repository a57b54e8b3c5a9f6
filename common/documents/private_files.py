"""Files that other accounts may not read: they hold the names of a cluster's objects, and more."""

import os
import stat
from contextlib import suppress
from pathlib import Path


def create_private(path: Path) -> None:
    """Create a missing file for its owner alone: SQLite gives its log and index the mode of the database. Raises
    OSError.
    """
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def keep_others_out(path: Path) -> None:
    """Take the rights of accounts outside its group from a file of our own; some volumes grant access by group."""
    with suppress(FileNotFoundError, PermissionError):
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & stat.S_IRWXO:
            path.chmod(mode & ~stat.S_IRWXO)
