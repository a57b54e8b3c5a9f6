"""Charts of simulations and recordings: nodes by group and zone, pending pods, utilization, slack, cost; several of
them overlaid.

Decides axes and traces. Times are UTC.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

from trimtab.clients.cli.blocks import COLORS, Chart
from trimtab.clients.cli.plot_figure import PlotFigure, finished
from trimtab.clients.simulation.recommendation import FIGURES

Json = dict[str, Any]
_MARK = {
    "scale-up": ("triangle-up", "#2a7f3f"),
    "scale-down": ("triangle-down", "#b3261e"),
    "replacement": ("diamond", "#5b3fb0"),
    "refused": ("x", "#57606a"),
    "no room": ("diamond", "#7a6a00"),
}

Values = Callable[[Json], list[float]]
_SLACK = (
    ("Cpu that slack keeps free", "cores", ("slackCpuMilli", 1000), ("slackCpuWantedMilli", 1000)),
    ("Placeholders of slack", "placeholders", ("placeholdersOnNodes", 1), ("placeholders", 1)),
)
"""Charts of slack: title, unit, series of what there is and of what is wanted with divisors. Simulations do not tell
what was wanted.
"""


class TimeAxis(NamedTuple):
    """The axis of time. of : returns the times of a result's samples; title : "" = dates."""

    of: Callable[[Json], Sequence[str | float]]
    title: str = ""


def charts(results: Sequence[Json], *, from_start: bool = False) -> list[Chart]:
    """Return the charts of one simulation, or of several in comparison: over date and time, or with `from_start` over
    the time since the start of each.
    """
    axis = TimeAxis(_hours, "hours since the start") if from_start else TimeAxis(moments)
    found = [_nodes(results[0]) if len(results) == 1 else _totals(results, axis)]
    found.append(_lines("Pending pods", "pods", results, axis, lambda samples: samples["pending"]))
    for name, key in (("cpu", "cpu"), ("memory", "memory")):
        title = f"Share of {name} that is requested"
        found.append(_lines(title, "%", results, axis, partial(_shares, key)))
    for title, unit, there, wanted in _SLACK:
        if any(any(one["samples"].get(name, ())) for one in results for name in (there[0], wanted[0])):
            found.append(_lines(title, unit, results, axis, _series(*there), _series(*wanted)))
    if any(any(one["samples"]["pricePerHour"]) for one in results):
        found.append(_lines("Cost of an hour", "", results, axis, lambda samples: samples["pricePerHour"]))
    return found


def _series(name: str, divisor: int) -> Values:
    """Return a function that returns a series of samples in its unit; an empty one if they do not have it."""
    return lambda samples: [one / divisor for one in samples.get(name, ())]


def moments(result: Json) -> list[str]:
    """Return the times of the samples."""
    return [shown_time(moment) for moment in result["samples"]["time"]]


def _hours(result: Json) -> list[float]:
    """Return the times of the samples since the start, in hours."""
    begin_s = result["scenario"]["begin"]
    return [round((moment - begin_s) / 3600, 5) for moment in result["samples"]["time"]]


def shown_time(moment_s: float) -> str:
    """Return a time as text that charts can parse, too."""
    return datetime.fromtimestamp(moment_s, UTC).strftime("%Y-%m-%d %H:%M:%S")


def totals(result: Json) -> list[int]:
    """Return the number of nodes at each sample."""
    columns = list(result["samples"]["nodes"].values())
    return [sum(row) for row in zip(*columns, strict=True)] if columns else [0] * len(result["samples"]["time"])


def _nodes(result: Json) -> Chart:
    """Return the nodes of each group and zone, stacked, and the decisions, which open on click."""
    figure, times = PlotFigure(), moments(result)
    for number, (key, counts) in enumerate(result["samples"]["nodes"].items()):
        group, _, zone = key.rpartition("/")
        name = f"{group or 'no node group'}{f', zone {zone}' if zone else ''}"
        color = COLORS[number % len(COLORS)]
        figure.add_scatter(
            x=times,
            y=counts,
            name=name,
            stackgroup="nodes",
            mode="lines",
            line={"width": 0.5, "color": color, "shape": "hv"},
        )
    heights = totals(result)
    for kind, (symbol, color) in _MARK.items():
        marks = [(number, one) for number, one in enumerate(result["decisions"]) if one["kind"] == kind]
        if marks:
            figure.add_scatter(
                x=[shown_time(one["time"]) for _, one in marks],
                y=[_height(heights, times, shown_time(one["time"])) for _, one in marks],
                text=[one["text"] for _, one in marks],
                customdata=[f"decision-0-{number}" for number, _ in marks],
                name=kind,
                mode="markers",
                hovertemplate="%{text}<extra></extra>",
                marker={"symbol": symbol, "color": color, "size": 13, "line": {"width": 1, "color": "#ffffff"}},
            )
    most, least = max(totals(result), default=0), min(totals(result), default=0)
    description = f"Between {least} and {most} nodes. Each mark is a decision, listed below with its reasons."
    return Chart("Nodes by group and zone", description, finished(figure, "nodes"))


