"""A figure of traces and a layout, as JSON that `charts.js` draws as SVG.

Names follow Plotly's JSON for the little that is used of it, so a figure can be taken elsewhere. Decides only that
points of steps that change nothing are left out of long figures: the drawing is the same.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from trimtab.clients.cli.blocks import COLORS
from trimtab.common.documents.output import visible_texts

Json = dict[str, Any]
LONG: Final = 1000
"""Points of a trace up to which all are kept."""
HOVER: Final = "%{text}<extra></extra>"
OTHERS: Final[Json] = {"symbol": "circle", "color": COLORS[1], "size": 9}
CHOSEN: Final[Json] = {"symbol": "star", "color": COLORS[2], "size": 16}
"""Marks of what may be chosen, and of what is."""


class PlotFigure:
    """Traces of points over x and y, and the layout around them."""

    def __init__(self) -> None:
        self.data: list[Json] = []
        self.layout: Json = {}

    def add_scatter(self, **trace: Any) -> None:
        """Add a trace: x, y, name, mode ("lines" or "markers"), line, marker, text, customdata, stackgroup."""
        self.data.append({"type": "scatter", **trace})

    def add_line(self, name: str, x: Sequence[Any], y: Sequence[Any], **line: Any) -> None:
        """Add a line. line : such as its color, and the shape "hv" of steps."""
        self.add_scatter(x=x, y=y, name=name, mode="lines", line=line)

    def add_marks(self, name: str, marks: Iterable[tuple[Any, Any, str]], **marker: Any) -> None:
        """Add marks: x, y and text of each. marker : such as color, symbol and size."""
        found = list(marks)
        x, y, text = ([one[at] for one in found] for at in range(3))
        self.add_scatter(x=x, y=y, text=text, name=name, mode="markers", hovertemplate=HOVER, marker=marker)

    def update_layout(self, **layout: Any) -> None:
        """Set parts of the layout."""
        for key, value in layout.items():
            old = self.layout.get(key)
            self.layout[key] = {**old, **value} if isinstance(old, dict) and isinstance(value, dict) else value

    def to_json(self) -> str:
        """Return the figure as JSON."""
        document = {"data": _without_still_points(self.data), "layout": self.layout}
        return json.dumps(visible_texts(document), separators=(",", ":"), ensure_ascii=False)


def _without_still_points(traces: Sequence[Json]) -> list[Json]:
    """Return traces of which long ones have only the points at which a step begins or ends; stacked ones the points at
    which one of them changes.
    """
    stacked = [trace for trace in traces if trace.get("stackgroup")]
    of_stack = _changes([trace["y"] for trace in stacked]) if stacked else []
    found = []
    for trace in traces:
        is_step = trace.get("line", {}).get("shape") == "hv" and "text" not in trace
        if is_step and len(trace["y"]) > LONG:
            kept = of_stack if trace.get("stackgroup") else _changes([trace["y"]])
            found.append({**trace, "x": [trace["x"][at] for at in kept], "y": [trace["y"][at] for at in kept]})
        else:
            found.append(trace)
    return found


def _changes(columns: Sequence[Sequence[Any]]) -> list[int]:
    """Return the first and the last index, and those at which a column differs from the one before or after."""
    count = len(columns[0])
    rows = list(zip(*columns, strict=True))
    return [at for at in range(count) if at in (0, count - 1) or rows[at] != rows[at - 1] or rows[at] != rows[at + 1]]


def finished(figure: PlotFigure, unit: str, x_title: str = "") -> str:
    """Return a figure's JSON with its axes."""
    figure.update_layout(
        showlegend=len(figure.data) > 1,
        hovermode="closest" if unit.startswith("nodes") or x_title else "x",
        yaxis={"title": {"text": unit}},
        xaxis={"title": {"text": x_title}} if x_title else {"type": "date"},
    )
    return figure.to_json()
