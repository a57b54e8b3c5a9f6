"""What the demo shows: on a terminal live, elsewhere a line for each step."""

from collections import Counter
from collections.abc import Iterable

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text
from trimtab.v1 import actuator_pb2, plan_pb2

from clients.cli.amounts import counted, some
from clients.cli.plan_tables import print_scale_down, staying

_State = actuator_pb2.DeletionState
_MOST_LIVE_ROWS = 12


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

    def plan(self, loop: int, answer: plan_pb2.PlanResponse, took_s: float, in_progress: int) -> None:
        """Show a plan: the first of a chapter and one that removes nothing in full, the others in a line."""
        decision = answer.scale_down
        going = [*decision.delete_empty, *decision.drain]
        self.console.print(f"\n[bold]Loop {loop}[/bold] [dim](planned in {1000 * took_s:.0f} ms, all told)[/dim]")
        if loop == 1:
            print_scale_down(self.console, decision, 0)
            return
        waiting = len(decision.unneeded) - len(going)
        parts = [
            f"[green]{counted(len(going), 'node')} more to go[/green]: {escape(some(going))}"
            if going
            else "none to add",
            f"{in_progress} in progress" if in_progress else "",
            f"{waiting} could go but wait" if waiting else "",
            f"{len(decision.unremovable)} stay",
        ]
        self.console.print("; ".join(part for part in parts if part))
        if not going and not in_progress and not waiting:
            self.console.print(staying(decision))

    def follow(self, statuses: Iterable[actuator_pb2.ActuatorStatus]) -> None:
        """Show deletions until the statuses end; elsewhere than on a terminal, only where they stand then."""
        if self.console.is_terminal:
            with Live(console=self.console, refresh_per_second=10, transient=True) as live:
                for status in statuses:
                    live.update(_live_table(status))
            return
        last: actuator_pb2.ActuatorStatus | None = None
        for status in statuses:
            last = status
        if last is not None:
            self.console.print(f"  {_summary(last)}")


def _summary(status: actuator_pb2.ActuatorStatus) -> str:
    """How many deletions are in which state, in the order of the states."""
    counts = Counter(one.state for one in (*status.deletions, *status.finished))
    return ", ".join(f"{counts[state]} {_State.Code.Name(state).lower()}" for state in sorted(counts))


def _live_table(status: actuator_pb2.ActuatorStatus) -> RenderableType:
    """A bar for each node that is under way, and one for all."""
    table = Table.grid(padding=(0, 1))
    # Those that drain show most; the rest is in the sum below.
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
