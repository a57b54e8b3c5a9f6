"""Usage beside requests, for people: sums, and the workloads that request most above what they use."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from trimtab.clients.cli.amounts import shown_of
from trimtab.clients.cli.answers.answer import PlanAnswer
from trimtab.clients.cli.usage import USAGE_COLUMNS, by_workload, usage_cells, usage_sentence

MOST_ROWS = 5


def render(answer: PlanAnswer) -> Iterator[RenderableType]:
    """Yield nothing without figures, else the sums and the workloads."""
    if answer.usage is None:
        return
    rows = by_workload(answer.view, answer.usage)
    shown = rows if answer.verbose else rows[:MOST_ROWS]
    title = f"Requests above use{shown_of(len(shown), len(rows))}"
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))
    for number, column in enumerate(USAGE_COLUMNS):
        table.add_column(column, justify="right" if number else "left", overflow="fold")
    for one in shown:
        table.add_row(*(escape(cell) for cell in usage_cells(one)))
    yield from ("", f"Usage: {escape(usage_sentence(answer.view, answer.usage))}", table)
