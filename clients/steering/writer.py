"""Write annotations of nodes by server-side apply, at a limited rate, and none twice. Decides the pace, and how
failures are handled: a node that has gone, or an annotation that somebody else owns, is left alone. A write that is not
visible in the watch yet is not repeated. Units: seconds.
"""

import time
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, Protocol

import msgspec
import structlog

from trimtab.clients.steering.marks import NodeMarks, Write
from trimtab.common.kubernetes.connection import ApiRequest
from trimtab.common.kubernetes.errors import ApiError
from trimtab.common.kubernetes.registry import BY_KIND

log = structlog.get_logger("steer")
_NODE = BY_KIND["Node"]

FIELD_MANAGER: Final = "trimtab-steer"
APPLY_PATCH: Final = "application/apply-patch+yaml"
UNSEEN_S: Final = 60.0
"""How long a write may take to be seen in the watch before it is made again."""
_LEFT_ALONE: Final = (404, 409, 422)
"""The node has gone, another node has its name, or somebody else owns the annotation."""


class Server(Protocol):
    """An API server: `trimtab.common.kubernetes.api.Api`."""

    def read(self, request: ApiRequest) -> bytes:
        """Send a request, once, and return the answer."""


class WriteResult(NamedTuple):
    """The results of writes. left : not made, because time was up or `may_go_on` forbade it; failed : by node. done :
    names of nodes.
    """

    done: list[str]
    failed: dict[str, str]
    left: int = 0


class _SentWrite(NamedTuple):
    """A write, and the node before it. `seen` : its annotations of ours; `sent_s` : monotonic seconds."""

    seen: dict[str, str]
    write: Write
    sent_s: float


class MarkWriter:
    """Writes to one cluster. most_per_s : most writes per second, on average; clock, sleep : for tests."""

    def __init__(
        self,
        api: Server,
        most_per_s: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._api, self._gap_s = api, 1.0 / most_per_s
        self._clock, self._sleep = clock, sleep
        self._next_s = 0.0
        self._sent: dict[str, _SentWrite] = {}

    def unseen(self, writes: Iterable[Write], nodes: Iterable[NodeMarks]) -> list[Write]:
        """Return the writes without those that were made but are not visible yet."""
        seen = {node.name: dict(node.annotations) for node in nodes}
        self._sent = {name: one for name, one in self._sent.items() if self._is_open(one, seen.get(name))}
        return [one for one in writes if _write_of(self._sent.get(one.name)) != one]

    def _is_open(self, sent: _SentWrite, seen: dict[str, str] | None) -> bool:
        return seen == sent.seen and self._clock() - sent.sent_s < UNSEEN_S

    def write(
        self, writes: Iterable[Write], nodes: Iterable[NodeMarks], may_go_on: Callable[[], bool], within_s: float
    ) -> WriteResult:
        """Make writes one after the other; check before each whether to go on, and take at most `within_s`."""
        seen = {node.name: dict(node.annotations) for node in nodes}
        waiting = list(writes)
        end_s = self._clock() + within_s
        result = WriteResult([], {})
        for number, one in enumerate(waiting):
            pause_s = max(0.0, self._next_s - self._clock())
            if self._clock() + pause_s > end_s or not may_go_on():
                return result._replace(left=len(waiting) - number)
            if pause_s:
                self._sleep(pause_s)
            self._next_s = max(self._next_s, self._clock()) + self._gap_s
            problem = self._apply(one)
            self._sent[one.name] = _SentWrite(seen.get(one.name, {}), one, self._clock())
            if problem:
                result.failed[one.name] = problem
            else:
                result.done.append(one.name)
        return result

    def _apply(self, write: Write) -> str:
        """Make one write; return why it failed, "" = success. Errors: KubernetesError where others would fail too."""
        # The uid prevents that a node that has gone is created again.
        metadata = {"name": write.name, "uid": write.uid, "annotations": dict(write.annotations)}
        body = msgspec.json.encode(_NODE.type_meta | {"metadata": metadata})
        query = {"fieldManager": FIELD_MANAGER}
        try:
            self._api.read(ApiRequest("PATCH", _NODE.path_of(write.name), query, body=body, content_type=APPLY_PATCH))
        except ApiError as error:
            if error.status in _LEFT_ALONE:
                return str(error)
            raise
        return ""


def _write_of(sent: _SentWrite | None) -> Write | None:
    """Return the write that was sent."""
    return sent.write if sent is not None else None


def report(result: WriteResult, wanted: list[Write], dry_run: bool) -> None:
    """Log one line on the writes of a round, if there were any, and on conflicting owners."""
    if not wanted:
        return
    log.info(
        "steered",
        protect=sum(one.protects for one in wanted),
        release=sum(not one.protects for one in wanted),
        written=len(result.done),
        left=result.left,
        dry_run=dry_run,
    )
    for name, problem in list(result.failed.items())[:5]:
        log.warning("not_written", node=name, problem=problem)
