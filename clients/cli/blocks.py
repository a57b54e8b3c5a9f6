"""The blocks of an answer, built once for each question and printed by several printers: `terminal` prints them on a
terminal, `report.page` as one page of HTML. A new sentence, column or row is added where the block is built, and every
printer shows it. Texts are plain: printers escape them.
"""

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

from trimtab.common.documents.output import visible_texts

NO_PODS: Final = "no pods to move"
NOW: Final = "now"
LATER: Final = "later"
"""Words of cells that stand out on a terminal."""
COLORS: Final = ("#0a58ca", "#d1690e", "#2a7f3f", "#8b3fb0", "#b3261e", "#00798c", "#7a6a00", "#5b5f97")
OTHER: Final = "#57606a"
"""Colours of charts and maps."""
_SHORT: Final = 20
"""Longest cell, in letters, of a column of words that is not broken."""


class Style(StrEnum):
    """How a sentence stands out, as rich names it."""

    HEADLINE = "bold"
    PLAIN = ""
    MUTED = "dim"
    GOOD = "green"
    BAD = "red"
    WARNING = "yellow"
    FAILURE = "bold red"


class Sentence(NamedTuple):
    """A sentence. A headline begins a part of the answer; indent : columns by which it stands below another one; lead :
    its first words, which alone stand out, "" = all of it does. Without text it is a gap between paragraphs.
    """

    text: str
    style: Style = Style.PLAIN
    indent: int = 0
    lead: str = ""


class Facts(NamedTuple):
    """Date, cluster, settings and the like."""

    texts: tuple[str, ...]


class KeyFigure(NamedTuple):
    """One of the figures at the top. detail : a few words below it; is_good : whether it is what the page is about."""

    title: str
    value: str
    detail: str = ""
    is_good: bool = False


class Figures(NamedTuple):
    """The figures at the top. A page that has some begins with its maps and bars."""

    figures: tuple[KeyFigure, ...]


class Bar(NamedTuple):
    """A row as a bar on a page. share : its length, 0 to 1 of the longest."""

    text: str
    value: str
    share: float


class Line(NamedTuple):
    """A row of a table. cells : text, one a column; more : lines that a click, or `--verbose`, shows below the row;
    detail : a clause that is always below it; bar : the row as a bar.
    """

    cells: tuple[str, ...]
    more: tuple[str, ...] = ()
    detail: str = ""
    bar: Bar | None = None


class Table(NamedTuple):
    """A table. title : its heading; lines : its rows; note : a sentence beside it, "" = none; sentences : columns that
    hold words instead of figures; is_folded : a click shows it on a page; is_extra : so it is, and a terminal has it
    with `--verbose` alone; most : rows on a terminal without `--verbose`, 0 = all; most_more : as many of the lines of
    `Line.more` there; heading : the column that names a row, which a page shows first; bars : heading of the rows as
    bars on a page, "" = there are none; is_searchable : a page has fields to search and sort it, for very many rows;
    shares : columns in per cent, which have bars; link : what stands before the name of a row in the address of its
    details on a served page, "" = there are none.
    """

    title: str
    columns: tuple[str, ...]
    lines: tuple[Line, ...]
    note: str = ""
    sentences: tuple[str, ...] = ()
    is_folded: bool = False
    is_extra: bool = False
    most: int = 0
    most_more: int = 0
    heading: int = 0
    bars: str = ""
    is_searchable: bool = False
    shares: tuple[str, ...] = ()
    link: str = ""

    @property
    def by_heading(self) -> "Table":
        """The table with the column that names a row first."""
        order = [self.heading, *(at for at in range(len(self.columns)) if at != self.heading)]
        lines = tuple(line._replace(cells=tuple(line.cells[at] for at in order)) for line in self.lines)
        return self._replace(columns=tuple(self.columns[at] for at in order), lines=lines, heading=0)

    @property
    def words(self) -> Mapping[str, str]:
        """The columns that hold words: "short", which a page does not break, or "words"."""
        indices = {one: self.columns.index(one) for one in self.sentences if one in self.columns}
        return {
            one: "short" if all(len(line.cells[at]) <= _SHORT for line in self.lines) else "words"
            for one, at in indices.items()
        }

    def to_json(self) -> str:
        """Return columns and rows as JSON for scripts: texts once, and rows with their indices."""
        texts: dict[str, int] = {}
        rows = [[texts.setdefault(cell, len(texts)) for cell in line.cells] for line in self.lines]
        columns = [[name, self.words.get(name, ""), name in self.shares] for name in self.columns]
        document = {"columns": columns, "texts": list(texts), "rows": rows, "link": self.link}
        return json.dumps(visible_texts(document), separators=(",", ":"), ensure_ascii=False)


