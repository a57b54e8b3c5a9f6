"""The demo's display: a line for each loop, and on a terminal live progress below it."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TimeElapsedColumn
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from trimtab.clients.cli.amounts import counted
from trimtab.clients.cli.answers.answer import PlanAnswer
from trimtab.clients.cli.answers.page import print_answer
from trimtab.clients.verdicts import staying
from trimtab.places import count_places
from trimtab.v1 import actuator_pb2, plan_pb2

_State = actuator_pb2.DeletionState
_MOST_LIVE_ROWS = 12
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
        self.console.print(f"[dim]{text} …[/dim]")
        began = time.monotonic()
        columns = (SpinnerColumn(), TimeElapsedColumn())
        with Progress(*columns, console=self.console, transient=True, disable=not self.console.is_terminal) as bar:
            bar.add_task("")
            yield
        took_s = time.monotonic() - began
        if took_s >= _LONG_S:
            self.console.print(f"[dim]It took {took_s:.0f} s; the next start takes one or two.[/dim]")

    def chapter(self, title: str, text: str) -> None:
        """Begin a part of the story."""
        self._last_line, self._loops = "", 0
        self.console.print()
        self.console.rule(f"[bold]{escape(title)}[/bold]", align="left")
        self.console.print(text)

    def print(self, text: RenderableType) -> None:
        """Print rich text or a table."""
        self.console.print(text)

    def print_all(self, lines: Iterable[RenderableType]) -> None:
        """Print lines and tables."""
        for line in lines:
            self.console.print(line)

    def command(self, text: str) -> None:
        """Print a command in one line that can be copied, however wide the terminal is."""
        self.console.print(text, soft_wrap=True, markup=False, highlight=False)

    def plan(self, answer: PlanAnswer, took_s: float, in_progress: int) -> None:
        """Show a plan in a line with its number, unless it only waits, or is like the last one shown."""
        decision, growth = answer.response.scale_down, answer.response.scale_up
        added = sum(split.new_size - split.current_size for split in growth.splits)
        going = len(decision.delete_empty) + len(decision.drain)
        waiting = sum(one.fate == plan_pb2.NodeFate.GOES_LATER for one in answer.response.nodes)
        coming = count_places(growth.places).upcoming
        parts = [
            f"[green]{counted(added, 'node')} added[/green] to {counted(len(growth.splits), 'group')}" if added else "",
            f"[green]{_go(going)} now[/green]" if going else "" if added or coming else "nothing left to remove",
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
            self.console.print(f"Loop {self._loops}: {text} [dim](planned in {1000 * took_s:.0f} ms)[/dim]")
        if self._verbose:
            print_answer(self.console, answer)

    def crash(self, in_progress: int, draining: int, away_s: float) -> None:
        """Show that the actuator was killed and is back."""
        self.console.print(
            f"[red]kill -9[/red] of the actuator while it deletes {counted(in_progress, 'node')}, {draining} of them "
            f"half drained; restarted after {away_s:.1f} s, it continues."
        )

    def follow(self, statuses: Iterable[actuator_pb2.ActuatorStatus]) -> None:
        """Show deletions on a terminal until the statuses end; without a terminal only wait."""
        if not self.console.is_terminal:
            for _ in statuses:
                pass
            return
        with Live(console=self.console, refresh_per_second=10, transient=True) as live:
            for status in statuses:
                live.update(_live_table(status))


def _go(count: int) -> str:
    """Return "1 node goes", "2 nodes go"."""
    return f"{counted(count, 'node')} {'goes' if count == 1 else 'go'}"


def _wait(count: int) -> str:
    """Return "1 pod waits", "2 pods wait"."""
    return f"{counted(count, 'pod')} {'waits' if count == 1 else 'wait'}"


def _summary(status: actuator_pb2.ActuatorStatus) -> str:
    """Return how many deletions are in which state, in the order of the states."""
    counts = Counter(one.state for one in (*status.deletions, *status.finished))
    return ", ".join(f"{counts[state]} {_State.Code.Name(state).lower()}" for state in sorted(counts))


def _live_table(status: actuator_pb2.ActuatorStatus) -> RenderableType:
    """Return a bar for each node in progress, and one for all."""
    table = Table.grid(padding=(0, 1))
    # Draining nodes show the most; the others are in the sum below.
    active = sorted(status.deletions, key=lambda one: (one.state != _State.DRAINING, one.start_time.seconds, one.node))
    for one in active[:_MOST_LIVE_ROWS]:
        bar = ProgressBar(total=max(1, one.pods_total_count), completed=one.pods_gone_count, width=24)
        pods = f"{one.pods_gone_count}/{one.pods_total_count} pods" if one.drain else "empty"
        table.add_row(Text(one.node), Text(_State.Code.Name(one.state).lower(), style="yellow"), bar, Text(pods))
    if len(active) > _MOST_LIVE_ROWS:
        table.add_row(Text(f"… and {len(active) - _MOST_LIVE_ROWS} more", style="dim"))
    total = len(status.deletions) + len(status.finished)
    overall = ProgressBar(total=max(1, total), completed=len(status.finished), width=60)
    return Group(table, Text(_summary(status)), overall)
