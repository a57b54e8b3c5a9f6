"""Prints a page as HTML: one file that works offline. The template decides where blocks stand: facts, figures and
sentences first; then maps and bars, if there are figures; what to change; the other blocks in their order; tables to
search at the end.

No text of the input reaches the page unescaped, nor with characters that change how other texts are shown.
"""

import json
from importlib.resources import files
from typing import Any

from trimtab.clients.cli.blocks import (
    COLORS,
    OTHER,
    AnswerPage,
    Block,
    ChangeList,
    Chart,
    Facts,
    Figures,
    Maps,
    Sentence,
    Style,
    Table,
    plain_text,
)
from trimtab.common.documents.output import visible


class _PageLayout:
    """The blocks of a page by their places. Charts and tables to search get numbers over the whole file, by which
    scripts find their data.
    """

    def __init__(self, page: AnswerPage, scripts: "_Scripts") -> None:
        self.title = page.title
        self.facts = [text for one in page.blocks if isinstance(one, Facts) for text in one.texts]
        self.figures = [figure for one in page.blocks if isinstance(one, Figures) for figure in one.figures]
        texts = [one for one in page.blocks if isinstance(one, Sentence)]
        self.headlines = [plain_text(one) for one in texts if one.style is Style.HEADLINE]
        self.sentences = [one for one in texts if one.style is not Style.HEADLINE]
        shown = [one for one in page.blocks if not isinstance(one, Sentence | Facts | Figures) and not _is_empty(one)]
        self.changes = [one for one in shown if isinstance(one, ChangeList)]
        self.first = [one for one in shown if isinstance(one, Maps)] if self.figures else []
        self.bars = [one for one in shown if isinstance(one, Table) and one.bars] if self.figures else []
        rest = [one for one in shown if one not in self.first and not isinstance(one, ChangeList)]
        self.rest = [(type(one).__name__, one, scripts.number(one)) for one in rest if not _is_searchable(one)]
        self.searchable = [(one, scripts.number(one)) for one in rest if _is_searchable(one)]
        self.parts = [_PageLayout(one, scripts) for one in page.parts]


class _Scripts:
    """The data that scripts draw."""

    def __init__(self) -> None:
        self.figures: list[str] = []
        self.tables: list[str] = []

    def number(self, block: Block) -> int:
        """Take the data of a block; return its number, 0 for one without."""
        if isinstance(block, Chart):
            self.figures.append(block.figure)
            return len(self.figures) - 1
        if isinstance(block, Table) and block.is_searchable:
            self.tables.append(block.to_json())
            return len(self.tables) - 1
        return 0


def _is_empty(block: Block) -> bool:
    return (isinstance(block, Table) and not block.lines) or (isinstance(block, ChangeList) and not block.changes)


def _is_searchable(block: Block) -> bool:
    return isinstance(block, Table) and block.is_searchable


def rendered(page: AnswerPage, version: str = "") -> str:
    """Return the HTML. version : of a served page, which follows `/version` and loads newer ones; "" = it is a file."""
    import jinja2

    folder = files("trimtab.clients.cli.report")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, finalize=_visible
    )
    template = environment.from_string((folder / "page.html").read_text(encoding="utf-8"))
    scripts = _Scripts()
    placed = _PageLayout(page, scripts)
    charts_script = (folder / "charts.js").read_text(encoding="utf-8") if scripts.figures else ""
    return template.render(
        page=placed,
        version=version,
        charts_script=_safe(charts_script),
        figures=_safe(_script_safe(f"[{','.join(scripts.figures)}]")),
        tables=_safe(_script_safe(f"[{','.join(scripts.tables)}]")),
        colors=[*COLORS, OTHER],
    )


def _visible(value: Any) -> Any:
    """Return what the template inserts; of the page's own parts, which are safe, texts of the input are visible."""
    from markupsafe import Markup

    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _safe(text: str) -> Any:
    """Return a text that the template inserts without escaping."""
    from markupsafe import Markup

    return Markup(text)


def _script_safe(document: str) -> str:
    """Return JSON that cannot end a script element: characters of tags are escaped."""
    json.loads(document)
    for letter in "<>&\u2028\u2029":
        document = document.replace(letter, f"\\u{ord(letter):04x}")
    return document
