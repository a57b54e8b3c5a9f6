"""A lock on one kernel between processes, to make only one of them compile it.

No answer depends on it. The operating system releases the locks of a process when it ends, in any way. Without locks,
processes that start at the same time compile the same kernels.
"""

import os
import time
from contextlib import suppress
from hashlib import sha256
from typing import Final

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_LOCK_FILE: Final = "compiling.lock"
_POLL_S: Final = 0.01
_LOOKS: Final = 6000
"""One minute: no kernel takes that long, so the process that holds the lock must have been suspended."""


class KernelLock:
    """One byte of a file in the directory of compiled kernels. Never fails.

    Kernels call each other without cycles, so processes that wait for each other's kernels cannot deadlock.
    """

    _files: Final[dict[str, int]] = {}
    """Open files by directory. Closing one would release all locks on it, so none is ever closed."""

    def __init__(self, directory: str, name: str) -> None:
        self._directory = directory
        self._byte = int.from_bytes(sha256(name.encode()).digest()[:6])

    def acquire(self) -> None:
        """Wait until no other process compiles the kernel. Continues without the lock if locks are not available."""
        if fcntl is None:
            return
        for _ in range(_LOOKS):
            try:
                fcntl.lockf(self._file(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, self._byte)
            except (BlockingIOError, PermissionError):
                time.sleep(_POLL_S)
            except OSError:
                return
            else:
                return

    def release(self) -> None:
        """Release the kernel to other processes."""
        if fcntl is not None:
            with suppress(OSError):
                fcntl.lockf(self._file(), fcntl.LOCK_UN, 1, self._byte)

    def _file(self) -> int:
        """Return the file's descriptor. Raises OSError."""
        if self._directory not in self._files:
            path = os.path.join(self._directory, _LOCK_FILE)
            self._files[self._directory] = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        return self._files[self._directory]
