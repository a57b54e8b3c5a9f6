"""How nodes were removed in a simulation, from taint to end: a time line, and the longest drains as a table.

Decides that nodes are lines of the time line in the order of their taints, only the latest ones if there are very many,
and that each line starts with its taint: a drain takes seconds, a simulation days.
"""

from collections.abc import Sequence
from typing import Any, Final

from trimtab.clients.cli.amounts import counted, duration
from trimtab.clients.cli.blocks import COLORS, Chart, Line, Table
from trimtab.clients.cli.plot_figure import PlotFigure, finished
from trimtab.clients.cli.report.charts import shown_time

Json = dict[str, Any]
MOST_LINES: Final = 120
MOST_ROWS: Final = 15
_PHASES: Final = (
    ("taint to first eviction", COLORS[5]),
    ("evictions", COLORS[1]),
    ("last eviction to end", COLORS[0]),
)


def drain_charts(results: Sequence[Json]) -> list[Chart]:
    """Return a time line for each simulation in which nodes were removed."""
    found = []
    for result in results:
        drains = (result.get("drains") or [])[-MOST_LINES:]
        if drains:
            title = "How nodes went" if len(results) == 1 else f"How nodes went, {result['settings']['name']}"
            found.append(_chart(title, drains, result))
    return found


def drain_tables(name: str, result: Json) -> list[Table]:
    """Return the drains that took longest."""
    drains = result.get("drains") or []
    longest = sorted(drains, key=lambda one: (-_length_s(one, result), one["node"]))[:MOST_ROWS]
    lines = [
        Line(
            (
                one["node"],
                shown_time(one["tainted"]),
                duration(one["evicted"][0] - one["tainted"]) if one["evicted"] else "",
                str(len(one["evicted"])),
                duration(one["evicted"][-1] - one["evicted"][0]) if one["evicted"] else "",
                _end(one, result),
            )
        )
        for one in longest
    ]
    columns = ("node", "taint", "until the first eviction", "evictions", "they took", "from the taint to the end")
    return [Table(f"Nodes that took longest to go: {name}", columns, tuple(lines))] if lines else []


def _chart(title: str, drains: Sequence[Json], result: Json) -> Chart:
    figure = PlotFigure()
    for number, (name, color) in enumerate(_PHASES):
        x: list[float | None] = []
        y: list[int | None] = []
        text: list[str] = []
        for line, one in enumerate(drains):
            begin_s, end_s = _moments(one, result)[number : number + 2]
            if end_s > begin_s:
                x += [begin_s - one["tainted"], end_s - one["tainted"], None]
                y += [line, line, None]
                hover = f"{one['node']}, {shown_time(one['tainted'])}: {name}, {duration(end_s - begin_s)}"
                text += [hover] * 3
        figure.add_scatter(
            x=x, y=y, text=text, name=name, mode="lines", line={"color": color, "width": 6},
            hovertemplate="%{text}<extra></extra>",
        )  # fmt: skip
    # No ticks between lines.
    figure.update_layout(yaxis={"nticks": min(len(drains), 8)})
    nodes = counted(len(drains), "node")
    caption = f"{nodes} went or were to go, in the order of their taints; the table of the longest ones follows below."
    shown = finished(figure, "nodes, by taint", x_title="seconds since the taint")
    return Chart(title, caption, shown)


def _moments(one: Json, result: Json) -> tuple[float, float, float, float]:
    """Return the times of taint, first and last eviction, and end; an empty node has no evictions."""
    evicted = one["evicted"] or [one["tainted"]]
    return one["tainted"], evicted[0], evicted[-1], _end_s(one, result)


def _end_s(one: Json, result: Json) -> float:
    begin, length = result["scenario"]["begin"], result["scenario"]["durationS"]
    return float(one.get("gone") or one.get("kept") or begin + length)


def _length_s(one: Json, result: Json) -> float:
    return _end_s(one, result) - float(one["tainted"])


def _end(one: Json, result: Json) -> str:
    """Return the total duration, and the outcome if the drain did not end with a removal."""
    what = "" if "gone" in one else ", it stayed" if "kept" in one else ", still on its way"
    return duration(_length_s(one, result)) + what
