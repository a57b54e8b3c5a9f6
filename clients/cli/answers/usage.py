"""Usage beside requests, for people: sums, and the workloads that request most above what they use."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.markup import escape

from trimtab.clients.cli.answers.answer import PlanAnswer
from trimtab.clients.cli.blocks import Table, on_terminal, rows
from trimtab.clients.cli.usage import USAGE_COLUMNS, by_workload, usage_cells, usage_sentence

MOST_ROWS, MOST_WORKLOADS = 5, 200
"""Workloads on a terminal without `--verbose`, and on any."""


def render(answer: PlanAnswer) -> Iterator[RenderableType]:
    """Yield nothing without figures, else the sums and the workloads."""
    for table in usage_tables(answer):
        yield from ("", f"Usage: {escape(table.note)}", on_terminal(table, verbose=answer.verbose))


def usage_tables(answer: PlanAnswer) -> Iterator[Table]:
    """Yield the workloads with what they request and use, if that is known."""
    if answer.usage is not None:
        lines = rows([usage_cells(one) for one in by_workload(answer.view, answer.usage)[:MOST_WORKLOADS]])
        told, words = usage_sentence(answer.view, answer.usage), USAGE_COLUMNS[:1]
        yield Table("Requests above use", USAGE_COLUMNS, lines, told, words, is_folded=True, most=MOST_ROWS)
