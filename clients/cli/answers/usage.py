"""Usage beside requests, for people: sums, and the workloads that request most above what they use."""

from collections.abc import Iterator

from trimtab.clients.cli.answers.answer import PlanAnswer
from trimtab.clients.cli.blocks import Table, rows
from trimtab.clients.cli.usage import USAGE_COLUMNS, by_workload, usage_cells, usage_sentence

MOST_ROWS, MOST_WORKLOADS = 5, 200
"""Workloads on a terminal without `--verbose`, and on any."""


def usage_tables(answer: PlanAnswer) -> Iterator[Table]:
    """Yield the workloads with what they request and use, if that is known."""
    if answer.usage is not None:
        lines = rows([usage_cells(one) for one in by_workload(answer.view, answer.usage)[:MOST_WORKLOADS]])
        told, words = f"Usage: {usage_sentence(answer.view, answer.usage)}", USAGE_COLUMNS[:1]
        yield Table("Requests above use", USAGE_COLUMNS, lines, told, words, is_folded=True, most=MOST_ROWS)
