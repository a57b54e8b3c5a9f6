"""The form of a recorded conversation: JSON lines, compressed.

The first line is the header: `clusterAutoscaler` (version and commit), `flags` that it was started with, and `groups`,
the NodeGroup objects of our cloud. Each other line is a call, in the order in which they came, with its bytes.
"""

import base64
import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

Json = dict[str, Any]
DATA = Path(__file__).parents[1] / "data" / "conversations"


class Call(NamedTuple):
    """One call. method : "/SERVICE/NAME"; at_ms, took_ms : when it came, since the first one, and until its answer;
    code : that of the status, with an empty answer unless it is OK.
    """

    method: str
    at_ms: int
    took_ms: int
    request: bytes
    answer: bytes
    code: str = "OK"

    @property
    def name(self) -> str:
        """Return the name of the method."""
        return self.method.rsplit("/", 1)[1]


class Conversation(NamedTuple):
    """A header and calls."""

    header: Json
    calls: list[Call]


def read(name: str) -> Conversation:
    """Read a committed conversation."""
    with gzip.open(DATA / f"{name}.jsonl.gz", "rt") as lines:
        header, *calls = map(json.loads, lines)
    return Conversation(header, [_call(one) for one in calls])


def write(name: str, header: Json, calls: Iterable[Call]) -> None:
    """Write a conversation: the same bytes for the same one."""
    lines = [header, *map(_line, sorted(calls, key=lambda one: one.at_ms))]
    text = "".join(json.dumps(line, sort_keys=True) + "\n" for line in lines)
    DATA.mkdir(exist_ok=True)
    (DATA / f"{name}.jsonl.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


def _line(call: Call) -> Json:
    sides = {"request": call.request, "answer": call.answer}
    return call._asdict() | {side: base64.b64encode(data).decode() for side, data in sides.items()}


def _call(line: Json) -> Call:
    return Call(**line | {side: base64.b64decode(line[side]) for side in ("request", "answer")})
