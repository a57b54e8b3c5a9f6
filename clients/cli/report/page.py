"""The content of a report's page as values, and its rendering: one self-contained HTML file.

Decides what is shown; the template decides where. No text of the input reaches the page unescaped, nor with characters
that change how other texts are shown.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, NamedTuple

from trimtab.clients.cli.blocks import Table
from trimtab.common.documents.output import visible, visible_texts

COLORS = ("#0a58ca", "#d1690e", "#2a7f3f", "#8b3fb0", "#b3261e", "#00798c", "#7a6a00", "#5b5f97")
OTHER = "#57606a"


class Chart(NamedTuple):
    """A chart. title : its heading; description : its content, for screen readers; figure : as JSON for `charts.js`."""

    title: str
    description: str
    figure: str


class KeyFigure(NamedTuple):
    """One of the figures at the top. detail : a few words below it; is_good : whether it is what the page is about."""

    title: str
    value: str
    detail: str = ""
    is_good: bool = False


class BarLine(NamedTuple):
    """A bar. share : its length, 0 to 1 of the longest; more : lines that a click shows below it."""

    text: str
    value: str
    share: float
    more: tuple[str, ...] = ()


class Bars(NamedTuple):
    """Bars with their values, the longest first; `shown` of them are shown before a click. note : what they are of."""

    title: str
    note: str
    lines: tuple[BarLine, ...]
    shown: int = 5


class AdviceLine(NamedTuple):
    """A change and what it frees. label : a few words before the text, "" = none; text : a sentence; lines : what to
    set or run, the first one shown and the others by a click; steps : what other values free.
    """

    text: str
    lines: tuple[str, ...]
    label: str = ""
    steps: str = ""


class AdviceSection(NamedTuple):
    """What to change, the most valuable first; `shown` of the changes are shown before a click. note : how they were
    found.
    """

    title: str
    note: str
    lines: tuple[AdviceLine, ...]
    shown: int = 5


class NodeGrid(NamedTuple):
    """A large table that can be searched and sorted. Its values are JSON: texts that repeat are in `texts`, and rows
    have their indices.

    columns : title and kind of each: "text", "index", "number" or "percent"
    """

    title: str
    columns: tuple[tuple[str, str], ...]
    texts: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def to_json(self) -> str:
        """Return columns, texts and rows as JSON."""
        document = {"columns": self.columns, "texts": self.texts, "rows": self.rows}
        return json.dumps(visible_texts(document), separators=(",", ":"), ensure_ascii=False)


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
    """A page. title : its heading; headline : the most important sentence; facts : date, cluster, settings and the
    like; tables, charts, maps : in the order of the page; decisions : (heading, rows); details : tables at its end.

    figures, maps and bars are the first screen of a page that has figures; advice : what to do about the bars;
    frontier : a chart of what could be saved at which price, after the advice, None = there is none; parts : pages
    of single clusters, folded, without charts.
    """

    title: str
    headline: str
    tables: Sequence[Table] = ()
    charts: Sequence[Chart] = ()
    maps: Sequence[Map] = ()
    decisions: Sequence[tuple[str, Sequence[ShownDecision]]] = ()
    details: Sequence[Table] = ()
    facts: Sequence[str] = ()
    figures: Sequence[KeyFigure] = ()
    bars: Bars | None = None
    advice: AdviceSection | None = None
    frontier: Chart | None = None
    parts: Sequence["ReportPage"] = ()
    grid: NodeGrid | None = None


def rendered(page: ReportPage) -> str:
    """Return the HTML. Charts of single clusters are not supported: `parts` have none."""
    import jinja2

    folder = files("trimtab.clients.cli.report")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, finalize=_visible
    )
    template = environment.from_string((folder / "page.html").read_text(encoding="utf-8"))
    charts = [*([page.frontier] if page.frontier is not None else []), *page.charts]
    script = (folder / "charts.js").read_text(encoding="utf-8") if charts else ""
    figures = f"[{','.join(chart.figure for chart in charts)}]"
    grids = [one.grid for one in (page, *page.parts) if one.grid is not None]
    return template.render(
        page=page,
        first_chart=len(charts) - len(page.charts),
        charts_script=jinja2_safe(script),
        figures=jinja2_safe(_script_safe(figures)),
        grids=jinja2_safe(_script_safe(f"[{','.join(one.to_json() for one in grids)}]")),
        colors=[*COLORS, OTHER],
    )


def _visible(value: Any) -> Any:
    """Return what the template inserts; of the page's own parts, which are safe, texts of the input are visible."""
    from markupsafe import Markup

    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


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
