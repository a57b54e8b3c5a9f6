"""`trimtab top` in the terminal: head, table, details, keys as in k9s. Decides what a key does; pictures come from a
feed in a thread of its own.
"""

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from threading import Thread
from typing import ClassVar, Final

from rich.console import Group
from rich.padding import Padding
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.css.query import NoMatches
from textual.screen import ModalScreen
from textual.widgets import DataTable, Input, Static

from trimtab.clients.cli.amounts import duration
from trimtab.clients.cli.blocks import Line, Sentence, Table
from trimtab.clients.cli.top.feed import Feed, Picture
from trimtab.clients.cli.top.rows import (
    HELP,
    HELP_OF_ROUNDS,
    SORT_KEYS,
    WIDE,
    Selection,
    details,
    lines_of,
    name_of,
    shown,
)
from trimtab.clients.cli.top.screen import TopView
from trimtab.common.documents.output import visible

_VIEWS: Final = tuple(TopView)
LOW: Final = 12
"""Below so many lines of the terminal the head is one line."""
MOST_ROWS: Final = 500
"""Rows in the table: each takes half a millisecond to lay out. A filter finds the others."""


class DetailsScreen(ModalScreen[None]):
    """A text over the whole screen: details of a row, or help."""

    CSS = "DetailsScreen { align: center middle; } VerticalScroll { background: $surface; padding: 0 1; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter,question_mark", "app.pop_screen", "back"),
        Binding("j,down", "scroll(1)", "down", show=False),
        Binding("k,up", "scroll(-1)", "up", show=False),
    ]

    def __init__(self, sentences: Iterable[Sentence]) -> None:
        super().__init__()
        self.sentences = tuple(sentences)

    def compose(self) -> ComposeResult:
        """Lay out the text."""
        with VerticalScroll():
            yield Static(Group(*map(_sentence, self.sentences)), markup=False)

    def action_scroll(self, by: int) -> None:
        """Scroll."""
        self.query_one(VerticalScroll).scroll_relative(y=by, animate=False)


def _sentence(sentence: Sentence) -> Padding:
    """Return a sentence that no text of the input styles."""
    lead, text = (sentence.lead, sentence.text) if sentence.lead else (sentence.text, "")
    style = str(sentence.style) or ("bold" if sentence.lead else "")
    return Padding(Text.assemble((visible(lead), style), visible(text)), (0, 0, 0, sentence.indent), expand=False)


