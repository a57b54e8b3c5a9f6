"""Charts of simulations and recordings: nodes by group and zone, pending pods, utilization, slack, cost; several of
them overlaid.

Decides axes and traces. Times are UTC.

Also how gangs became whole, which machines were reclaimed, and how nodes went: nodes are lines of a time line in the
order of their taints, only the latest ones if there are very many, and each line starts with its taint, as a drain
takes seconds and a simulation days.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, NamedTuple

from trimtab.clients.cli.amounts import counted, duration
from trimtab.clients.cli.blocks import COLORS, Chart, Line, Table
from trimtab.clients.cli.plot_figure import CHOSEN, HOVER, OTHERS, PlotFigure, finished
from trimtab.clients.simulation.measurements import AMOUNTS
from trimtab.clients.simulation.recommendation import FIGURES

Json = dict[str, Any]
_MARK = {
    "scale-up": ("triangle-up", "#2a7f3f"),
    "scale-down": ("triangle-down", "#b3261e"),
    "replacement": ("diamond", "#5b3fb0"),
    "refused": ("x", "#57606a"),
    "no room": ("diamond", "#7a6a00"),
}

Values = Callable[[Json], Sequence[float]]
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
    found = [_nodes(results[0]) if len(results) == 1 else _lines("Nodes", "nodes", results, axis, totals)]
    found.append(_lines("Pending pods", "pods", results, axis, lambda one: one["samples"]["pending"]))
    for name in AMOUNTS:
        found.append(_lines(f"Share of {name} that is requested", "%", results, axis, partial(_shares, name)))
    for title, unit, there, wanted in _SLACK:
        if any(any(one["samples"].get(name, ())) for one in results for name in (there[0], wanted[0])):
            found.append(_lines(title, unit, results, axis, _series(*there), _series(*wanted)))
    if any(any(one["samples"]["pricePerHour"]) for one in results):
        found.append(_lines("Cost of an hour", "", results, axis, lambda one: one["samples"]["pricePerHour"]))
    return found


def _series(name: str, divisor: int) -> Values:
    """Return a function that returns a series of samples in its unit; an empty one if they do not have it."""
    return lambda result: [one / divisor for one in result["samples"].get(name, ())]


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
        line = {"width": 0.5, "color": color, "shape": "hv"}
        figure.add_scatter(x=times, y=counts, name=name, stackgroup="nodes", mode="lines", line=line)
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
                hovertemplate=HOVER,
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
    figure.add_line("curve", [x for x, _ in curve], [y for _, y in curve], color=COLORS[0])
    chosen = recommended["recommended"]
    figure.add_marks("settings", ((*at, one) for one, at in points.items() if one != chosen), **OTHERS)
    figure.add_marks("recommended", ((*at, one) for one, at in points.items() if one == chosen), **CHOSEN)
    weighed = recommended["weighedBy"].replace("_", " ")
    x_title = f"{weighed}, {by.unit}" if by.unit else weighed
    shown = finished(figure, recommended["cost"].replace("_", " ").replace("money", "cost"), x_title)
    points_text = "; ".join(f"{name}: {points[name][1]:g} at {points[name][0]:g}" for name in recommended["curve"])
    return Chart(f"Trade-off of cost and {weighed}", f"On the curve are {points_text}.", shown)


def _height(heights: Sequence[int], times: Sequence[str], moment: str) -> int:
    """Return the number of nodes at the last sample before a time. O(log samples)."""
    after = bisect_right(times, moment)
    return heights[after - 1] if after else 0


def _lines(
    title: str, unit: str, results: Sequence[Json], axis: TimeAxis, values: Values, wanted: Values | None = None
) -> Chart:
    """Return a line for each simulation, and a dotted one of what was wanted, where that is known."""
    figure = PlotFigure()
    for number, result in enumerate(results):
        name, times, color = result["settings"]["name"], axis.of(result), COLORS[number % len(COLORS)]
        figure.add_line(name, times, values(result), color=color, shape="hv")
        asked = wanted(result) if wanted is not None else []
        if asked:
            figure.add_line(f"{name}, wanted", times, asked, color=color, shape="hv", dash="dot")
    return Chart(title, _described(results, unit, values), finished(figure, unit, axis.title))


def _described(results: Sequence[Json], unit: str, values: Values) -> str:
    """Return the smallest and the largest value of each simulation."""
    parts = []
    for result in results:
        found = values(result) or [0]
        parts.append(f"{result['settings']['name']}: between {min(found):g} and {max(found):g} {unit}".rstrip())
    return "; ".join(parts) + "."


def _shares(resource: str, result: Json) -> list[float]:
    samples = result["samples"]
    pairs = zip(
        samples[f"{resource}Requested{AMOUNTS[resource]}"],
        samples[f"{resource}Allocatable{AMOUNTS[resource]}"],
        strict=True,
    )
    return [round(100 * used / whole, 1) if whole else 0.0 for used, whole in pairs]


MOST_GANGS: Final = 25


def gang_charts(results: Sequence[Json]) -> list[Chart]:
    """Return when each gang became whole, and how long it had waited; none if there were no gangs in any result."""
    if not any(result.get("gangs") for result in results):
        return []
    figure, parts = PlotFigure(), []
    for number, result in enumerate(results):
        name, gangs, summary = result["settings"]["name"], result.get("gangs") or [], result["summary"]
        marks = ((shown_time(gang["whole"]), round(gang["whole"] - gang["since"], 3), gang["gang"]) for gang in gangs)
        figure.add_marks(name, marks, color=COLORS[number % len(COLORS)])
        times = summary["timeToFullGangS"]
        whole = counted(summary["gangsWhole"], "gang")
        parts.append(
            f"{name}: {whole} whole, half of all within {duration(times['p50'])}, the longest "
            f"{duration(times['max'])}; {summary['gangsNotWholeAtEnd']} not whole at the end"
        )
    return [Chart("Time to full gang", "; ".join(parts) + ".", finished(figure, "seconds"))]


def gang_tables(name: str, result: Json) -> list[Table]:
    """Return the gangs that waited longest until they were whole."""
    gangs = sorted(result.get("gangs") or [], key=lambda one: (one["since"] - one["whole"], one["gang"]))[:MOST_GANGS]
    lines = [
        Line((one["gang"], shown_time(one["since"]), shown_time(one["whole"]), duration(one["whole"] - one["since"])))
        for one in gangs
    ]
    columns = ("gang", "first pod created", "whole", "waited")
    return [Table(f"Gangs that became whole, the slowest first: {name}", columns, tuple(lines))] if lines else []


MOST_RECLAIMS: Final = 25


def reclaim_charts(results: Sequence[Json]) -> list[Chart]:
    """Return the reclaimed machines over time, a line for each simulation; none if there were none in any."""
    if not any(result.get("reclaims") for result in results):
        return []
    figure, parts = PlotFigure(), []
    for number, result in enumerate(results):
        name, summary = result["settings"]["name"], result["summary"]
        begin_s, length_s = result["scenario"]["begin"], result["scenario"]["durationS"]
        ends = sorted(one["end"] for one in result.get("reclaims") or () if "end" in one)
        times = [shown_time(moment) for moment in (begin_s, *ends, begin_s + length_s)]
        counts = [*range(len(ends) + 1), len(ends)]
        figure.add_line(name, times, counts, color=COLORS[number % len(COLORS)], shape="hv")
        machines = f"{summary['reclaims']} machines with {summary['podsReclaimed']} pods"
        parts.append(f"{name}: {machines}, whose successors waited {duration(summary['reclaimPendingS'])} in all")
    return [Chart("Machines reclaimed", "; ".join(parts) + ".", finished(figure, "machines"))]


def reclaim_tables(name: str, result: Json) -> list[Table]:
    """Return the reclaimed machines that hit most pods."""
    reclaims = result.get("reclaims") or []
    first = sorted(reclaims, key=lambda one: (-one.get("pods", 0), one["notice"], one["node"]))[:MOST_RECLAIMS]
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


MOST_LINES: Final = 120
MOST_DRAINS: Final = 15
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
            found.append(_drain_chart(title, drains, result))
    return found


def drain_tables(name: str, result: Json) -> list[Table]:
    """Return the drains that took longest."""
    drains = result.get("drains") or []
    longest = sorted(drains, key=lambda one: (-_length_s(one, result), one["node"]))[:MOST_DRAINS]
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


def _drain_chart(title: str, drains: Sequence[Json], result: Json) -> Chart:
    figure = PlotFigure()
    for number, (name, color) in enumerate(_PHASES):
        x: list[float | None] = []
        y: list[int | None] = []
        text: list[str] = []
        for line, drain in enumerate(drains):
            begin_s, end_s = _moments(drain, result)[number : number + 2]
            if end_s > begin_s:
                x += [begin_s - drain["tainted"], end_s - drain["tainted"], None]
                y += [line, line, None]
                hover = f"{drain['node']}, {shown_time(drain['tainted'])}: {name}, {duration(end_s - begin_s)}"
                text += [hover] * 3
        style = {"color": color, "width": 6}
        figure.add_scatter(x=x, y=y, text=text, name=name, mode="lines", line=style, hovertemplate=HOVER)
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
