"""The content of a report's page as values, and its rendering: one self-contained HTML file.

Decides what is shown; the template decides where. No text of the input reaches the page unescaped.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, NamedTuple


class Chart(NamedTuple):
    """A chart. description : its content, for screen readers; figure : as Plotly's JSON. title : its heading."""

    title: str
    description: str
    figure: str


class Line(NamedTuple):
    """A row of a table; the first cell is its name. `cells` : text, one a column."""

    cells: tuple[str, ...]


class Table(NamedTuple):
    """A table. note : a sentence above it, "" = none; sentences : columns that hold words instead of figures. title :
    its heading; lines : its rows.
    """

    title: str
    columns: tuple[str, ...]
    lines: tuple[Line, ...]
    note: str = ""
    sentences: tuple[str, ...] = ()


class Cell(NamedTuple):
    """A node of a map. text : what it is and what is on it; segments : colour and share of its cpu in per cent."""

    text: str
    segments: tuple[tuple[str, float], ...]


class MapRow(NamedTuple):
    """The nodes of one node group. `title` : the group's name; `cells` : one a node."""

    title: str
    cells: tuple[Cell, ...]


class Map(NamedTuple):
    """A map of nodes. description : its content, for screen readers; legend : name and colour. title : its heading;
    rows : one a node group.
    """

    title: str
    description: str
    rows: tuple[MapRow, ...]
    legend: tuple[tuple[str, str], ...]


class ShownDecision(NamedTuple):
    """A decision with its reasons. identity : id of its element, which opens on a click in a chart. time : as shown;
    kind : which decision it is; text : what was decided.
    """

    identity: str
    time: str
    kind: str
    text: str
    reasons: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class ReportPage:
    """A page. headline : the most important sentence. title : its heading; tables, charts, maps : in the order of the
    page; decisions : (heading, rows); details : tables at its end.
    """

    title: str
    headline: str
    tables: Sequence[Table] = ()
    charts: Sequence[Chart] = ()
    maps: Sequence[Map] = ()
    decisions: Sequence[tuple[str, Sequence[ShownDecision]]] = ()
    details: Sequence[Table] = ()


def without_empty_columns(table: Table) -> Table:
    """Return a table without the columns in which no row has a text; the first one stays."""
    kept = [at for at in range(len(table.columns)) if at == 0 or any(line.cells[at] for line in table.lines)]
    lines = tuple(Line(tuple(line.cells[at] for at in kept)) for line in table.lines)
    return table._replace(columns=tuple(table.columns[at] for at in kept), lines=lines)


def rendered(page: ReportPage) -> str:
    """Return the HTML."""
    import jinja2
    from plotly.offline import get_plotlyjs

    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    template = environment.from_string((files("trimtab.clients.cli.report") / "page.html").read_text(encoding="utf-8"))
    script = get_plotlyjs() if page.charts else ""
    figures = f"[{','.join(chart.figure for chart in page.charts)}]"
    return template.render(page=page, plotly=jinja2_safe(script), figures=jinja2_safe(_script_safe(figures)))


def jinja2_safe(text: str) -> Any:
    """Return a text that the template inserts without escaping."""
    from markupsafe import Markup

    return Markup(text)


def _script_safe(document: str) -> str:
    """Return JSON that cannot end a script element: characters of tags are escaped."""
    json.loads(document)
    for letter in "<>&\u2028\u2029":
        document = document.replace(letter, f"\\u{ord(letter):04x}")
    return document
