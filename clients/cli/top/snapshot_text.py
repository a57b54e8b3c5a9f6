"""The whole screen once, as plain text: for pipes, scripts and `--once`."""

import textwrap
from collections.abc import Iterator

from trimtab.clients.cli.screen.model import ClusterScreen
from trimtab.clients.cli.top.layout import head_lines, row_line, text_of, title_line
from trimtab.clients.cli.top.rows import Selection, TopView, rows_of
from trimtab.common.documents.output import visible

_TITLES = {
    TopView.NODES: "Nodes",
    TopView.GROUPS: "Node groups",
    TopView.PENDING: "Pending pods",
    TopView.DELETIONS: "Deletions",
    TopView.GROWTH: "Scale-up",
}
_ORDER = (TopView.GROUPS, TopView.NODES, TopView.PENDING, TopView.DELETIONS, TopView.GROWTH)


def plain_lines(screen: ClusterScreen, width: int, remarks: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the screen line by line; tables without rows are left out."""
    for line in head_lines(screen, width, remarks):
        yield text_of(line)
    for text in screen.sentences:
        yield from textwrap.wrap(visible(text), width)
    for view in _ORDER:
        chosen = Selection(view)
        rows = rows_of(screen, chosen)
        if rows:
            yield ""
            yield _TITLES[view]
            yield text_of(title_line(chosen, width))
            yield from (text_of(row_line(row, chosen, width)) for row in rows)
