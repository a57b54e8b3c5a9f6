"""Prints blocks on a terminal: the most important of each, everything with `--verbose`. Pictures are told in words.
Shows progress there, which is no part of an answer.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from io import StringIO

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.progress import Progress, ProgressColumn, TextColumn
from rich.table import Table as RichTable
from rich.text import Text

from trimtab.clients.cli.amounts import counted, shown_of
from trimtab.clients.cli.blocks import (
    LATER,
    NO_PODS,
    NOW,
    AnswerPage,
    Block,
    ChangeList,
    Chart,
    DecisionList,
    Facts,
    Figures,
    Maps,
    Sentence,
    Style,
    Table,
)
from trimtab.clients.cli.output import PIPED_WIDTH, SafeConsole, stderr_console

_STYLES = {NOW: "bold green", LATER: "green", "moving": "magenta", NO_PODS: "dim", "all": "bold"}
_BAR = 5
"""Letters of the bar of a share."""
_CODE = re.compile(r" \(([A-Z][A-Z0-9]*_[A-Z0-9_, ]*)\)")
"""Names of the contract behind their clauses."""
_SHORT = 14
"""Longest text, in letters, that is not broken."""


def print_page(console: Console, page: AnswerPage, *, verbose: bool = False) -> None:
    """Print a page, and with `verbose` its parts."""
    print_blocks(console, page.blocks, verbose=verbose)
    for one in page.parts if verbose else ():
        print_part(console, one, verbose=True)


def print_part(console: Console, page: AnswerPage, *, verbose: bool = False) -> None:
    """Print a page with its title, after an empty line."""
    console.print("", f"[bold underline]{escape(page.title)}[/bold underline]", sep="\n")
    print_page(console, page, verbose=verbose)


def print_blocks(console: Console, blocks: Iterable[Block], *, verbose: bool = False) -> None:
    """Print some blocks."""
    for part in printed(blocks, verbose=verbose):
        console.print(part, soft_wrap=isinstance(part, Text))


def text_of(page: AnswerPage) -> str:
    """Return a page as plain text, as wide as in a pipe."""
    console = SafeConsole(file=StringIO(), width=PIPED_WIDTH, highlight=False, emoji=False)
    with console.capture() as found:
        print_page(console, page)
    return "\n".join(line.rstrip() for line in found.get().splitlines())


def print_command(console: Console, text: str) -> None:
    """Print a command in one line that can be copied, however wide the terminal is."""
    console.print(text, soft_wrap=True, markup=False)


@contextmanager
def progress(text: str, *columns: ProgressColumn, total: float | None = None) -> Iterator[Callable[..., None]]:
    """Show on a terminal how far something is, while the context is open. Yields a function that is told `completed`,
    `total` or another `description`.
    """
    console = stderr_console()
    shown = (TextColumn("{task.description}"), *columns)
    with Progress(*shown, console=console, transient=True, disable=not console.is_terminal) as bar:
        yield partial(bar.update, bar.add_task(text, total=total))


def printed(blocks: Iterable[Block], *, verbose: bool = False) -> Iterator[RenderableType]:
    """Yield blocks line by line; a headline, a table with a title and what to change follow an empty line."""
    is_first = True
    for block in blocks:
        parts = list(_parts(block, verbose))
        if not parts:
            continue
        is_part = block.style is Style.HEADLINE if isinstance(block, Sentence) else getattr(block, "title", "-") != ""
        if is_part and not is_first:
            yield ""
        yield from parts
        is_first = False


def _parts(block: Block, verbose: bool) -> Iterator[RenderableType]:
    if isinstance(block, Sentence):
        yield _sentence(block)
    elif isinstance(block, Table):
        if block.lines and (verbose or not block.is_extra):
            yield table_on_terminal(block, verbose=verbose)
            if block.note:
                yield _styled(block.note, Style.MUTED)
    elif isinstance(block, ChangeList):
        if block.changes:
            yield from _changes(block, verbose)
            yield _styled(block.note, Style.MUTED)
    elif verbose:
        yield from _in_words(block)


def _in_words(block: Facts | Figures | Maps | Chart | DecisionList) -> Iterator[RenderableType]:
    """Yield what only pages show otherwise."""
    if isinstance(block, Facts):
        yield _styled("; ".join(block.texts), Style.MUTED)
    elif isinstance(block, Figures):
        for one in block.figures:
            yield escape(f"{one.title}: {one.value}{f' ({one.detail})' if one.detail else ''}")
    elif isinstance(block, Maps):
        yield from (escape(f"{one.title}: {one.description}") for one in block.maps)
    elif isinstance(block, Chart):
        yield escape(f"{block.title}: {block.description}")
    else:
        yield _styled(block.title, Style.HEADLINE)
        for decision in block.decisions:
            yield escape(f"{decision.time} {decision.kind}: {decision.text}")
            yield from (_styled(f"  {what}: {why}", Style.MUTED) for what, why in decision.reasons)


def table_on_terminal(table: Table, *, verbose: bool = False) -> RichTable:
    """Return a table for a terminal."""
    shown = table.lines if verbose or not table.most else table.lines[: table.most]
    printed = _table(f"{table.title}{shown_of(len(shown), len(table.lines))}")
    for at, column in enumerate(table.columns):
        is_text = column in table.sentences
        is_short = all(len(line.cells[at]) <= _SHORT for line in shown)
        printed.add_column(
            escape(column), justify="left" if is_text else "right", no_wrap=is_short or not is_text, overflow="fold"
        )
    for line in shown:
        printed.add_row(*(cell_on_terminal(table, at, cell) for at, cell in enumerate(line.cells)))
        more = line.more if verbose else line.more[: table.most_more]
        if table.most_more and len(line.more) > len(more):
            more = (*more, f"and {len(line.more) - len(more):,} more")
        for text in (*([line.detail] if line.detail else ()), *more):
            printed.add_row(*[""] * (len(table.columns) - 1), f"  [dim]{escape(text)}[/dim]")
    return printed


def _changes(block: ChangeList, verbose: bool) -> Iterator[RenderableType]:
    """Yield a row for each change, and below it the lines to change: each in one line that can be copied."""
    shown = block.changes if verbose or not block.most else block.changes[: block.most]
    count = shown_of(len(shown), len(block.changes)).replace("--verbose", "`trimtab advise -v`")
    columns = {
        "": [change.label for change in shown],
        "nodes": [change.nodes for change in shown],
        "a month": [change.month for change in shown],
    }
    columns = {name: texts for name, texts in columns.items() if any(texts)}
    widths = {name: max(map(len, (name, *texts))) for name, texts in columns.items()}
    indent = " " * (sum(widths.values()) + 2 * len(widths) + 2)
    for at, change in enumerate(shown):
        table = _table("" if at else f"{block.title}{count}")
        table.show_header = not at
        for name, width in widths.items():
            table.add_column(name, width=width, justify="right" if name else "left")
        table.add_column("if", overflow="fold")
        table.add_row(*(escape(texts[at]) for texts in columns.values()), escape(change.condition))
        yield table
        lines = change.lines
        if len(lines) > 1 and not verbose:
            lines = (f"{lines[0]} (and {counted(len(lines) - 1, 'more line')})",)
        for text in (*([change.steps] if change.steps else []), *lines):
            yield Text(f"{indent}{text}", style="dim", no_wrap=True, overflow="ignore")


def _table(title: str) -> RichTable:
    return RichTable(title=escape(title) or None, title_justify="left", box=None, padding=(0, 2, 0, 0))


def _sentence(sentence: Sentence) -> RenderableType:
    """Return a sentence; a long indented one continues with the same indentation."""
    lead, text = (sentence.lead, escape(sentence.text)) if sentence.lead else (sentence.text, "")
    shown = _CODE.sub(r" [dim](\1)[/dim]", f"{_styled(lead, sentence.style)}{text}")
    return Padding(shown, (0, 0, 0, sentence.indent), expand=False) if sentence.indent else shown


def _styled(text: str, style: Style) -> str:
    return f"[{style}]{escape(text)}[/{style}]" if style else escape(text)


def cell_on_terminal(table: Table, at: int, cell: str) -> str:
    """Return a cell as rich text; a share with a bar, in colours: what is poorly packed stands out, and what is asked
    too much of.
    """
    if table.columns[at] in table.shares and cell:
        share = int(cell.removesuffix(" %"))
        full = min(_BAR, round(share / 100 * _BAR))
        style = "red" if share > 100 else "green" if share >= 50 else "yellow"
        return f"[{style}]{'█' * full}{'░' * (_BAR - full)} {cell:>5}[/{style}]"
    style = _STYLES.get(cell, "")
    return f"[{style}]{cell}[/{style}]" if style else escape(cell)