def trade_off(results: Sequence[Json], recommended: Json) -> Chart:
    """Return the cost of each simulation over the figure weighed against it, and the curve of those that no other one
    beats.
    """
    cost, by = FIGURES[recommended["cost"]], FIGURES[recommended["weighedBy"]]
    points = {one["settings"]["name"]: (by.of(one["summary"]), cost.of(one["summary"])) for one in results}
    curve = [points[name] for name in recommended["curve"]]
    figure = PlotFigure()
    figure.add_scatter(
        x=[x for x, _ in curve], y=[y for _, y in curve], name="curve", mode="lines", line={"color": COLORS[0]}
    )
    chosen = recommended["recommended"]
    for name, members in (
        ("settings", [one for one in points if one != chosen]),
        ("recommended", [chosen] if chosen else []),
    ):
        symbol, color = ("star", COLORS[2]) if name == "recommended" else ("circle", COLORS[1])
        figure.add_scatter(
            x=[points[one][0] for one in members],
            y=[points[one][1] for one in members],
            text=members,
            name=name,
            mode="markers",
            hovertemplate="%{text}<extra></extra>",
            marker={"symbol": symbol, "color": color, "size": 16 if symbol == "star" else 9},
        )
    weighed = recommended["weighedBy"].replace("_", " ")
    x_title = f"{weighed}, {by.unit}" if by.unit else weighed
    shown = finished(figure, recommended["cost"].replace("_", " ").replace("money", "cost"), x_title)
    points_text = "; ".join(f"{name}: {points[name][1]:g} at {points[name][0]:g}" for name in recommended["curve"])
    return Chart(f"Trade-off of cost and {weighed}", f"On the curve are {points_text}.", shown)


def _height(heights: Sequence[int], times: Sequence[str], moment: str) -> int:
    """Return the number of nodes at the last sample before a time. O(log samples)."""
    after = bisect_right(times, moment)
    return heights[after - 1] if after else 0


def _totals(results: Sequence[Json], axis: TimeAxis) -> Chart:
    figure = PlotFigure()
    for number, result in enumerate(results):
        color = COLORS[number % len(COLORS)]
        line = {"color": color, "shape": "hv"}
        figure.add_scatter(
            x=axis.of(result), y=totals(result), name=result["settings"]["name"], mode="lines", line=line
        )
    return Chart("Nodes", _described(results, "nodes", totals), finished(figure, "nodes", axis.title))


def _lines(
    title: str, unit: str, results: Sequence[Json], axis: TimeAxis, values: Values, wanted: Values | None = None
) -> Chart:
    """Return a line for each simulation, and a dotted one of what was wanted, where that is known."""
    figure = PlotFigure()
    for number, result in enumerate(results):
        line = {"color": COLORS[number % len(COLORS)], "shape": "hv"}
        name = result["settings"]["name"]
        times = axis.of(result)
        figure.add_scatter(x=times, y=values(result["samples"]), name=name, mode="lines", line=line)
        asked = wanted(result["samples"]) if wanted is not None else []
        if asked:
            name, line = f"{name}, wanted", {**line, "dash": "dot"}
            figure.add_scatter(x=times, y=asked, name=name, mode="lines", line=line)
    description = _described(results, unit, lambda result: values(result["samples"]))
    return Chart(title, description, finished(figure, unit, axis.title))


def _described(results: Sequence[Json], unit: str, values: Any) -> str:
    """Return the smallest and the largest value of each simulation."""
    parts = []
    for result in results:
        found = values(result) or [0]
        parts.append(f"{result['settings']['name']}: between {min(found):g} and {max(found):g} {unit}".rstrip())
    return "; ".join(parts) + "."


def _shares(resource: str, samples: Json) -> list[float]:
    pairs = zip(
        samples[f"{resource}Requested{_UNIT[resource]}"],
        samples[f"{resource}Allocatable{_UNIT[resource]}"],
        strict=True,
    )
    return [round(100 * used / whole, 1) if whole else 0.0 for used, whole in pairs]


_UNIT = {"cpu": "Milli", "memory": ""}
