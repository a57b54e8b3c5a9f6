"""A recording as pictures, one for each round: forwards, backwards, playing. Shows what was answered then; plans
nothing.

Memory: the rounds as recorded, and a cluster for every few rounds, packed. A step back reads the rounds since
the checkpoint before it. Errors: UsageError for a recording without rounds, or one that is damaged before its first.
"""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from trimtab.clients.cli.answers.answer import PlanAnswer
from trimtab.clients.cli.label_groups import group_by_labels
from trimtab.clients.cli.live.rounds_reader import Recorded, RecordedClusters
from trimtab.clients.cli.output import notes_collected
from trimtab.clients.cli.prices import Prices, apply_prices
from trimtab.clients.cli.top.feed import Feed, Picture, PictureSink
from trimtab.clients.cluster_view import ClusterView
from trimtab.v1 import plan_pb2

PLAY_S: Final = 0.5
"""Time for which a round is shown while the recording plays."""


class RecordedFeed(Feed):
    """The rounds of a recording. Begins with the last one."""

    has_rounds = True

    def __init__(
        self, path: Path, rounds: list[Recorded], prices: Prices | None = None, labels: tuple[str, ...] | None = None
    ) -> None:
        """prices : of a file; labels : of node groups, for a cluster without them."""
        self._path, self._rounds, self._prices, self._labels = path, rounds, prices, labels
        self._clusters = RecordedClusters(rounds)
        self._changed = threading.Condition()
        self._index = len(rounds) - 1
        self.is_paused, self._is_stopped = True, False

    def run(self, sink: PictureSink) -> None:
        """Show a round whenever another one is chosen, and the next ones while the recording plays."""
        shown = -1
        while True:
            with self._changed:
                if self._is_stopped:
                    return
                index = self._index
            if index != shown:
                try:
                    sink.show(self.picture(index))
                except (ValueError, IndexError, KeyError) as error:
                    sink.say(f"round {index + 1} cannot be shown: its changes do not fit the cluster before ({error})")
                shown = index
            with self._changed:
                if not self._is_stopped and self._index == shown and not self._changed.wait(PLAY_S):
                    self._play_on()

    def _play_on(self) -> None:
        """Choose the next round, if the recording plays; the last one ends that."""
        if not self.is_paused and not self._is_stopped:
            self._index = min(self._index + 1, len(self._rounds) - 1)
            self.is_paused = self._index == len(self._rounds) - 1

    def stop(self) -> None:
        """End `run`."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()

    def pause(self, is_paused: bool) -> None:
        """Stop playing, or play on; from the last round, play from the first."""
        with self._changed:
            self.is_paused = is_paused
            if not is_paused and self._index == len(self._rounds) - 1:
                self._index = 0
            self._changed.notify_all()

    def step(self, target: Callable[[int, int], int]) -> None:
        """Go to another round."""
        with self._changed:
            self._index = max(0, min(len(self._rounds) - 1, target(self._index, len(self._rounds))))
            self._changed.notify_all()

    def picture(self, index: int) -> Picture:
        """Return a round. Errors: ValueError, IndexError, KeyError."""
        one = self._rounds[index]
        snapshot = self._clusters.at(index)
        with notes_collected():  # The same for each round.
            group_by_labels(snapshot, self._labels)
            if self._prices is not None:
                apply_prices(snapshot, self._prices)
        request: plan_pb2.PlanRequest = one.request
        answer = PlanAnswer(
            one.answer, ClusterView(snapshot), request.settings, request.now.ToNanoseconds(), prices=self._prices
        )
        position = f"round {index + 1:,} of {len(self._rounds):,}"
        return Picture(answer, None, self._path.name.split(".")[0], position)
