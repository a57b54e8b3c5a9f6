"""Machines that the cloud took back in a simulation: how many so far over time, and each with its pods as a table.

Decides that the chart is there only if machines went, and that the table begins with those that hit most pods.
"""

from collections.abc import Sequence
from typing import Any, Final

from trimtab.clients.cli.amounts import duration
from trimtab.clients.cli.blocks import COLORS, Chart, Line, Table
from trimtab.clients.cli.plot_figure import PlotFigure, finished
from trimtab.clients.cli.report.charts import shown_time

Json = dict[str, Any]
MOST_ROWS: Final = 25


def reclaim_charts(results: Sequence[Json]) -> list[Chart]:
    """Return the reclaimed machines over time, a line for each simulation; none if there were none in any."""
    if not any(result.get("reclaims") for result in results):
        return []
    figure = PlotFigure()
    parts = []
    for number, result in enumerate(results):
        begin_s, length_s = result["scenario"]["begin"], result["scenario"]["durationS"]
        ends = sorted(one["end"] for one in result.get("reclaims") or () if "end" in one)
        figure.add_scatter(
            x=[shown_time(moment) for moment in (begin_s, *ends, begin_s + length_s)],
            y=[*range(len(ends) + 1), len(ends)],
            name=result["settings"]["name"],
            mode="lines",
            line={"color": COLORS[number % len(COLORS)], "shape": "hv"},
        )
        summary = result["summary"]
        waited = duration(summary["reclaimPendingS"])
        pods = summary["podsReclaimed"]
        name = result["settings"]["name"]
        parts.append(
            f"{name}: {summary['reclaims']} machines with {pods} pods, whose successors waited {waited} in all"
        )
    return [Chart("Machines reclaimed", "; ".join(parts) + ".", finished(figure, "machines"))]


def reclaim_tables(name: str, result: Json) -> list[Table]:
    """Return the reclaimed machines that hit most pods."""
    reclaims = result.get("reclaims") or []
    first = sorted(reclaims, key=lambda one: (-one.get("pods", 0), one["notice"], one["node"]))[:MOST_ROWS]
    lines = [
        Line(
            (
                one["node"],
                one["group"],
                shown_time(one["notice"]),
                shown_time(one["end"]) if "end" in one else "deleted before, or still there",
                str(one.get("pods", "")),
            )
        )
        for one in first
    ]
    columns = ("node", "node group", "notice", "end", "pods on it")
    return [Table(f"Machines reclaimed, those with most pods first: {name}", columns, tuple(lines))] if lines else []
