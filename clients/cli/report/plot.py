"""A figure of traces and a layout, as JSON that `charts.js` draws as SVG.

Decides nothing: names follow Plotly's JSON for the little that is used of it, so a figure can be taken elsewhere.
"""

import json
from typing import Any

Json = dict[str, Any]


class PlotFigure:
    """Traces of points over x and y, and the layout around them."""

    def __init__(self) -> None:
        self.data: list[Json] = []
        self.layout: Json = {}

    def add_scatter(self, **trace: Any) -> None:
        """Add a trace: x, y, name, mode ("lines" or "markers"), line, marker, text, customdata, stackgroup."""
        self.data.append({"type": "scatter", **trace})

    def update_layout(self, **layout: Any) -> None:
        """Set parts of the layout."""
        for key, value in layout.items():
            old = self.layout.get(key)
            self.layout[key] = {**old, **value} if isinstance(old, dict) and isinstance(value, dict) else value

    def to_json(self) -> str:
        """Return the figure as JSON."""
        return json.dumps({"data": self.data, "layout": self.layout}, separators=(",", ":"), ensure_ascii=False)