class RowTable(DataTable[Text], inherit_bindings=False):
    """The rows, with a cursor; other keys are the business of the app."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "select_cursor", "details"),
        Binding("j,down", "cursor_down", show=False),
        Binding("k,up", "cursor_up", show=False),
        Binding("ctrl+f,pagedown", "page_down", show=False),
        Binding("ctrl+b,pageup", "page_up", show=False),
        Binding("g", "scroll_top", show=False),
        Binding("G", "scroll_bottom", show=False),
    ]


class TopApp(App[None]):
    """The live screen."""

    CSS = """
    Screen { layout: vertical; }
    Static { height: auto; width: 1fr; }
    RowTable { height: 1fr; overflow-x: hidden; }
    #foot { dock: bottom; height: 1; }
    #prompt { dock: bottom; height: 1; border: none; padding: 0; display: none; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,ctrl+c", "quit", "quit"),
        Binding("question_mark", "help", "help"),
        Binding("slash", "prompt('/')", "filter"),
        Binding("colon", "prompt(':')", "view"),
        Binding("escape", "step_back", "back"),
        Binding("space", "pause", "pause"),
        Binding("home", "round(0)", show=False),
        Binding("end", "round(-1)", show=False),
        Binding("tab", "next_view(1)", show=False),
        Binding("shift+tab", "next_view(-1)", show=False),
        Binding("left,left_square_bracket", "step(-1)", show=False),
        Binding("right,right_square_bracket", "step(1)", show=False),
        *(Binding(key, f"sort('{key}')", show=False) for key in SORT_KEYS),
    ]

    def __init__(self, feed: Feed, clock: Callable[[], float] = time.time) -> None:
        """`clock` returns Unix seconds, for ages."""
        super().__init__()
        self._feed, self._clock = feed, clock
        self.picture: Picture | None = None
        self.selection = Selection()
        self.trouble = ""
        self.failure: BaseException | None = None
        self._prompt_kind = "/"
        self._lines: list[Line] = []

    def compose(self) -> ComposeResult:
        """Lay out the screen."""
        yield Static(id="head", markup=False)
        yield RowTable(cursor_type="row", show_row_labels=False)
        yield Static(id="foot", markup=False)
        yield Input(id="prompt")

    def on_mount(self) -> None:
        """Begin to follow the feed."""
        self.query_one(RowTable).focus()
        self._draw_head()
        self.set_interval(1.0, self._draw_head)
        Thread(target=self._follow, name="feed", daemon=True).start()

    def _follow(self) -> None:
        try:
            self._feed.run(self)
        except Exception as error:
            self.call_later(self._fail, error)

    def on_unmount(self) -> None:
        """End the feed."""
        self._feed.stop()

    def show(self, picture: Picture) -> None:
        """Take a picture of the feed, from its thread."""
        # Here and not in the thread that draws.
        _ = picture.screen
        self.call_later(self._take, picture)

    def say(self, text: str) -> None:
        """Take why there is no newer picture, from the feed's thread."""
        self.call_later(self._tell, text)

    def _take(self, picture: Picture) -> None:
        self.picture, self.trouble = picture, ""
        self._draw()

    def _tell(self, text: str) -> None:
        self.trouble = text
        self._draw_head()

    def _fail(self, error: BaseException) -> None:
        """End with the error of the feed, unless there is something to look at."""
        self.failure = error
        if self.picture is None:
            self.exit()
        self._tell(f"{error}")

    def on_resize(self) -> None:
        """Draw for the new size."""
        self._draw()

    def choose(self, selection: Selection) -> None:
        """Show other rows, from the first one on."""
        self.selection = selection
        self._draw(is_same=False)

    @property
    def table(self) -> Table:
        """The rows of the chosen view, before a filter."""
        assert self.picture is not None
        return self.picture.screen.tables[self.selection.view]

    def _draw(self, *, is_same: bool = True) -> None:
        """Draw the rows. is_same : the cursor stays on its row, if that is still there."""
        if self.picture is not None and self.query(RowTable):
            rows, table = self.query_one(RowTable), self.table
            at = rows.cursor_row
            before = self._lines[at].cells[:1] if is_same and 0 <= at < len(self._lines) else ()
            self._lines = lines_of(table, self.selection)
            found = shown(table, self._lines[:MOST_ROWS], self.selection, self.size.width)
            rows.clear(columns=True)
            for title, width in found.columns:
                rows.add_column(Text(title), width=width)
            rows.add_rows(found.rows)
            same = (i for i, line in enumerate(self._lines[:MOST_ROWS]) if line.cells[:1] == before)
            rows.move_cursor(row=next(same, 0))
        self._draw_head()

    def on_data_table_row_highlighted(self) -> None:
        """Show where the cursor is."""
        self._draw_head()

    def _draw_head(self) -> None:
        """Draw everything but the rows."""
        # While the app ends its widgets go one after another, and the clock or a message may come between.
        with suppress(NoMatches):
            head = self._head() if self.picture is not None else []
            self.query_one("#head", Static).update(Text("\n").join(head[: 3 if self.size.height >= LOW else 1]))
            self.query_one("#foot", Static).update(self._foot())

    def _head(self) -> list[Text]:
        """Return name, position, age and pause; then figures and facts."""
        assert self.picture is not None
        screen = self.picture.screen
        age_s = self._clock() - screen.time_s
        age = f"{duration(age_s)} ago" if self._feed.is_live and age_s >= 1 else ""
        remarks = [self.picture.position, age, "paused" if self._feed.is_paused else ""]
        first = [("trimtab top", "bold cyan"), (f"  {visible(screen.name) or 'cluster'}", "bold")]
        first += [(f"  plan of {screen.moment}", ""), *((f"  {visible(text)}", "yellow") for text in remarks if text)]
        is_wide = self.size.width >= WIDE
        money = "   ".join(
            f"{figure.title}: {figure.value}{f', {figure.detail}' if figure.detail and is_wide else ''}"
            for figure in screen.figures.figures
        )
        lines = [Text.assemble(*first), Text(money, "bold"), Text("  ".join(screen.facts))]
        for line in lines:
            line.truncate(self.size.width, overflow="ellipsis")
        return lines

    def _foot(self) -> Text:
        if self.trouble:
            foot = Text(visible(self.trouble).replace("\n", " "), "bold white on red")
        elif self.picture is None:
            foot = Text("waiting for the first plan …", "yellow")
        else:
            chosen, count = self.selection, len(self._lines)
            at = f"{self.query_one(RowTable).cursor_row + 1 if count else 0:,}/{count:,} {chosen.view}"
            first = f", the first {MOST_ROWS:,} are shown" if count > MOST_ROWS else ""
            kept = [f"  /{chosen.filter}"] if chosen.filter else []
            kept += [f"  of {visible(chosen.group)}"] if chosen.group is not None else []
            keys = "[ ] rounds  space play" if self._feed.has_rounds else "space pause"
            hints = f"{first}  ? help  / filter  : view  enter details  {keys}  q quit"
            foot = Text.assemble((at, "bold"), *((text, "yellow") for text in kept), (hints, "dim"))
        foot.truncate(self.size.width, overflow="ellipsis")
        return foot

    def action_round(self, last: int) -> None:
        """Go to the first (0) or the last (-1) round of a recording, or to the first or the last row."""
        if self._feed.has_rounds:
            self._feed.step(lambda _index, count: last % count)
        elif last:
            self.query_one(RowTable).action_scroll_bottom()
        else:
            self.query_one(RowTable).action_scroll_top()

    def action_step(self, by: int) -> None:
        """Go to another round of a recording."""
        if self._feed.has_rounds:
            self._feed.step(lambda index, _count: index + by)

    def action_pause(self) -> None:
        """Take no new picture, or go on; play a recording, or stop."""
        self._feed.pause(not self._feed.is_paused)
        self._draw_head()

    def action_sort(self, key: str) -> None:
        """Sort by a column; by the same one again, the other way round."""
        if self.picture is not None:
            columns = [sort_key for sort_key in SORT_KEYS[key] if sort_key in self.table.columns]
            self._sort(columns[0] if columns else "")

    def on_data_table_header_selected(self, message: RowTable.HeaderSelected) -> None:
        """Sort by the column of a title."""
        self._sort(message.label.plain.rstrip("↓"))

    def _sort(self, column: str) -> None:
        is_same = self.selection.sort == column
        self.choose(self.selection._replace(sort=column, is_reversed=is_same and not self.selection.is_reversed))

    def action_next_view(self, by: int) -> None:
        """Show the next table."""
        at = (_VIEWS.index(self.selection.view) + by) % len(_VIEWS)
        self.choose(self.selection._replace(view=_VIEWS[at], filter=""))

    def action_help(self) -> None:
        """Show the keys."""
        self.push_screen(DetailsScreen(map(Sentence, (*HELP, *(HELP_OF_ROUNDS if self._feed.has_rounds else ())))))

    def action_step_back(self) -> None:
        """Leave the prompt, or take back filter, group and view, one at a time."""
        chosen = self.selection
        if chosen.filter:
            self.choose(chosen._replace(filter=""))
        elif chosen.group is not None:
            self.choose(chosen._replace(group=None))
        elif chosen.view is not TopView.NODES:
            self.choose(chosen._replace(view=TopView.NODES))

    def on_data_table_row_selected(self, message: RowTable.RowSelected) -> None:
        """Show a node as `trimtab explain` does, a group's nodes, or the whole text of another row."""
        if self.picture is None or not 0 <= message.cursor_row < len(self._lines):
            return
        table, line = self.table, self._lines[message.cursor_row]
        name = name_of(table, line)
        if self.selection.view is TopView.GROUPS:
            self.choose(self.selection._replace(view=TopView.NODES, group=name, filter=""))
            return
        explained = self.picture.explain(name) if "node" in table.columns else []
        self.push_screen(DetailsScreen([*details(table, line), *explained]))

    def action_prompt(self, kind: str) -> None:
        """Ask for a filter or a view."""
        self._prompt_kind = kind
        prompt = self.query_one("#prompt", Input)
        prompt.value = self.selection.filter if kind == "/" else ""
        prompt.placeholder = "filter" if kind == "/" else f"{' '.join(_VIEWS)} q"
        prompt.display = True
        prompt.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while the user types."""
        if self._prompt_kind == "/" and event.input.display:
            self.choose(self.selection._replace(filter=event.value))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Take the text."""
        self._close_prompt()
        if self._prompt_kind == ":":
            self._command(event.value.strip().lower())

    def _close_prompt(self) -> None:
        self.query_one("#prompt", Input).display = False
        self.query_one(RowTable).focus()

    def _command(self, text: str) -> None:
        """Go to a view by its name or the beginning of it; leave by `q`."""
        if text in ("q", "quit", "exit"):
            self.exit()
            return
        view = next((one for one in _VIEWS if text and one.startswith(text)), None)
        if view is None:
            self.say(f":{text} is no view; there are {', '.join(_VIEWS)}")
        else:
            self.trouble = ""
            self.choose(self.selection._replace(view=view, filter=""))

    def key_escape(self) -> None:
        """Leave the prompt."""
        if self.query_one("#prompt", Input).display:
            self._close_prompt()