class ChangeLine(NamedTuple):
    """A change and what it frees. nodes, month : more nodes that can go, money saved in a month, "" = not known;
    condition : the change as a clause; sentence : all of it in one; steps : what other values free; lines : what to set
    or run; label : cluster or kind of the change, "" = none.
    """

    nodes: str
    month: str
    condition: str
    sentence: str
    steps: str = ""
    lines: tuple[str, ...] = ()
    label: str = ""


class ChangeList(NamedTuple):
    """What to change, the most valuable first. note : how the changes were found; most : changes on a terminal without
    `--verbose`; shown : changes that a page shows before a click.
    """

    title: str
    note: str
    changes: tuple[ChangeLine, ...]
    most: int = 0
    shown: int = 5


class Cell(NamedTuple):
    """A bar of a map: a node, or several. text : what it is and what is on it; segments : number of the colour and
    share of its cpu in per cent.
    """

    text: str
    segments: tuple[tuple[int, float], ...]


class MapRow(NamedTuple):
    """The nodes of one node group. `title` : the group's name; `cells` : one a node."""

    title: str
    cells: tuple[Cell, ...]


class Map(NamedTuple):
    """A map of nodes. title : its heading; rows : one a node group; description : its content, for screen readers;
    legend : name and colour; size : of bars.
    """

    title: str
    description: str
    rows: tuple[MapRow, ...]
    legend: tuple[tuple[str, str], ...]
    size: str = "medium"


class Maps(NamedTuple):
    """Maps that share colours and scale."""

    maps: tuple[Map, ...]


class Chart(NamedTuple):
    """A chart. title : its heading; description : its content, for screen readers; figure : as JSON for `charts.js`."""

    title: str
    description: str
    figure: str


class RecordedDecision(NamedTuple):
    """A decision with its reasons. identity : id of its element, which opens on a click in a chart. time : as shown;
    kind : which decision it is; text : what was decided.
    """

    identity: str
    time: str
    kind: str
    text: str
    reasons: tuple[tuple[str, str], ...]


class DecisionList(NamedTuple):
    """Decisions over time."""

    title: str
    decisions: tuple[RecordedDecision, ...]


Block = Sentence | Facts | Figures | Table | ChangeList | Maps | Chart | DecisionList


class AnswerPage(NamedTuple):
    """The answer to a question. title : its heading; parts : pages of single clusters."""

    title: str
    blocks: tuple[Block, ...]
    parts: tuple["AnswerPage", ...] = ()


def page_document(page: AnswerPage) -> dict[str, Any]:
    """Return a page for programs: its blocks by their fields, each with its kind."""
    blocks = [{"kind": type(block).__name__, **_fields(block)} for block in page.blocks]
    return {"title": page.title, "blocks": blocks, "parts": [page_document(part) for part in page.parts]}


def _fields(value: Any) -> Any:
    if hasattr(value, "_asdict"):
        return {name: _fields(one) for name, one in value._asdict().items()}
    return [_fields(one) for one in value] if isinstance(value, tuple) else value


def without_empty_columns(table: Table) -> Table:
    """Return a table without the columns in which no row has a text; the first one stays."""
    kept = [at for at in range(len(table.columns)) if at == 0 or any(line.cells[at] for line in table.lines)]
    lines = tuple(line._replace(cells=tuple(line.cells[at] for at in kept)) for line in table.lines)
    heading = kept.index(table.heading) if table.heading in kept else 0
    return table._replace(columns=tuple(table.columns[at] for at in kept), lines=lines, heading=heading)


def led(style: Style, lead: str, text: str) -> Sentence:
    """Return a sentence of which the first words stand out."""
    return Sentence(text, style, lead=lead)


def plain_text(sentence: Sentence) -> str:
    """Return a sentence as plain text."""
    return f"{' ' * sentence.indent}{sentence.lead}{sentence.text}"


def rows(cells: Sequence[Sequence[str]]) -> tuple[Line, ...]:
    """Return rows without anything below them."""
    return tuple(Line(tuple(row)) for row in cells)
