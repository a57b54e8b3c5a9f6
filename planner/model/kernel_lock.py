"""A lock on one kernel that other processes see, so that only one of them compiles it.

Decides who compiles, never what: no answer depends on it. The operating system releases the locks of a process that
ends, however it ends. Where there are no locks, processes that start at the same time compile the same kernels.
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
_LOOK_AGAIN_S: Final = 0.01
_LOOKS: Final = 6000
"""A minute: no kernel takes that long, so the process that holds the lock has been stopped."""


class KernelLock:
    """One byte of a file in the directory where compiled kernels are kept. Never fails.

    Kernels call each other without cycles, so processes that wait for each other's kernels do not wait for ever.
    """

    _files: Final[dict[str, int]] = {}
    """Open files by directory. Closing one would release all locks on it, so none is ever closed."""

    def __init__(self, directory: str, name: str) -> None:
        self._directory = directory
        self._byte = int.from_bytes(sha256(name.encode()).digest()[:6])

    def acquire(self) -> None:
        """Wait until no other process compiles the kernel. Goes on without the lock where there are no locks."""
        if fcntl is None:
            return
        for _ in range(_LOOKS):
            try:
                fcntl.lockf(self._file(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, self._byte)
            except (BlockingIOError, PermissionError):
                time.sleep(_LOOK_AGAIN_S)
            except OSError:
                return
            else:
                return

    def release(self) -> None:
        """Let other processes have the kernel."""
        if fcntl is not None:
            with suppress(OSError):
                fcntl.lockf(self._file(), fcntl.LOCK_UN, 1, self._byte)

    def _file(self) -> int:
        """Return the file's descriptor. Raises OSError."""
        if self._directory not in self._files:
            path = os.path.join(self._directory, _LOCK_FILE)
            self._files[self._directory] = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        return self._files[self._directory]
