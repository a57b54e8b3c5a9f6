"""Tables of an answer, built once and printed on a terminal or on a page. A new column or row is added where the table
is built, and every printer shows it.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from rich.markup import escape
from rich.table import Table as RichTable

from trimtab.clients.cli.amounts import shown_of

NO_PODS: Final = "no pods to move"
NOW: Final = "now"
_STYLES: Final = {NOW: "green", NO_PODS: "dim", "all": "bold"}
"""Words of cells that stand out on a terminal."""
_SHORT: Final = 14
"""Longest text, in letters, that a terminal does not break."""


class Line(NamedTuple):
    """A row of a table. cells : text, one a column; more : lines that a click, or `--verbose`, shows below the row;
    detail : a clause that is always below it.
    """

    cells: tuple[str, ...]
    more: tuple[str, ...] = ()
    detail: str = ""


class Table(NamedTuple):
    """A table. title : its heading; lines : its rows; note : a sentence above it on a page, "" = none; sentences :
    columns that hold words instead of figures; is_folded : a click shows it; most : rows on a terminal without
    `--verbose`, 0 = all; heading : the column that names a row, which a page shows first.
    """

    title: str
    columns: tuple[str, ...]
    lines: tuple[Line, ...]
    note: str = ""
    sentences: tuple[str, ...] = ()
    is_folded: bool = False
    most: int = 0
    heading: int = 0

    @property
    def by_heading(self) -> "Table":
        """The table with the column that names a row first."""
        order = [self.heading, *(at for at in range(len(self.columns)) if at != self.heading)]
        lines = tuple(line._replace(cells=tuple(line.cells[at] for at in order)) for line in self.lines)
        return self._replace(columns=tuple(self.columns[at] for at in order), lines=lines, heading=0)


def without_empty_columns(table: Table) -> Table:
    """Return a table without the columns in which no row has a text; the first one stays."""
    kept = [at for at in range(len(table.columns)) if at == 0 or any(line.cells[at] for line in table.lines)]
    lines = tuple(line._replace(cells=tuple(line.cells[at] for at in kept)) for line in table.lines)
    return table._replace(columns=tuple(table.columns[at] for at in kept), lines=lines)


def on_terminal(table: Table, *, verbose: bool = False) -> RichTable:
    """Return a table for a terminal."""
    shown = table.lines if verbose or not table.most else table.lines[: table.most]
    title = f"{table.title}{shown_of(len(shown), len(table.lines))}"
    printed = RichTable(title=title or None, title_justify="left", box=None, padding=(0, 2, 0, 0))
    for at, column in enumerate(table.columns):
        is_text = column in table.sentences
        is_short = all(len(line.cells[at]) <= _SHORT for line in shown)
        printed.add_column(
            column, justify="left" if is_text else "right", no_wrap=is_short or not is_text, overflow="fold"
        )
    for line in shown:
        printed.add_row(*map(_styled, line.cells))
        for text in (*([line.detail] if line.detail else ()), *(line.more if verbose else ())):
            printed.add_row(*[""] * (len(table.columns) - 1), f"  [dim]{escape(text)}[/dim]")
    return printed


def _styled(cell: str) -> str:
    style = _STYLES.get(cell)
    return f"[{style}]{cell}[/{style}]" if style else escape(cell)


def rows(cells: Sequence[Sequence[str]]) -> tuple[Line, ...]:
    """Return rows without anything below them."""
    return tuple(Line(tuple(one)) for one in cells)
