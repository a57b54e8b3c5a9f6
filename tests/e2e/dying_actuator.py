"""The actuator, except that it kills itself at the writes and external calls given in the environment.

Moments are before and after each write to the store and each call to the API server: what was begun then is known to
one side only. The log is compacted after a few events, so that this has its moments too.
"""

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import kubernetes.config
import msgspec

import trimtab.actuator.cloud.kwok.cloud
from tests.e2e.crash_points import Moments, parse
from tests.e2e.fork_server import serve_forks
from trimtab.actuator.__main__ import main
from trimtab.actuator.store.journal import Journal
from trimtab.actuator.store.records import Record
from trimtab.actuator.store.sql import SqlStore
from trimtab.common.kubernetes.api import Api
from trimtab.common.kubernetes.connection import ApiRequest

# Everything that a child needs is imported before the fork.
PRELOADED = (trimtab.actuator.cloud.kwok.cloud, kubernetes.config)

# A file, and the names of points as a JSON list.
MOMENTS, POINTS = "TRIMTAB_TEST_MOMENTS", "TRIMTAB_TEST_DIE_AT"
COMPACT_AFTER = 15


def watched(owner: type, name: str, kind: Callable[..., str], moments: Moments) -> None:
    """Add a crash point before and after a method."""
    method = getattr(owner, name)

    def wrapped(self: Any, *arguments: Any) -> Any:
        what = kind(*arguments)
        moments.note(f"before {what}")
        try:
            return method(self, *arguments)
        finally:
            moments.note(f"after {what}")

    setattr(owner, name, wrapped)


def append_kind(_first: int, records: Sequence[Record]) -> str:
    """What is written: the first of the events that are written together."""
    return f"append {msgspec.json.decode(records[0].payload)['event']}"


def call_kind(call: ApiRequest) -> str:
    """Verb and resource: "GET nodes" of one, "GET all nodes" of many."""
    words = call.path.split("/")[3 if call.path.startswith("/api/") else 4 :]
    if len(words) > 2 and words[0] == "namespaces":
        words = words[2:]
    many = "all " if call.method == "GET" and len(words) == 1 else ""
    return f"{call.method} {many}{'/'.join([words[0], *words[2:]])}"


def expose(moments: Moments) -> None:
    """Give every write and every call its moments."""
    watched(SqlStore, "append", append_kind, moments)
    watched(SqlStore, "compact", lambda *_: "compact", moments)
    watched(SqlStore, "take_over", lambda *_: "take_over", moments)
    watched(Api, "read", call_kind, moments)
    Journal.__init__.__defaults__ = (None, COMPACT_AFTER)


if __name__ == "__main__" and serve_forks() is not None:
    expose(Moments(Path(os.environ[MOMENTS]), map(parse, json.loads(os.environ[POINTS]))))
    main()
