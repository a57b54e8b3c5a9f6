"""A live cluster as pictures: follow it by watches, plan every few seconds, read the actuator's status. Orders nothing.

A round that fails is tried again with growing pauses, for as long as it takes; meanwhile the sink is told why. Raises
what no repetition mends: MissingPermissionError.
"""

import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp

from trimtab.clients.cli.amounts import some
from trimtab.clients.cli.live.last_cluster import LastCluster
from trimtab.clients.cli.output import notes_collected
from trimtab.clients.cli.prices import Prices
from trimtab.clients.cli.top.feed import Picture, PictureSink
from trimtab.clients.loop.rounds import RoundRunner
from trimtab.common.kubernetes.errors import KubernetesError, MissingPermissionError
from trimtab.common.rpc.errors import TrimtabError
from trimtab.common.rpc.retries import Backoff, RetryPolicy, with_retries

_UNTIL_IT_WORKS: Final = RetryPolicy(math.inf, math.inf, Backoff(1.0, 30.0))


@dataclass(frozen=True)
class LiveCalls:
    """What a live feed uses. rounds : makes plans, and orders nothing; last : gets each of them; troubles : returns
    what the cluster's watches report, by kind; name : of the cluster.
    """

    rounds: RoundRunner
    last: LastCluster
    troubles: Callable[[], Mapping[str, str]]
    name: str
    prices: Prices | None = None
    interval_s: float = 5.0


class LiveFeed:
    """Pictures of a live cluster."""

    is_live = True
    has_rounds = False

    def __init__(self, calls: LiveCalls) -> None:
        self._calls = calls
        self._stopped = threading.Event()
        self.is_paused = False
        self._count = 0

    def run(self, sink: PictureSink) -> None:
        """Make rounds until stopped."""
        with notes_collected():
            while not self._stopped.is_set():
                begun_s = time.monotonic()
                if not self.is_paused and not self._made(sink):
                    return
                self._stopped.wait(max(0.1, self._calls.interval_s - (time.monotonic() - begun_s)))

    def _made(self, sink: PictureSink) -> bool:
        """Make a round, repeat it while it fails, and show it; return whether it was made, rather than stopped."""

        def tell(error: BaseException, attempt: int, pause_s: float) -> None:
            sink.say(f"{error} (attempt {attempt}, next in {pause_s:.0f} s)")

        try:
            picture = with_retries(
                self._picture, lambda error: _UNTIL_IT_WORKS if _may_pass(error) else None, self._stopped, tell
            )
        except (TrimtabError, KubernetesError) as error:
            if self._stopped.is_set() and _may_pass(error):
                return False
            raise
        sink.show(picture)
        troubles = self._calls.troubles()
        if troubles:
            kinds = some([f"{kind}: {why}" for kind, why in sorted(troubles.items())], 1)
            sink.say(f"the cluster is not followed at present: {kinds}")
        return True

    def _picture(self) -> Picture:
        self._count += 1
        now = Timestamp()
        now.GetCurrentTime()
        done = self._calls.rounds.run(f"top-{self._count}", now, lambda: False)
        answer = self._calls.last.answer(self._calls.prices)
        assert answer is not None, "a round was made"
        return Picture(answer, done.status, self._calls.name)

    def stop(self) -> None:
        """End `run`, after the call in progress."""
        self._stopped.set()

    def pause(self, is_paused: bool) -> None:
        """Make no rounds, or go on."""
        self.is_paused = is_paused

    def step(self, target: Callable[[int, int], int]) -> None:
        """There are no rounds to go back to."""


def _may_pass(error: BaseException) -> bool:
    """Return whether another attempt may succeed."""
    return isinstance(error, TrimtabError | KubernetesError) and not isinstance(error, MissingPermissionError)
