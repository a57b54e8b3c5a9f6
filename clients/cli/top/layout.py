"""The screen as lines of styled text for a width in columns: head, titles of tables, rows. Pure; every text of the
cluster has its control characters made visible. A line is never wider than the width.
"""

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from rich.cells import cell_len, set_cell_size

from trimtab.clients.cli.amounts import counted, duration, percent
from trimtab.clients.cli.answers.answer import money
from trimtab.clients.cli.screen.model import (
    ClusterScreen,
    GroupLine,
    NodeLine,
    NodeState,
    PendingLine,
    RemovalLine,
)
from trimtab.clients.cli.top.rows import UNGROUPED, Row, Selection, TopView, largest_groups, rows_of
from trimtab.common.documents.output import visible

WIDE: Final = 100
"""From this width on, bars are longer and nodes show their group."""
_STYLES: Final = {
    NodeState.MOVING: "magenta",
    NodeState.NOW: "bold green",
    NodeState.LATER: "green",
    NodeState.STAYS: "",
    NodeState.UNKNOWN: "dim",
}


class Fragment(NamedTuple):
    """A part of a line. style : as rich names it, "" = none."""

    text: str
    style: str = ""


Line = list[Fragment]


class TopColumn(NamedTuple):
    """A column. width : cells, 0 = a share of what is left, in proportion to `share`; is_node, is_group : it has
    names of nodes, or of node groups."""

    title: str
    width: int = 0
    share: int = 1
    is_right: bool = False
    is_node: bool = False
    is_group: bool = False


def title_line(chosen: Selection, width: int) -> Line:
    """Return the titles of a table; the one that sorts is marked."""
    mark = "" if chosen.view not in (TopView.NODES, TopView.GROUPS) else chosen.sort.name.upper()
    cells = [
        Fragment(f"{one.title}{'↓' if mark and one.title.startswith(mark[:3]) else ''}", "bold cyan")
        for one in _columns(chosen.view, width)
    ]
    return _joined(cells, _columns(chosen.view, width), width)


def row_line(row: Row, chosen: Selection, width: int) -> Line:
    """Return a row of a table."""
    if isinstance(row, GroupLine) and chosen.view is TopView.NODES:
        return _heading(row, width)
    return _joined(_cells(row, width), _columns(chosen.view, width), width)


