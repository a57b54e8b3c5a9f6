"""Which rows of the screen are shown, in which order, and how a terminal shows them: view, filter, node group, sort
column. Draws nothing.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from rich.cells import cell_len
from rich.text import Text

from trimtab.clients.cli.blocks import Line, Sentence, Table
from trimtab.clients.cli.terminal import cell_on_terminal
from trimtab.clients.cli.top.screen import NodeState, TopView
from trimtab.common.documents.output import visible

WIDE: Final = 100
"""From this width on, tables show all their columns."""
_WIDE_ONLY: Final = {
    TopView.NODES: ("pods", "state"),
    TopView.GROUPS: ("least", "most"),
    TopView.DELETIONS: ("group",),
    TopView.PENDING: (),
    TopView.GROWTH: (),
}
_LONGEST_NAME: Final = 32
_STATES: Final = tuple(NodeState)
SORT_KEYS: Final = {
    "B": (),
    "N": ("node", "node group"),
    "C": ("cpu",),
    "M": ("memory",),
    "P": ("pods", "nodes"),
    "H": ("an hour",),
    "S": ("state", "go"),
}
"""The letters that sort, and the columns by which; B = in the screen's own order."""
_NAMES: Final = ("node", "node group", "of")
_GROUPS: Final = ("group", "node group")


class Selection(NamedTuple):
    """What the user has chosen. group : None = all; sort : a column, "" = the screen's own order; is_reversed : the
    other way round.
    """

    view: TopView = TopView.NODES
    filter: str = ""
    group: str | None = None
    sort: str = ""
    is_reversed: bool = False


def name_of(table: Table, line: Line) -> str:
    """Return the name of what a row is about: a node, a group, a controller."""
    return line.cells[next(at for at, column in enumerate(table.columns) if column in _NAMES)]


def lines_of(table: Table, chosen: Selection) -> list[Line]:
    """Return the rows to show, in order. O(rows log rows)."""
    lines = [line for line in table.lines if _is_wanted(table, line, chosen)]
    if chosen.sort not in table.columns:
        return lines[::-1] if chosen.is_reversed and not chosen.sort else lines
    at = table.columns.index(chosen.sort)
    is_descending = chosen.sort not in table.sentences
    return sorted(lines, key=lambda line: _value(line.cells[at]), reverse=is_descending != chosen.is_reversed)


def _value(cell: str) -> tuple[float, str]:
    """Return by what a cell is sorted: states by urgency, figures as numbers."""
    if cell in _STATES:
        return float(_STATES.index(NodeState(cell))), ""
    try:
        return float(cell.split(" ", maxsplit=1)[0].replace(",", "")), ""
    except ValueError:
        return 0.0, cell


def _is_wanted(table: Table, line: Line, chosen: Selection) -> bool:
    """Return whether a row is of the chosen group and has all words of the filter; `!` before the filter inverts it."""
    groups = {line.cells[at] for at, column in enumerate(table.columns) if column in _GROUPS}
    if chosen.group is not None and groups and chosen.group not in groups:
        return False
    words = chosen.filter.lower().lstrip("!").split()
    if not words:
        return True
    text = " ".join((*line.cells, *line.more)).lower()
    return all(word in text for word in words) != chosen.filter.startswith("!")


class TerminalRows(NamedTuple):
    """Rows as a terminal shows them. columns : titles and widths."""

    columns: tuple[tuple[str, int], ...]
    rows: tuple[tuple[Text, ...], ...]


def shown(table: Table, lines: Iterable[Line], chosen: Selection, width: int) -> TerminalRows:
    """Return rows for a terminal of so many columns: the last column gets what is left."""
    left_out = () if width >= WIDE else _WIDE_ONLY[chosen.view]
    kept = [at for at, column in enumerate(table.columns) if column not in left_out]
    cells = [[_cell(table, at, line.cells[at]) for at in kept] for line in lines]
    titles = [f"{table.columns[at]}{'↓' if table.columns[at] == chosen.sort else ''}" for at in kept]
    sizes = [max([cell_len(title), *(row[at].cell_len for row in cells)]) for at, title in enumerate(titles)]
    sizes[-1] = max(12, width - sum(sizes[:-1]) - 2 * len(sizes))
    for row in cells:
        for at, cell in enumerate(row):
            cell.truncate(sizes[at], overflow="ellipsis")
            if table.columns[kept[at]] not in table.sentences:
                cell.align("right", sizes[at])
    return TerminalRows(tuple(zip(titles, sizes, strict=True)), tuple(map(tuple, cells)))


def _cell(table: Table, at: int, cell: str) -> Text:
    is_name = table.columns[at] in (*_NAMES, *_GROUPS)
    text = visible(cell).replace("\n", " ")
    return Text.from_markup(cell_on_terminal(table, at, short_name(text) if is_name else text), emoji=False)


def short_name(name: str, size: int = _LONGEST_NAME) -> str:
    """Return a name of a node or a group in at most so many letters: without its domain, or without its middle, since
    its ends tell it from others.
    """
    host = name.split(".", 1)[0]
    if len(name) > size > len(host) and not host.isdigit():
        return f"{host}…"
    if len(name) <= size:
        return name
    head = (size - 1) // 2
    return f"{name[:head]}…{name[len(name) - (size - 1 - head) :]}"


def details(table: Table, line: Line) -> Iterator[Sentence]:
    """Yield what a row has no room for: each of its cells, and what belongs to it."""
    for column, cell in zip(table.columns, line.cells, strict=True):
        if cell:
            yield Sentence(f": {cell}", lead=column)
    yield Sentence("")
    yield from (Sentence(text, indent=2) for text in line.more)


HELP: Final = (
    "j k ↑ ↓        move          g G            first and last row",
    "PgUp PgDn      page          enter          details: why a node goes or stays; the nodes of a group",
    "/              filter: words that a row has; ! before them: that it has not",
    ":              view: nodes, groups, pending, deletions, growth; q leaves",
    "tab            next view     esc            back: filter, group, view",
    "space          pause         q              quit",
    "",
    "Sort, again the other way round; or click on the title of a column",
    "B by group     N name        C cpu          M memory",
    "P pods         H price       S state",
    "",
    "Colours: bars below half are yellow, above it green, red where more is requested than there is",
)
HELP_OF_ROUNDS: Final = (
    "",
    "Recording",
    "[ ] ← →        a round back, forth",
    "home end       first and last round",
    "space          play, stop",
)
