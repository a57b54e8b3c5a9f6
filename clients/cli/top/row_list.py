"""A list of rows in the terminal that draws only the lines in sight: as quick for 5,000 rows as for 50. Knows rows and
layout; never where they come from.
"""

from collections.abc import Sequence

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from trimtab.clients.cli.top.layout import Line, row_line
from trimtab.clients.cli.top.rows import Row, Selection, identity_of


class RowList(ScrollView, can_focus=True, inherit_bindings=False):
    """Rows with a cursor, which stays on its row when the rows change. Keys are the business of the app."""

    DEFAULT_CSS = "RowList { overflow-x: hidden; scrollbar-size-vertical: 1; scrollbar-gutter: stable; height: 1fr; }"

    class Chosen(Message):
        """Enter or a click on a row."""

        def __init__(self, row: Row) -> None:
            self.row = row
            super().__init__()

    def __init__(self) -> None:
        super().__init__()
        self._rows: Sequence[Row] = ()
        self._chosen = Selection()
        self.cursor = 0

    @property
    def row(self) -> Row | None:
        """The row under the cursor."""
        return self._rows[self.cursor] if self.cursor < len(self._rows) else None

    @property
    def count(self) -> int:
        """Number of rows."""
        return len(self._rows)

    def put(self, rows: Sequence[Row], chosen: Selection) -> None:
        """Show other rows; the cursor stays on its row, if that is still there and was not sorted anew. O(rows)."""
        is_same = chosen._replace(filter="") == self._chosen._replace(filter="")
        before = identity_of(self.row) if is_same else ()
        same = (i for i, row in enumerate(rows) if identity_of(row) == before) if before else iter(())
        self._rows, self._chosen = rows, chosen
        self.cursor = max(0, min(next(same, self.cursor if before else 0), len(rows) - 1))
        self.virtual_size = Size(self.size.width, len(rows))
        self._follow()
        self.refresh()

    def move(self, to: int) -> None:
        """Move the cursor, at most to the ends; draws two lines."""
        before, self.cursor = self.cursor, max(0, min(to, len(self._rows) - 1))
        for at in {before, self.cursor}:
            self.refresh_line(at - self.scroll_offset.y)
        self._follow()

    def _follow(self) -> None:
        """Scroll as far as the cursor needs."""
        self.scroll_to_region(Region(0, self.cursor, 1, 1), animate=False, force=True)

    def render_line(self, y: int) -> Strip:
        """Draw a line in sight."""
        width, at = self.scrollable_content_region.width, y + self.scroll_offset.y
        if not 0 <= at < len(self._rows):
            return Strip.blank(width, self.rich_style)
        strip = drawn(row_line(self._rows[at], self._chosen, width), width, self.rich_style)
        return strip.apply_style(Style(reverse=True)) if at == self.cursor else strip

    def on_resize(self) -> None:
        """Draw all lines for the new width."""
        self.virtual_size = Size(self.size.width, len(self._rows))
        self.refresh()

    def on_click(self, event: "object") -> None:
        """Move the cursor to a row; a click on the cursor opens it."""
        at = int(getattr(event, "y", 0)) + self.scroll_offset.y
        if not 0 <= at < len(self._rows):
            return
        if at == self.cursor:
            self.post_message(self.Chosen(self._rows[at]))
        self.move(at)


def drawn(line: Line, width: int, style: Style) -> Strip:
    """Return a line as the terminal gets it."""
    segments = [Segment(one.text, style + Style.parse(one.style) if one.style else style) for one in line]
    return Strip(segments).adjust_cell_length(width, style)
