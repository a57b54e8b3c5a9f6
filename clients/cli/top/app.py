"""`trimtab top` in the terminal: head, table, details, keys as in k9s. Decides what a key does; pictures come from a
feed in a thread of its own, and drawing takes no longer for more rows.
"""

import time
from collections.abc import Callable
from threading import Thread
from typing import ClassVar, Final

from rich.markup import escape
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from trimtab.clients.cli.amounts import duration
from trimtab.clients.cli.blocks import plain_text
from trimtab.clients.cli.screen.model import GroupLine, NodeLine, RemovalLine
from trimtab.clients.cli.top.feed import Feed, Picture
from trimtab.clients.cli.top.layout import Fragment, Line, cut, group_keys, head_lines, title_line
from trimtab.clients.cli.top.row_list import RowList
from trimtab.clients.cli.top.rows import (
    HELP,
    HELP_OF_ROUNDS,
    SORT_KEYS,
    Row,
    Selection,
    SortKey,
    TopView,
    largest_groups,
    row_details,
    rows_of,
)
from trimtab.common.documents.output import visible

_VIEWS: Final = tuple(TopView)
LOW: Final = 12
"""Below so many lines of the terminal the head is one line."""


class DetailsScreen(ModalScreen[None]):
    """A text over the whole screen: details of a row, or help."""

    CSS = "DetailsScreen { align: center middle; } VerticalScroll { background: $surface; padding: 0 1; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter,question_mark", "close", "back"),
        Binding("j,down", "down", "down", show=False),
        Binding("k,up", "up", "up", show=False),
    ]

    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self.lines = lines

    def compose(self) -> ComposeResult:
        """Lay out the text."""
        with VerticalScroll():
            lines = (Text.from_markup(visible(line), emoji=False) for line in self.lines)
            yield Static(Text("\n").join(lines), markup=False)

    def action_close(self) -> None:
        """Go back."""
        self.dismiss()

    def action_down(self) -> None:
        """Scroll down."""
        self.query_one(VerticalScroll).scroll_down(animate=False)

    def action_up(self) -> None:
        """Scroll up."""
        self.query_one(VerticalScroll).scroll_up(animate=False)


