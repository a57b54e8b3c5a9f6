"""The actuator, except that it kills itself at its n-th write or external call: n comes by environment.

Counted are the moments before and after each write to the store and each call to the API server that changes
something or may: what was begun then is known to one side only.
"""

import os
import signal
import sys
import threading
from typing import Any

import kubernetes.config

import actuator.service.kwok_world
from actuator.__main__ import main
from actuator.kube.api import Api
from actuator.store.sql import SqlStore
from tests.e2e.nursery import tend

# Everything that a life needs is imported before it is born.
PRELOADED = (actuator.service.kwok_world, kubernetes.config)

VARIABLE = "TRIMTAB_TEST_DIE_AT"

_lock = threading.Lock()
_count = 0


def moment() -> None:
    """Die, if it is time."""
    global _count  # noqa: PLW0603
    with _lock:
        _count += 1
        if _count == int(os.environ.get(VARIABLE, "0")):
            os.kill(os.getpid(), signal.SIGKILL)


def dying(owner: type, name: str) -> None:
    """Make a method have a moment before and one after it."""
    method = getattr(owner, name)

    def wrapped(self: Any, *arguments: Any) -> Any:
        moment()
        try:
            return method(self, *arguments)
        finally:
            moment()

    setattr(owner, name, wrapped)


if __name__ == "__main__":
    for one in ("append", "compact", "take_over"):
        dying(SqlStore, one)
    dying(Api, "_send")
    if sys.argv[1:] != ["--nursery"] or tend() is not None:
        main()
