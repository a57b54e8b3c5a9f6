"""Gangs that became whole in a simulation: a chart of when, and how long each had waited, and a table of the slowest.

Decides that both are there only if there were gangs. Gangs that are not whole at the end are in the figures only.
"""

from collections.abc import Sequence
from typing import Any, Final

from trimtab.clients.cli.amounts import counted, duration
from trimtab.clients.cli.blocks import COLORS, Chart, Line, Table
from trimtab.clients.cli.plot_figure import PlotFigure, finished
from trimtab.clients.cli.report.charts import shown_time

Json = dict[str, Any]
MOST_ROWS: Final = 25


def gang_charts(results: Sequence[Json]) -> list[Chart]:
    """Return when each gang became whole, and how long it had waited; none if there were no gangs in any result."""
    if not any(result.get("gangs") for result in results):
        return []
    figure, parts = PlotFigure(), []
    for number, result in enumerate(results):
        name, gangs, summary = result["settings"]["name"], result.get("gangs") or [], result["summary"]
        figure.add_scatter(
            x=[shown_time(one["whole"]) for one in gangs],
            y=[round(one["whole"] - one["since"], 3) for one in gangs],
            text=[one["gang"] for one in gangs],
            name=name,
            mode="markers",
            marker={"color": COLORS[number % len(COLORS)]},
        )
        times = summary["timeToFullGangS"]
        whole = counted(summary["gangsWhole"], "gang")
        parts.append(
            f"{name}: {whole} whole, half of all within {duration(times['p50'])}, the longest "
            f"{duration(times['max'])}; {summary['gangsNotWholeAtEnd']} not whole at the end"
        )
    return [Chart("Time to full gang", "; ".join(parts) + ".", finished(figure, "seconds"))]


def gang_tables(name: str, result: Json) -> list[Table]:
    """Return the gangs that waited longest until they were whole."""
    gangs = sorted(result.get("gangs") or [], key=lambda one: (one["since"] - one["whole"], one["gang"]))[:MOST_ROWS]
    lines = [
        Line((one["gang"], shown_time(one["since"]), shown_time(one["whole"]), duration(one["whole"] - one["since"])))
        for one in gangs
    ]
    columns = ("gang", "first pod created", "whole", "waited")
    return [Table(f"Gangs that became whole, the slowest first: {name}", columns, tuple(lines))] if lines else []
