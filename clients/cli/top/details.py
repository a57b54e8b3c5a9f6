"""The texts that cover the screen: details of a row beside those of its node, and help."""

from collections.abc import Iterator
from typing import Final

from rich.markup import escape

from trimtab.clients.cli.amounts import counted, duration
from trimtab.clients.cli.answers.costs import money
from trimtab.clients.cli.screen.model import GroupLine, GrowthLine, NodeLine, PendingLine, RemovalLine
from trimtab.clients.cli.top.rows import Row
from trimtab.common.documents.output import visible

MOST_PODS: Final = 200
HELP: Final = [
    "[bold]trimtab top[/bold]",
    "",
    "j k ↑ ↓        move          g G            first and last row",
    "PgUp PgDn      page          enter          details: why a node goes or stays",
    "/              filter: words that a row has; ! before them: that it has not",
    ":              view: nodes, groups, pending, deletions, growth; q leaves",
    "tab            next view     esc            back: filter, group, view",
    "1 to 9         nodes of one of the largest groups; 0 all",
    "space          pause         q              quit",
    "",
    "[bold]Sort[/bold], again: the other way round",
    "B by group     N name        C cpu          M memory",
    "P pods         H price       S state",
    "",
    "[bold]Colours[/bold]",
    "[green]green[/green] can go, [bold green]bold[/bold green] goes now, [magenta]magenta[/magenta] is being deleted;"
    " bars: [yellow]below half[/yellow], [green]above[/green], [red]more requested than there is[/red]",
]
HELP_OF_ROUNDS: Final = [
    "",
    "[bold]Recording[/bold]",
    "[ ] ← →        a round back, forth",
    "home end       first and last round",
    "space          play, stop",
]


def row_details(row: Row) -> list[str]:
    """Return what a row has no room for, as lines of rich text, ending with an empty one if there are any."""
    lines = [escape(visible(line)) for line in _lines(row)]
    return [*lines, ""] if lines else []


def _lines(row: Row) -> Iterator[str]:
    if isinstance(row, NodeLine):
        yield row.verdict
    elif isinstance(row, RemovalLine):
        yield f"Node {row.node}: {row.state} for {duration(row.seconds)}."
        if row.pods_total > 0:
            yield f"{row.pods_gone} of {counted(row.pods_total, 'pod')} gone."
        yield row.detail
    elif isinstance(row, PendingLine):
        yield f"{counted(len(row.pods), 'pod')} of {row.owner}: {row.reason}"
        yield ""
        yield from (f"  {pod}" for pod in row.pods[:MOST_PODS])
        if len(row.pods) > MOST_PODS:
            yield f"  and {len(row.pods) - MOST_PODS:,} more"
    elif isinstance(row, GrowthLine):
        most = f" of at most {row.most:,}" if row.most >= 0 else ""
        yield f"Node group {row.group} grows from {row.current:,} to {row.new:,}{most} nodes."
        yield f"It does so for {counted(row.pods, 'pod')}."
        if row.price is not None:
            yield f"That costs {money(row.price)} an hour."
        yield row.reason
    else:
        assert isinstance(row, GroupLine)
