"""The line protocol of external policies: a line of JSON with the cluster goes to a program, a line with its decision
comes back. Version 1; `docs/simulate.md` defines every field.

The program runs for the whole simulation. It need not remember anything: what a question contains is enough to answer
it, and the same question is not asked twice in a row. Raises ScenarioError naming program, round and field.
"""

import json
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Final, NamedTuple

from trimtab.clients.simulation.scenario_values import ScenarioError
from trimtab.common.documents.strict_json import RepeatedKeyError, load_json

PROTOCOL: Final = 1
MOST_SHOWN: Final = 200
"""Maximum number of characters of a faulty line in an error."""
STOP_S: Final = 5.0
"""How long a program may take to end once its input has ended."""
_ANSWER: Final[dict[str, set[str]]] = {
    "scaleUp": {"groups", "pending"},
    "scaleDown": {"unneeded", "removable", "unremovable"},
    "error": set(),
}

Json = dict[str, Any]


class PolicyAnswer(NamedTuple):
    """A program's decision. groups : by how many nodes each group grows; pending : "namespace/name" of pods that no new
    node helps; unneeded : nodes not needed now; removable : those of them that may go; unremovable : reasons of others.
    """

    groups: Mapping[str, int] = {}
    pending: tuple[str, ...] = ()
    unneeded: tuple[str, ...] = ()
    removable: frozenset[str] = frozenset()
    unremovable: Mapping[str, str] = {}


class PolicyProgram:
    """A running program. command : program and arguments; timeout_s : for each answer. Close it."""

    def __init__(self, command: Sequence[str], timeout_s: float) -> None:
        self._name, self._timeout_s = shlex.join(command), timeout_s
        try:
            self._process = subprocess.Popen(
                list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        except OSError as error:
            raise ScenarioError(f"policy {self._name}: it cannot be started: {error.strerror}") from None
        self._lines: SimpleQueue[bytes] = SimpleQueue()
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def ask(self, question: Json) -> PolicyAnswer:
        """Return the answer to a question."""
        assert self._process.stdin is not None, "it is a pipe"
        where = f"policy {self._name}: round {question['round']}"
        try:
            self._process.stdin.write(json.dumps(question, separators=(",", ":")).encode() + b"\n")
            self._process.stdin.flush()
            line = self._lines.get(timeout=self._timeout_s)
        except OSError:
            line = b""
        except Empty:
            self._process.kill()
            raise ScenarioError(f"{where}: there is no answer after {self._timeout_s:g} s") from None
        if not line:
            code = self._process.wait()
            raise ScenarioError(f"{where}: the program has ended with exit code {code} instead of answering")
        return read_answer(where, line)

    def close(self) -> None:
        """End the program."""
        assert self._process.stdin is not None, "it is a pipe"
        assert self._process.stdout is not None, "it is a pipe"
        # A program that has ended reads no rest of a question.
        with suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None, "it is a pipe"
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(b"")


def read_answer(where: str, line: bytes) -> PolicyAnswer:
    """Read a line of a program. `where` begins the errors."""
    try:
        answer: Any = load_json(line)
    except (RepeatedKeyError, ValueError, RecursionError):
        raise ScenarioError(f"{where}: this is no JSON: {line[:MOST_SHOWN].decode(errors='replace')!r}") from None
    if not isinstance(answer, dict):
        raise ScenarioError(f"{where}: an object is expected")
    if answer.get("error"):
        raise ScenarioError(f"{where}: {answer['error']}")
    for part, value in answer.items():
        if part not in _ANSWER:
            raise ScenarioError(f"{where}: {part}: this key is unknown; there are {', '.join(_ANSWER)}")
        if part != "error" and (not isinstance(value, dict) or not value.keys() <= _ANSWER[part]):
            raise ScenarioError(f"{where}: {part}: an object is expected, with {', '.join(sorted(_ANSWER[part]))}")
    up, down = answer.get("scaleUp") or {}, answer.get("scaleDown") or {}
    unneeded = _names(where, "scaleDown.unneeded", down.get("unneeded"))
    removable = _names(where, "scaleDown.removable", down["removable"]) if "removable" in down else unneeded
    return PolicyAnswer(
        _counts(where, up.get("groups")),
        _names(where, "scaleUp.pending", up.get("pending")),
        unneeded,
        frozenset(removable),
        _texts(where, down.get("unremovable")),
    )


def _names(where: str, field: str, value: object) -> tuple[str, ...]:
    if value is not None and not (isinstance(value, list) and all(isinstance(one, str) for one in value)):
        raise ScenarioError(f"{where}: {field}: a list of names is expected")
    return tuple(sorted(set(value or ())))


def _counts(where: str, value: object) -> dict[str, int]:
    counts = value or {}
    if not isinstance(counts, dict):
        raise ScenarioError(f"{where}: scaleUp.groups: an object is expected")
    for group, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise ScenarioError(f"{where}: scaleUp.groups.{group}: {count!r} is no number of nodes")
    return dict(sorted(counts.items()))


def _texts(where: str, value: object) -> dict[str, str]:
    texts = value or {}
    if not isinstance(texts, dict) or not all(isinstance(one, str) for one in texts.values()):
        raise ScenarioError(f"{where}: scaleDown.unremovable: an object with a text for each node is expected")
    return texts
