"""The demo's display: blocks, a line for each loop, and on a terminal the deletions in progress below it."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console, Group
from rich.live import Live
from rich.progress import TimeElapsedColumn

from trimtab.clients.cli.amounts import counted
from trimtab.clients.cli.answers.actuation import deletions_of, deletions_table
from trimtab.clients.cli.answers.answer import PlanAnswer
from trimtab.clients.cli.answers.page import print_answer
from trimtab.clients.cli.blocks import AnswerPage, Block, Sentence, Style, led
from trimtab.clients.cli.terminal import print_blocks, print_part, printed, progress
from trimtab.clients.verdicts import staying
from trimtab.places import count_places
from trimtab.v1 import actuator_pb2, plan_pb2

_State = actuator_pb2.DeletionState
_MOST_LIVE_ROWS: Final = 12
_LONG_S: Final = 5.0
"""A start that takes longer has compiled."""


class Screen:
    """Prints the demo's story to a console; `verbose` adds the whole answer of each loop."""

    def __init__(self, console: Console, *, verbose: bool = False) -> None:
        self.console, self._verbose = console, verbose
        self._last_line, self._loops = "", 0

    @contextmanager
    def waiting(self, text: str) -> Iterator[None]:
        """Show what is waited for and for how long, and afterwards how long it took, if that was seconds."""
        self.show(Sentence(f"{text} …", Style.MUTED))
        began = time.monotonic()
        with progress("", TimeElapsedColumn()):
            yield
        took_s = time.monotonic() - began
        if took_s >= _LONG_S:
            self.show(Sentence(f"It took {took_s:.0f} s; the next start takes one or two.", Style.MUTED))

    def chapter(self, title: str, text: str) -> None:
        """Begin a part of the story."""
        self._last_line, self._loops = "", 0
        print_part(self.console, AnswerPage(title, (Sentence(text),)))

    def show(self, *blocks: Block) -> None:
        """Print blocks."""
        print_blocks(self.console, blocks)

    def plan(self, answer: PlanAnswer, took_s: float, in_progress: int) -> None:
        """Show a plan in a line with its number, unless it only waits, or is like the last one shown."""
        decision, growth = answer.response.scale_down, answer.response.scale_up
        added = sum(split.new_size - split.current_size for split in growth.splits)
        going = len(decision.delete_empty) + len(decision.drain)
        waiting = sum(node.fate == plan_pb2.NodeFate.GOES_LATER for node in answer.response.nodes)
        coming = count_places(growth.places).upcoming
        parts = [
            f"{counted(added, 'node')} added to {counted(len(growth.splits), 'group')}" if added else "",
            f"{_go(going)} now" if going else "" if added or coming else "nothing left to remove",
            f"{waiting} can go later" if waiting else "",
            f"{_wait(coming)} for new nodes" if coming else "",
            f"{in_progress} in progress" if in_progress else "",
            f"{sum(1 for _ in staying(answer.response))} stay",
        ]
        text = ", ".join(part for part in parts if part)
        only_waits = in_progress and not (added or going)
        if text != self._last_line and not only_waits:
            self._loops += 1
            self._last_line = text
            self.show(led(Style.GOOD, f"Loop {self._loops}:", f" {text} (planned in {1000 * took_s:.0f} ms)"))
        if self._verbose:
            print_answer(self.console, answer)

    def crash(self, in_progress: int, draining: int, away_s: float) -> None:
        """Show that the actuator was killed and is back."""
        text = (
            f" of the actuator while it deletes {counted(in_progress, 'node')}, {draining} of them half drained; "
            f"restarted after {away_s:.1f} s, it continues."
        )
        self.show(led(Style.BAD, "kill -9", text))

    def follow(self, statuses: Iterable[actuator_pb2.ActuatorStatus]) -> None:
        """Show deletions on a terminal until the statuses end; without a terminal only wait."""
        if not self.console.is_terminal:
            for _ in statuses:
                pass
            return
        with Live(console=self.console, refresh_per_second=10, transient=True) as live:
            for status in statuses:
                live.update(Group(*printed(_progress(status))))


def _go(count: int) -> str:
    """Return "1 node goes", "2 nodes go"."""
    return f"{counted(count, 'node')} {'goes' if count == 1 else 'go'}"


def _wait(count: int) -> str:
    """Return "1 pod waits", "2 pods wait"."""
    return f"{counted(count, 'pod')} {'waits' if count == 1 else 'wait'}"


def _progress(status: actuator_pb2.ActuatorStatus) -> Iterator[Block]:
    """Yield the deletions in progress, draining ones first, and how many there are in each state."""
    deletions = sorted(deletions_of(status, time.time(), 0), key=lambda one: (one.state != "draining", one.node))
    yield deletions_table(deletions[:_MOST_LIVE_ROWS], "")
    counts = Counter(one.state for one in (*status.deletions, *status.finished))
    yield Sentence(", ".join(f"{counts[state]} {_State.Code.Name(state).lower()}" for state in sorted(counts)))
