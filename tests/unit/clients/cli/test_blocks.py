"""Tables of an answer say the same on every printer: each cell, what is below a row, and how many rows there are."""

import html
import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from tests.builders import kubernetes as k8s
from tests.builders.cli import listed
from tests.builders.replacement import WEB, group, web
from tests.builders.screens import planned
from trimtab.clients.cli.answers import replacement, scale_down, scale_up
from trimtab.clients.cli.answers.answer import PlanAnswer
from trimtab.clients.cli.blocks import Line, Table, on_terminal
from trimtab.clients.cli.plan import CommandOptions
from trimtab.clients.cli.planners import open_planner
from trimtab.clients.cli.report.page import ReportPage, rendered
from trimtab.clients.cluster_view import ClusterView
from trimtab.v1 import plan_pb2

NOW = "2026-03-01T00:00:00Z"


def replaced(folder: Path) -> PlanAnswer:
    """Return a plan that replaces large nodes by small ones, with pods that wait."""
    prices = folder / "prices.csv"
    prices.write_text("group,price\nlarge,1.0\nsmall,0.2\n")
    large = [f"l{number}" for number in range(4)]
    pods = [web(f"p{at}{i}", name, "900m") for at, name in enumerate(large) for i in range(2)]
    waits = k8s.pod("waits", cpu="64")
    objects = [WEB, *group("large", "16", "64Gi", 1.0, large), *group("small", "4", "16Gi", 0.2, []), *pods, waits]
    options = CommandOptions((listed(folder, *objects),), now=NOW, prices=(prices,))
    request = options.request()
    request.decisions.extend([plan_pb2.Decision.SCALE_UP, plan_pb2.Decision.SCALE_DOWN, plan_pb2.Decision.REPLACEMENT])
    snapshot = options.cluster(request)
    with open_planner(None) as planner:
        response = planner.plan(snapshot, request)
    return PlanAnswer(response, ClusterView(snapshot), request.settings, request.now.ToNanoseconds(), verbose=True)


def tables_of(answer: PlanAnswer) -> Iterator[Table]:
    yield scale_up.growth_table(answer)
    yield scale_up.pending_table(answer)
    yield scale_down.unneeded_table(answer)
    yield from replacement.tables(answer)


def texts_of(line: Line) -> list[str]:
    return [one for one in (*line.cells, *line.more, line.detail) if one]


def test_every_figure_of_a_table_is_on_the_terminal_and_on_the_page(tmp_path: Path) -> None:
    found = [*tables_of(planned()), *tables_of(replaced(tmp_path))]
    assert {"What grows", "What stays pending", "What can go", "Waves", "What leaves", "From careful to bold"} <= {
        one.title for one in found if one.lines
    }
    for table in found:
        if not table.lines:
            continue
        console = Console(width=2000, file=io.StringIO(), record=True)
        console.print(on_terminal(table, verbose=True))
        terminal = " ".join(console.export_text().split())
        page = html.unescape(re.sub(r"<[^>]*>", " ", rendered(ReportPage("", "", tables=[table]))))
        for line in table.lines:
            for text in texts_of(line):
                assert " ".join(text.split()) in terminal, (table.title, text)
                assert " ".join(text.split()) in " ".join(page.split()), (table.title, text)


@pytest.mark.parametrize(("most", "shown"), [(0, 3), (2, 2)])
def test_a_terminal_shows_so_many_rows_and_says_how_many_there_are(most: int, shown: int) -> None:
    table = Table("Nodes", ("node", "an hour"), tuple(Line((f"n{i}", "1.00")) for i in range(3)), most=most)
    assert on_terminal(table).row_count == shown
    assert (str(on_terminal(table).title) == "Nodes: 2 of 3 (--verbose shows all)") == (most == 2)
    assert on_terminal(table, verbose=True).row_count == 3


def test_a_page_names_a_row_by_its_heading() -> None:
    table = Table("Why", ("nodes", "because"), (Line(("3", "a budget")),), heading=1)
    assert table.by_heading.columns == ("because", "nodes")
    assert table.by_heading.lines[0].cells == ("a budget", "3")
