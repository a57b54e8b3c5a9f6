"""What the demo shows: on a terminal live, elsewhere a line for each step."""

from collections import Counter
from collections.abc import Iterable

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text
from trimtab.v1 import actuator_pb2

_State = actuator_pb2.DeletionState
_MOST_LIVE_ROWS = 12
_DONE = {_State.DELETED, _State.FAILED, _State.CANCELLED}


class Screen:
    """Prints the demo's story to a console."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def chapter(self, title: str, text: str) -> None:
        """Begin a part of the story."""
        self.console.print()
        self.console.rule(f"[bold]{escape(title)}[/bold]", align="left")
        self.console.print(text)

    def say(self, text: str) -> None:
        """Print a line of rich text."""
        self.console.print(text)

    def follow(self, statuses: Iterable[actuator_pb2.ActuatorStatus], request_id: str, total: int) -> None:
        """Show deletions until the statuses end."""
        if not self.console.is_terminal:
            self._follow_in_lines(statuses, request_id, total)
            return
        with Live(console=self.console, refresh_per_second=12, transient=True) as live:
            for status in statuses:
                live.update(_live_table(_of_request(status, request_id), total))

    def _follow_in_lines(
        self, statuses: Iterable[actuator_pb2.ActuatorStatus], request_id: str, total: int
    ) -> None:  # fmt: skip
        """Print a line whenever another tenth of the nodes is done."""
        shown = -1
        for status in statuses:
            deletions = _of_request(status, request_id)
            done = sum(one.state in _DONE for one in deletions)
            if done * 10 // max(total, 1) > shown:
                shown = done * 10 // max(total, 1)
                self.console.print(f"  {_summary(deletions)}")


def _of_request(status: actuator_pb2.ActuatorStatus, request_id: str) -> list[actuator_pb2.NodeDeletion]:
    """The deletions that a request started, by node."""
    found = [one for one in (*status.deletions, *status.finished) if one.request_id == request_id]
    return sorted(found, key=lambda one: one.node)


def _summary(deletions: Iterable[actuator_pb2.NodeDeletion]) -> str:
    """How many are in which state, in the order of the states."""
    counts = Counter(one.state for one in deletions)
    return ", ".join(f"{counts[state]} {_State.Code.Name(state).lower()}" for state in sorted(counts))


def _live_table(deletions: list[actuator_pb2.NodeDeletion], total: int) -> RenderableType:
    """A bar for each node that is under way, and one for all."""
    table = Table.grid(padding=(0, 1))
    active = [one for one in deletions if one.state not in _DONE]
    for one in active[:_MOST_LIVE_ROWS]:
        bar = ProgressBar(total=max(1, one.pods_total_count), completed=one.pods_gone_count, width=24)
        pods = f"{one.pods_gone_count}/{one.pods_total_count} pods" if one.drain else "empty"
        table.add_row(Text(one.node), Text(_State.Code.Name(one.state).lower(), style="yellow"), bar, Text(pods))
    if len(active) > _MOST_LIVE_ROWS:
        table.add_row(Text(f"… and {len(active) - _MOST_LIVE_ROWS} more", style="dim"))
    done = sum(one.state in _DONE for one in deletions)
    overall = ProgressBar(total=total, completed=done, width=48)
    return Group(table, Text(_summary(deletions)), overall)
