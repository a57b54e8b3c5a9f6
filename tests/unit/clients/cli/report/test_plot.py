"""Figures of long simulations: points that change nothing are left out, and a page stays small."""

import json
from typing import Any

from trimtab.clients.cli.blocks import AnswerPage
from trimtab.clients.cli.plot_figure import LONG, PlotFigure
from trimtab.clients.cli.report.charts import charts
from trimtab.clients.cli.report.page import rendered

COUNT = 5 * LONG
MOST_BYTES = 2_000_000
STEP = {"shape": "hv"}


def traces(figure: PlotFigure) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(figure.to_json())["data"]
    return found


def test_a_long_step_keeps_the_points_at_which_it_changes() -> None:
    figure = PlotFigure()
    figure.add_scatter(x=list(range(COUNT)), y=[0] * 2000 + [1] * (COUNT - 2000), line=STEP, name="a")
    (trace,) = traces(figure)
    assert (trace["x"], trace["y"]) == ([0, 1999, 2000, COUNT - 1], [0, 0, 1, 1])


def test_stacked_traces_keep_the_same_points() -> None:
    figure = PlotFigure()
    for change in (1000, 3000):
        y = [0] * change + [1] * (COUNT - change)
        figure.add_scatter(x=list(range(COUNT)), y=y, line=STEP, stackgroup="nodes")
    assert [trace["x"] for trace in traces(figure)] == [[0, 999, 1000, 2999, 3000, COUNT - 1]] * 2


def test_short_traces_marks_and_slopes_keep_all_points() -> None:
    figure = PlotFigure()
    figure.add_scatter(x=[0, 1, 2], y=[0, 0, 0], line=STEP)
    figure.add_scatter(x=list(range(COUNT)), y=[0] * COUNT, line={"color": "#000"})
    figure.add_scatter(x=list(range(COUNT)), y=[0] * COUNT, mode="markers", marker={})
    assert [len(trace["x"]) for trace in traces(figure)] == [3, COUNT, COUNT]


def test_a_page_of_a_month_of_minutes_is_below_two_megabytes() -> None:
    minutes = 30 * 24 * 60
    hourly = [float(at // 60 % 24) for at in range(minutes)]
    amounts = {
        name: hourly
        for name in (
            *("pending", "pricePerHour", "cpuRequestedMilli", "memoryRequested"),
            *("slackCpuMilli", "placeholdersOnNodes"),
        )
    }
    same = {name: [100.0] * minutes for name in ("cpuAllocatableMilli", "memoryAllocatable")}
    samples = {
        "time": [1_790_000_000 + 60 * at for at in range(minutes)],
        "nodes": {f"group-{number}/zone": hourly for number in range(9)},
        **amounts,
        **same,
    }
    result = {"samples": samples, "settings": {"name": "defaults"}, "decisions": []}
    page = rendered(AnswerPage("month", tuple(charts([result]))))
    assert len(page.encode()) < MOST_BYTES