class TopApp(App[None]):
    """The live screen."""

    CSS = """
    Screen { layout: vertical; }
    Static { height: auto; width: 1fr; }
    #foot { dock: bottom; height: 1; }
    #prompt { dock: bottom; height: 1; border: none; padding: 0; display: none; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,ctrl+c", "quit", "quit"),
        Binding("question_mark", "help", "help"),
        Binding("slash", "prompt('/')", "filter"),
        Binding("colon", "prompt(':')", "view"),
        Binding("enter", "open", "details"),
        Binding("escape", "step_back", "back"),
        Binding("space", "pause", "pause"),
        Binding("j,down", "move(1)", show=False),
        Binding("k,up", "move(-1)", show=False),
        Binding("ctrl+f,pagedown", "page(1)", show=False),
        Binding("ctrl+b,pageup", "page(-1)", show=False),
        Binding("g", "end(0)", show=False),
        Binding("G", "end(1)", show=False),
        Binding("home", "home_or_first", show=False),
        Binding("end", "end_or_last", show=False),
        Binding("tab", "next_view(1)", show=False),
        Binding("shift+tab", "next_view(-1)", show=False),
        Binding("left,left_square_bracket", "step(-1)", show=False),
        Binding("right,right_square_bracket", "step(1)", show=False),
        *(Binding(one.key, f"sort('{one.key}')", show=False) for one in SORT_KEYS),
        *(Binding(str(number), f"group({number})", show=False) for number in range(10)),
    ]

    class Shown(Message):
        """A picture has come."""

        def __init__(self, picture: Picture) -> None:
            self.picture = picture
            super().__init__()

    class Said(Message):
        """There is no newer picture, and why."""

        def __init__(self, text: str) -> None:
            self.text = text
            super().__init__()

    class Failed(Message):
        """The feed has ended with an error."""

        def __init__(self, error: BaseException) -> None:
            self.error = error
            super().__init__()

    def __init__(self, feed: Feed, clock: Callable[[], float] = time.time) -> None:
        """`clock` returns Unix seconds, for ages."""
        super().__init__()
        self._feed, self._clock = feed, clock
        self.picture: Picture | None = None
        self.selection = Selection()
        self.trouble = ""
        self.failure: BaseException | None = None
        self._prompt_kind = "/"

    def compose(self) -> ComposeResult:
        """Lay out the screen."""
        yield Static(id="head", markup=False)
        yield Static(id="titles", markup=False)
        yield RowList()
        yield Static(id="foot", markup=False)
        yield Input(id="prompt")

    def on_mount(self) -> None:
        """Begin to follow the feed."""
        self.query_one(RowList).focus()
        self._draw_head()
        self.set_interval(1.0, self._draw_head)
        Thread(target=self._follow, name="feed", daemon=True).start()

    def _follow(self) -> None:
        try:
            self._feed.run(self)
        except Exception as error:
            self.post_message(self.Failed(error))

    def on_unmount(self) -> None:
        """End the feed."""
        self._feed.stop()

    def show(self, picture: Picture) -> None:
        """Take a picture of the feed, from its thread."""
        # Here and not in the thread that draws.
        _ = picture.screen
        self.post_message(self.Shown(picture))

    def say(self, text: str) -> None:
        """Take what the feed says, from its thread."""
        self.post_message(self.Said(text))

    def on_top_app_shown(self, message: Shown) -> None:
        """Draw a picture."""
        self.picture, self.trouble = message.picture, ""
        self._draw()

    def on_top_app_said(self, message: Said) -> None:
        """Tell why there is no newer picture."""
        self.trouble = message.text
        self._draw_head()

    def on_top_app_failed(self, message: Failed) -> None:
        """End with the error, unless there is something to look at."""
        self.failure, self.trouble = message.error, f"{message.error}"
        if self.picture is None:
            self.exit()
        self._draw_head()

    def on_resize(self) -> None:
        """Draw for the new size."""
        self._draw_head()

    def choose(self, selection: Selection) -> None:
        """Show other rows."""
        self.selection = selection
        self._draw()

    def _draw(self) -> None:
        if self.picture is not None:
            self.query_one(RowList).put(rows_of(self.picture.screen, self.selection), self.selection)
        self._draw_head()

    def _draw_head(self) -> None:
        """Draw everything but the rows."""
        width, height = self.size
        head: list[Line] = []
        if self.picture is not None:
            screen = self.picture.screen
            head = [*head_lines(screen, width, self._remarks()), group_keys(screen, self.selection, width)]
        self.query_one("#head", Static).update(_text(head[: 4 if height >= LOW else 1]))
        titles = [title_line(self.selection, width - 1)] if self.picture is not None else []
        self.query_one("#titles", Static).update(_text(titles))
        self.query_one("#foot", Static).update(_text([self._foot(width)]))

    def _remarks(self) -> list[str]:
        """Return position, age and pause."""
        assert self.picture is not None
        age_s = self._clock() - self.picture.screen.time_s
        age = f"{duration(age_s)} ago" if self._feed.is_live and age_s >= 1 else ""
        return [self.picture.position, age, "paused" if self._feed.is_paused else ""]

    def _foot(self, width: int) -> Line:
        if self.trouble:
            return cut([Fragment(self.trouble.replace("\n", " "), "bold white on red")], width)
        if self.picture is None:
            return cut([Fragment("waiting for the first plan …", "yellow")], width)
        table = self.query_one(RowList)
        chosen = self.selection
        at = f"{table.cursor + 1 if table.count else 0:,}/{table.count:,} {chosen.view}"
        kept = f"  /{chosen.filter}" if chosen.filter else ""
        keys = "[ ] rounds  space play" if self._feed.has_rounds else "space pause"
        hints = f"  ? help  / filter  : view  enter details  {keys}  q quit"
        return cut([Fragment(at, "bold"), Fragment(kept, "yellow"), Fragment(hints, "dim")], width)

    def action_move(self, by: int) -> None:
        """Move the cursor."""
        table = self.query_one(RowList)
        table.move(table.cursor + by)
        self._draw_head()

    def action_page(self, by: int) -> None:
        """Move the cursor by a page."""
        self.action_move(by * max(1, self.query_one(RowList).size.height - 1))

    def action_end(self, last: int) -> None:
        """Move the cursor to the first or the last row."""
        table = self.query_one(RowList)
        table.move(table.count - 1 if last else 0)
        self._draw_head()

    def action_home_or_first(self) -> None:
        """Go to the first round of a recording, or to the first row."""
        if self._feed.has_rounds:
            self._feed.step(lambda _index, _count: 0)
        else:
            self.action_end(0)

    def action_end_or_last(self) -> None:
        """Go to the last round of a recording, or to the last row."""
        if self._feed.has_rounds:
            self._feed.step(lambda _index, count: count - 1)
        else:
            self.action_end(1)

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
        found: SortKey = next(one for one in SORT_KEYS if one.key == key)
        is_same = self.selection.sort.key == key
        self.choose(self.selection._replace(sort=found, is_reversed=is_same and not self.selection.is_reversed))

    def action_group(self, number: int) -> None:
        """Show the nodes of one group alone, or of all."""
        if self.picture is None:
            return
        groups = largest_groups(self.picture.screen)
        if number <= len(groups):
            self.choose(self.selection._replace(group=groups[number - 1] if number else None))

    def action_next_view(self, by: int) -> None:
        """Show the next table."""
        at = (_VIEWS.index(self.selection.view) + by) % len(_VIEWS)
        self.choose(self.selection._replace(view=_VIEWS[at], filter=""))

    def action_help(self) -> None:
        """Show the keys."""
        self.push_screen(DetailsScreen([*HELP, *(HELP_OF_ROUNDS if self._feed.has_rounds else [])]))

    def action_step_back(self) -> None:
        """Leave the prompt, or take back filter, group and view, one at a time."""
        chosen = self.selection
        if chosen.filter:
            self.choose(chosen._replace(filter=""))
        elif chosen.group is not None:
            self.choose(chosen._replace(group=None))
        elif chosen.view is not TopView.NODES:
            self.choose(chosen._replace(view=TopView.NODES))

    def action_open(self) -> None:
        """Show the details of the row under the cursor."""
        row = self.query_one(RowList).row
        if row is not None:
            self._open(row)

    def on_row_list_chosen(self, message: RowList.Chosen) -> None:
        """Show the details of a row."""
        self._open(message.row)

    def _open(self, row: Row) -> None:
        """Show a node as `trimtab explain` does, a group's nodes, or the whole text of another row."""
        assert self.picture is not None
        if isinstance(row, GroupLine):
            self.choose(self.selection._replace(view=TopView.NODES, group=row.id))
            return
        node = row.name if isinstance(row, NodeLine) else row.node if isinstance(row, RemovalLine) else ""
        explained = [escape(plain_text(one)) for one in self.picture.explain(node)] if node else []
        self.push_screen(DetailsScreen([*row_details(row), *explained]))

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
        self.query_one(RowList).focus()

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


def _text(lines: list[Line]) -> Text:
    """Return lines as rich text."""
    return Text("\n").join(Text.assemble(*((one.text, one.style) for one in line)) for line in lines)
