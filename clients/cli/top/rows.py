"""Which rows of the screen are shown, and in which order: view, filter, node group, sort key. Draws nothing.

Nodes in their own order stand below their group's line. Equal rows keep the order of the screen.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from rich.markup import escape

from trimtab.clients.cli.amounts import counted, duration
from trimtab.clients.cli.answers.answer import money
from trimtab.clients.cli.screen.model import (
    ClusterScreen,
    GroupLine,
    GrowthLine,
    NodeLine,
    NodeState,
    PendingLine,
    RemovalLine,
)
from trimtab.common.documents.output import visible

Row = NodeLine | GroupLine | PendingLine | RemovalLine | GrowthLine
UNGROUPED: Final = "(no group)"
_STATES: Final = tuple(NodeState)


class TopView(StrEnum):
    """A table of the screen, by the name that `:` takes."""

    NODES = "nodes"
    GROUPS = "groups"
    PENDING = "pending"
    DELETIONS = "deletions"
    GROWTH = "growth"


class SortKey(NamedTuple):
    """A way to sort nodes and groups. key : the letter that chooses it; is_descending : the largest first."""

    key: str
    name: str
    value: Callable[[Any], Any]
    is_descending: bool


def name_of(row: Row) -> str:
    """Return the name of what a row is about: a node, a group, a controller."""
    if isinstance(row, NodeLine):
        return row.name
    if isinstance(row, GroupLine):
        return row.id
    if isinstance(row, PendingLine):
        return row.owner
    return row.node if isinstance(row, RemovalLine) else row.group


SORT_KEYS: Final = (
    SortKey("B", "group", lambda _row: 0, False),
    SortKey("N", "name", name_of, False),
    SortKey("C", "cpu", lambda row: row.cpu, True),
    SortKey("M", "memory", lambda row: row.memory, True),
    SortKey("P", "pods", lambda row: row.pods if isinstance(row, NodeLine) else row.nodes, True),
    SortKey("H", "price", lambda row: row.price or 0.0, True),
    SortKey("S", "state", lambda row: _STATES.index(row.state) if isinstance(row, NodeLine) else -row.going, False),
)
BY_GROUP: Final = SORT_KEYS[0]


class Selection(NamedTuple):
    """What the user has chosen. group : None = all; is_reversed : the other way round than `sort` says."""

    view: TopView = TopView.NODES
    filter: str = ""
    group: str | None = None
    sort: SortKey = BY_GROUP
    is_reversed: bool = False


def rows_of(screen: ClusterScreen, chosen: Selection) -> list[Row]:
    """Return the rows to show, in order. O(rows log rows)."""
    rows = [row for row in _ROWS[chosen.view](screen) if _is_wanted(row, chosen)]
    if chosen.view not in (TopView.NODES, TopView.GROUPS):
        return rows
    if chosen.sort.key != BY_GROUP.key:
        return sorted(rows, key=chosen.sort.value, reverse=chosen.sort.is_descending != chosen.is_reversed)
    if chosen.view is TopView.NODES:
        return _below_groups(screen, rows, is_reversed=chosen.is_reversed)
    return rows[::-1] if chosen.is_reversed else rows


def _below_groups(screen: ClusterScreen, rows: Sequence[Row], *, is_reversed: bool) -> list[Row]:
    """Return nodes with a line for each of their groups above them."""
    members: dict[str, list[Row]] = {}
    for row in rows:
        assert isinstance(row, NodeLine)
        members.setdefault(row.group, []).append(row)
    groups = [group for group in screen.groups if group.id in members]
    found: list[Row] = []
    for group in reversed(groups) if is_reversed else groups:
        found += [group, *members[group.id]]
    return found


def _group(row: Row) -> str | None:
    if isinstance(row, GroupLine):
        return row.id
    return None if isinstance(row, PendingLine) else row.group


def _is_wanted(row: Row, chosen: Selection) -> bool:
    """Return whether a row is of the chosen group and has all words of the filter; `!` before the filter inverts it."""
    group = _group(row)
    if chosen.group is not None and group is not None and group != chosen.group:
        return False
    words = chosen.filter.lower().lstrip("!").split()
    if not words:
        return True
    text = " ".join((name_of(row), group or "", *_MORE[type(row)](row))).lower()
    return all(word in text for word in words) != chosen.filter.startswith("!")


_MORE: Final[Mapping[type, Callable[[Any], tuple[str, ...]]]] = MappingProxyType(
    {
        NodeLine: lambda row: (row.state, row.verdict),
        GroupLine: lambda _row: (),
        PendingLine: lambda row: (row.reason, *row.pods),
        RemovalLine: lambda row: (row.state, row.detail),
        GrowthLine: lambda row: (row.reason,),
    }
)
"""The texts of a row that a filter searches beside its name and group."""
_ROWS: Final[Mapping[TopView, Callable[[ClusterScreen], Sequence[Row]]]] = MappingProxyType(
    {
        TopView.NODES: lambda screen: screen.nodes,
        TopView.GROUPS: lambda screen: screen.groups,
        TopView.PENDING: lambda screen: screen.pending,
        TopView.DELETIONS: lambda screen: screen.removals,
        TopView.GROWTH: lambda screen: screen.growth,
    }
)


def identity_of(row: Row | None) -> tuple[str, ...]:
    """Return what identifies a row, so that the cursor stays on it when the rows change."""
    if row is None:
        return ()
    name = (type(row).__name__, name_of(row))
    return (*name, row.reason) if isinstance(row, PendingLine) else name


def largest_groups(screen: ClusterScreen, most: int = 9) -> list[str]:
    """Return the groups with the most nodes, for the keys 1 to 9."""
    return [one.id for one in sorted(screen.groups, key=lambda one: (-one.nodes, one.id))[:most]]


MOST_PODS: Final = 200
HELP: Final = [
    "[bold]trimtab top[/bold]",
    "",
    "j k ↑ ↓        move          g G            first and last row",
    "PgUp PgDn      page          enter          details: why a node goes or stays",
    "/              filter: words that a row has; ! before them: that it has not",
    ":              view: nodes, groups, pending, deletions, growth; q leaves",
    "tab            next view     esc            back: filter, group, view",
    "1 to 9         nodes of one of the largest groups; 0 all",
    "space          pause         q              quit",
    "",
    "[bold]Sort[/bold], again: the other way round",
    "B by group     N name        C cpu          M memory",
    "P pods         H price       S state",
    "",
    "[bold]Colours[/bold]",
    "[green]green[/green] can go, [bold green]bold[/bold green] goes now, [magenta]magenta[/magenta] is being deleted;"
    " bars: [yellow]below half[/yellow], [green]above[/green], [red]more requested than there is[/red]",
]
HELP_OF_ROUNDS: Final = [
    "",
    "[bold]Recording[/bold]",
    "[ ] ← →        a round back, forth",
    "home end       first and last round",
    "space          play, stop",
]


def row_details(row: Row) -> list[str]:
    """Return what a row has no room for, as lines of rich text, ending with an empty one if there are any."""
    lines = [escape(visible(line)) for line in _lines(row)]
    return [*lines, ""] if lines else []


def _lines(row: Row) -> Iterator[str]:
    if isinstance(row, NodeLine):
        yield row.verdict
    elif isinstance(row, RemovalLine):
        yield f"Node {row.node}: {row.state} for {duration(row.seconds)}."
        if row.pods_total > 0:
            yield f"{row.pods_gone} of {counted(row.pods_total, 'pod')} gone."
        yield row.detail
    elif isinstance(row, PendingLine):
        yield f"{counted(len(row.pods), 'pod')} of {row.owner}: {row.reason}"
        yield ""
        yield from (f"  {pod}" for pod in row.pods[:MOST_PODS])
        if len(row.pods) > MOST_PODS:
            yield f"  and {len(row.pods) - MOST_PODS:,} more"
    elif isinstance(row, GrowthLine):
        most = f" of at most {row.most:,}" if row.most >= 0 else ""
        yield f"Node group {row.group} grows from {row.current:,} to {row.new:,}{most} nodes."
        yield f"It does so for {counted(row.pods, 'pod')}."
        if row.price is not None:
            yield f"That costs {money(row.price)} an hour."
        yield row.reason
    else:
        assert isinstance(row, GroupLine)