def head_lines(screen: ClusterScreen, width: int, remarks: Sequence[str] = ()) -> list[Line]:
    """Return name and time, money, and the state of the cluster. remarks : such as the age of the plan."""
    moment = datetime.fromtimestamp(screen.time_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    first = [Fragment("trimtab top", "bold cyan"), Fragment(f"  {screen.name or 'cluster'}", "bold")]
    first += [Fragment(f"  plan of {moment}", ""), *(Fragment(f"  {text}", "yellow") for text in remarks if text)]
    return [cut(one, width) for one in (first, _money_line(screen), _state_line(screen, width))]


def group_keys(screen: ClusterScreen, chosen: Selection, width: int) -> Line:
    """Return which key shows the nodes of which group alone."""
    parts = [Fragment("0 all", "reverse" if chosen.group is None else "dim")]
    for number, group in enumerate(largest_groups(screen), start=1):
        style = "reverse" if chosen.group == group else "dim"
        parts += [Fragment("  "), Fragment(f"{number} {visible(group) or UNGROUPED}", style)]
    return cut(parts, width)


def _money_line(screen: ClusterScreen) -> Line:
    summary = screen.summary
    line = [Fragment(f"{counted(summary.now.node_count, 'node')} → {summary.after.node_count:,}", "bold")]
    now, later = summary.now.price_per_month, summary.after.price_per_month
    if not now and not later:
        return line
    currency = f" {screen.currency}" if screen.currency else ""
    about = "about " if summary.assumption else ""
    line.append(Fragment(f"   {about}{now:,.0f} → {later:,.0f}{currency} a month", "bold"))
    saved = summary.saved_per_month
    share = f" ({percent(abs(saved) / now)})" if now else ""
    if round(saved):
        line.append(
            Fragment(
                f", {abs(saved):,.0f} {'less' if saved > 0 else 'more'}{share}", "green" if saved > 0 else "yellow"
            )
        )
    if summary.now.unpriced_node_count:
        line.append(Fragment(f"; {counted(summary.now.unpriced_node_count, 'node')} without a price", "dim"))
    if summary.assumption:
        line.append(Fragment("; prices are assumed", "dim"))
    return line


def _state_line(screen: ClusterScreen, width: int) -> Line:
    size = 10 if width >= WIDE else 6
    moving = sum(not one.is_over for one in screen.removals)
    now = sum(one.state is NodeState.NOW for one in screen.nodes)
    parts = [
        Fragment(f"cpu {bar(screen.cpu, size)}"),
        Fragment(f"  mem {bar(screen.memory, size)}"),
        Fragment(f"  {screen.waiting:,} pending", "yellow" if screen.waiting else "dim"),
        Fragment(f"  {now:,} to go now", "bold green" if now else "dim"),
        Fragment(f"  {moving:,} moving", "magenta" if moving else "dim"),
    ]
    if screen.summary.added_node_count:
        parts.append(Fragment(f"  {screen.summary.added_node_count:,} to add", "yellow"))
    return parts


def bar(share: float, size: int) -> str:
    """Return a share as a bar and in per cent: "███░░  58%"."""
    full = min(size, round(min(share, 1.0) * size))
    return f"{'█' * full}{'░' * (size - full)} {min(round(share * 100), 999):3d}%"


def _columns(view: TopView, width: int) -> tuple[TopColumn, ...]:
    """Return the columns of a table."""
    is_wide = width >= WIDE
    used = 15 if is_wide else 10
    amounts = (TopColumn("CPU", used), TopColumn("MEM", used))
    price = TopColumn("PRICE/H", 9, is_right=True)
    if view is TopView.NODES:
        group = (TopColumn("GROUP", share=2, is_group=True),) if is_wide else ()
        return (
            TopColumn("NAME", share=3, is_node=True),
            *group,
            *amounts,
            TopColumn("PODS", 5, is_right=True),
            price,
            TopColumn("STATE", share=4),
        )
    if view is TopView.GROUPS:
        counts = [TopColumn(name, 6, is_right=True) for name in ("NODES", "GO", "ADD")]
        limits = [TopColumn(name, 6, is_right=True) for name in ("MIN", "MAX")] if is_wide else []
        return (TopColumn("NAME", is_group=True), *counts, *limits, *amounts, price)
    if view is TopView.PENDING:
        return (
            TopColumn("PODS", 6, is_right=True),
            TopColumn("OF", share=2),
            TopColumn("WHAT BECOMES OF THEM", share=3),
        )
    if view is TopView.DELETIONS:
        more = (TopColumn("GROUP", share=2, is_group=True),) if is_wide else ()
        return (
            TopColumn("NODE", share=3, is_node=True),
            *more,
            TopColumn("STATE", 12),
            TopColumn("FOR", 12),
            TopColumn("PODS GONE", 10),
            TopColumn("WHY", share=2),
        )
    prices = (TopColumn("PRICE/H", 9, is_right=True),)
    sizes = (TopColumn("NODES", 11), TopColumn("MAX", 6, is_right=True), TopColumn("PODS", 6, is_right=True))
    return (TopColumn("GROUP", share=2, is_group=True), *sizes, *prices, TopColumn("BECAUSE", share=2))


def _cells(row: Row, width: int) -> list[Fragment]:
    """Return the cells of a row."""
    size = 10 if width >= WIDE else 5
    if isinstance(row, NodeLine):
        style = _STYLES[row.state]
        group = [Fragment(row.group or UNGROUPED)] if width >= WIDE else []
        price = Fragment(money(row.price) if row.price is not None else "")
        return [
            Fragment(row.name, style),
            *group,
            *_bars(row, size),
            Fragment(f"{row.pods}"),
            price,
            Fragment(row.verdict, style),
        ]
    if isinstance(row, GroupLine):
        counts = [
            Fragment(f"{row.nodes:,}"),
            Fragment(_number(row.going), "green"),
            Fragment(_number(row.added), "yellow"),
        ]
        limits = [Fragment(_limit(row.least)), Fragment(_limit(row.most))] if width >= WIDE else []
        return [
            Fragment(row.id or UNGROUPED),
            *counts,
            *limits,
            *_bars(row, size),
            Fragment(money(row.price) if row.price else ""),
        ]
    if isinstance(row, PendingLine):
        return [
            Fragment(f"{len(row.pods):,}"),
            Fragment(row.owner),
            Fragment(row.reason, "" if row.is_served else "yellow"),
        ]
    if isinstance(row, RemovalLine):
        return _removal_cells(row, width)
    price = Fragment(money(row.price) if row.price is not None else "")
    sizes = [
        Fragment(f"{row.current:,} → {row.new:,}", "yellow"),
        Fragment(_limit(row.most)),
        Fragment(f"{row.pods:,}"),
    ]
    return [Fragment(row.group), *sizes, price, Fragment(row.reason)]


def _removal_cells(row: RemovalLine, width: int) -> list[Fragment]:
    style = "dim" if row.is_over else "magenta"
    group = [Fragment(row.group or UNGROUPED)] if width >= WIDE else []
    gone = f"{row.pods_gone} of {row.pods_total}" if row.pods_total > 0 else "" if row.is_drain else "empty"
    return [
        Fragment(row.node, style),
        *group,
        Fragment(row.state, style),
        Fragment(duration(row.seconds)),
        Fragment(gone),
        Fragment(row.detail),
    ]


def _bars(row: NodeLine | GroupLine, size: int) -> list[Fragment]:
    return [Fragment(bar(share, size), _used_style(share)) for share in (row.cpu, row.memory)]


def _used_style(share: float) -> str:
    """Return the style of a share: what is poorly packed stands out, and what is asked too much of."""
    return "red" if share > 1.0 else "green" if share >= 0.5 else "yellow"


def _number(count: int) -> str:
    return f"{count:,}" if count else ""


def _limit(count: int) -> str:
    return f"{count:,}" if count >= 0 else ""


def _heading(row: GroupLine, width: int) -> Line:
    """Return the line above the nodes of a group: its sums."""
    parts = [counted(row.nodes, "node")]
    parts += [f"{row.going:,} can go"] if row.going else []
    parts += [f"{row.added:,} to add"] if row.added else []
    parts += [f"{money(row.price)} an hour"] if row.price else []
    size = 10 if width >= WIDE else 5
    bars = [Fragment(f"  cpu {bar(row.cpu, size)}"), Fragment(f"  mem {bar(row.memory, size)}")]
    rest = [Fragment(f"  {', '.join(parts)}", "bold"), *bars]
    left = max(12, width - sum(cell_len(one.text) for one in rest) - 1)
    name = Fragment(f"▌{without_middle(visible(row.id), left) or UNGROUPED}", "bold blue")
    return cut([name, *rest], width)


def _joined(cells: Sequence[Fragment], columns: Sequence[TopColumn], width: int) -> Line:
    """Return cells side by side, each as wide as its column."""
    flexible = sum(one.share for one in columns if not one.width)
    left = width - sum(one.width for one in columns) - (len(columns) - 1)
    line: Line = []
    given = 0
    for number, (cell, column) in enumerate(zip(cells, columns, strict=True)):
        size = column.width
        if not size:
            size = max(0, left * (given + column.share) // flexible - left * given // flexible)
            given += column.share
        text = visible(cell.text).replace("\n", " ")
        if column.is_node:
            text = short_node(text, size)
        elif column.is_group:
            text = without_middle(text, size)
        line.append(Fragment(fitted(text, size, is_right=column.is_right), cell.style))
        if number < len(columns) - 1:
            line.append(Fragment(" "))
    return cut(line, width)


def fitted(text: str, size: int, *, is_right: bool = False) -> str:
    """Return a text with exactly so many cells; what does not fit ends with "…"."""
    wide = cell_len(text)
    if wide > size:
        return f"{set_cell_size(text, size - 1)}…" if size > 0 else ""
    return f"{' ' * (size - wide)}{text}" if is_right else set_cell_size(text, size)


def short_node(name: str, size: int) -> str:
    """Return a name of a node in at most so many cells: without its domain, or without its middle."""
    host = name.split(".", 1)[0]
    if cell_len(name) > size > len(host) and not host.isdigit():
        return f"{host}…"
    return without_middle(name if cell_len(name) <= size else host, size)


def without_middle(name: str, size: int) -> str:
    """Return a name in at most so many cells; its ends stay, since they tell it from others."""
    if cell_len(name) <= size or size < 5:
        return name
    head = (size - 1) // 2
    return f"{name[:head]}…{name[len(name) - (size - 1 - head) :]}"


def cut(line: Iterable[Fragment], width: int) -> Line:
    """Return a line without what is beyond the width."""
    found: Line = []
    left = width
    for one in line:
        text = visible(one.text).replace("\n", " ")
        wide = cell_len(text)
        if wide > left:
            found.append(Fragment(fitted(text, left), one.style))
            return found
        found.append(Fragment(text, one.style))
        left -= wide
    return found


def text_of(line: Iterable[Fragment]) -> str:
    """Return a line as plain text, without trailing blanks."""
    return "".join(one.text for one in line).rstrip()


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
