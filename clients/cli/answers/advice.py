"""Advice for people: a row for each change with the nodes and the money that it frees, and the lines to change."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from trimtab.clients.advice import Advice, AdviceReport
from trimtab.clients.cli.amounts import counted, shown_of


def render(report: AdviceReport, most: int, *, every_line: bool = False) -> Iterator[RenderableType]:
    """Yield a table of at most so many advices, and what several changes free together."""
    if not report.advice and report.together is None:
        yield "No change that was tried frees another node."
        return
    shown = report.advice[:most]
    table = Table(
        title=f"What to change{shown_of(len(shown), len(report.advice)).replace('--verbose', '`trimtab advise -v`')}",
        title_justify="left", box=None, padding=(0, 2, 0, 0),
    )  # fmt: skip
    table.add_column("nodes", justify="right", no_wrap=True)
    priced = any(one.saving_per_hour is not None for one in report.advice)
    if priced:
        table.add_column("a month", justify="right", no_wrap=True)
    table.add_column("if", overflow="fold")
    for one in shown:
        _add(table, one, priced, every_line)
    if report.together is not None:
        _add(table, report.together, priced, every_line, "together: ")
    yield table


def _add(table: Table, advice: Advice, priced: bool, every_line: bool, prefix: str = "") -> None:
    """Add a row for an advice, and one for each line to change."""
    money = [money_cell(advice)] if priced else []
    table.add_row(f"{advice.node_count:+,}", *money, f"{prefix}{escape(advice.condition)}")
    if advice.steps:
        steps = ", ".join(step_text(one) for one in advice.steps)
        table.add_row("", *([""] if priced else []), f"  [dim]{escape(steps)}[/dim]")
    for text in row_lines(advice, every_line=every_line):
        table.add_row("", *([""] if priced else []), f"  [dim]{escape(text)}[/dim]")


def money_cell(advice: Advice) -> str:
    """Return what an advice saves in a month, "" = no price is known."""
    month = advice.saving_per_month
    return f"{month:,.0f}" if month is not None else ""


def row_lines(advice: Advice, *, every_line: bool) -> list[str]:
    """Return the lines to change, or the first one with the number of the others."""
    found = advice.lines
    if every_line or len(found) < 2:
        return found
    return [f"{found[0]} (and {counted(len(found) - 1, 'more line')})"]


def step_text(advice: Advice) -> str:
    """Return what another value of a line frees: nodes, or money where no more nodes go."""
    month = advice.saving_per_month
    freed = f"{month:,.0f} a month" if month is not None and advice.node_count <= 0 else f"{advice.node_count:+,}"
    return f"{advice.changes[0].after}: {freed}"
