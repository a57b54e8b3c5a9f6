"""The page of one plan over a cluster: what grows, what stays pending, what can go, what keeps the rest, and maps
before and after. Shows what `trimtab plan` prints, without pod deletion costs, which change no node.
"""

from collections.abc import Iterator

from trimtab.clients.cli.amounts import counted
from trimtab.clients.cli.answers import capacity_requests, replacement, scale_down, scale_up, slack
from trimtab.clients.cli.answers.answer import PlanAnswer
from trimtab.clients.cli.answers.any_decision import tables, words
from trimtab.clients.cli.answers.blockers import by_reason, offenders, why
from trimtab.clients.cli.answers.costs import money
from trimtab.clients.cli.answers.table import without_renderer
from trimtab.clients.cli.answers.usage import usage_tables
from trimtab.clients.cli.blocks import Line, Table, without_empty_columns
from trimtab.clients.cli.report.advice import advice_section
from trimtab.clients.cli.report.first_screen import blocker_bars, facts, key_figures, node_grid
from trimtab.clients.cli.report.maps import maps, planned
from trimtab.clients.cli.report.page import Map, ReportPage
from trimtab.clients.cli.report.replacement import frontier_chart, replacement_tables
from trimtab.prices import HOURS_A_MONTH

MOST_OFFENDERS = 3
COLUMNS = ("", "nodes", "an hour", "a month")
"""Columns of a table of reasons."""


def cluster_page(answer: PlanAnswer, name: str = "") -> ReportPage:
    """Return the page of an answered plan. name : of the cluster."""
    what = "what the cluster needs, and what it can do without"
    return ReportPage(
        title=f"{name}: {what}" if name else f"{what[0].upper()}{what[1:]}",
        headline=" ".join(_headline(answer)),
        tables=[
            *replacement_tables(answer),
            scale_up.growth_table(answer),
            scale_up.pending_table(answer),
            _stay(answer)._replace(is_folded=True),
            scale_down.unneeded_table(answer)._replace(is_folded=True),
            *usage_tables(answer),
            *_others(answer),
        ],
        maps=_maps(answer),
        facts=facts(answer, name),
        figures=key_figures(answer.summary, answer.costs.currency),
        bars=blocker_bars(answer),
        advice=advice_section(answer),
        frontier=frontier_chart(answer),
        grid=node_grid(answer) if answer.view.nodes else None,
    )


def reason_line(text: str, count: int, cost: float) -> Line:
    """Return a row of a table of reasons; a cost of 0 is unknown."""
    month = f"{cost * HOURS_A_MONTH:,.0f}" if cost else ""
    return Line((text, f"{count:,}", money(cost) if cost else "", month))


def _headline(answer: PlanAnswer) -> Iterator[str]:
    """Yield the sentences that matter most: growth, slack, what can go, which nodes have no price."""
    response, costs = answer.response, answer.costs
    if response.HasField("scale_up") and not scale_up.is_quiet(response.scale_up):
        yield scale_up.headline(answer)
        yield from scale_up.without_new_nodes(response.scale_up)
    requests = response.capacity_requests
    if requests.requests:
        yield f"ProvisioningRequests: {capacity_requests.RESULTS[requests.result]}."
    if response.HasField("slack"):
        yield f"Slack: {slack.RESULTS[response.slack.result]}."
    if response.HasField("scale_down"):
        yield scale_down.headline(answer)
    if response.HasField("replacement"):
        yield replacement.headline(answer)
    if costs.is_shown and costs.unknown_count:
        of_all = f"{costs.unknown_count:,} of {counted(len(answer.view.nodes), 'node')}"
        verb, them = ("has", "it") if costs.unknown_count == 1 else ("have", "them")
        yield f"{of_all} {verb} no price: sums and shares leave {them} out."


def _stay(answer: PlanAnswer) -> Table:
    """Return why nodes stay, the most expensive reason first, with the causes of each; all but the first ones by a
    click.
    """
    alike = sorted(by_reason(answer), key=lambda nodes: -answer.costs.of(one.node for one in nodes))
    lines = []
    for nodes in alike:
        cost = answer.costs.of(one.node for one in nodes)
        lines.append(reason_line(why(answer, nodes), len(nodes), cost))
        found = offenders(answer, nodes)
        for text, count in found[:MOST_OFFENDERS]:
            lines.append(Line((f"  {text}", str(count), "", "")))
        if len(found) > MOST_OFFENDERS:
            more = tuple(f"{text}: {counted(count, 'node')}" for text, count in found[MOST_OFFENDERS:])
            lines.append(Line((f"  and {len(more)} more", "", "", ""), more))
    title = "What keeps nodes, by money" if answer.costs.is_shown else "What keeps nodes"
    return without_empty_columns(Table(title, COLUMNS, tuple(lines), answer.costs.sources))


def _others(answer: PlanAnswer) -> Iterator[Table]:
    """Yield the lists of the decisions that have no words of their own."""
    for field, result in without_renderer(answer.response).items():
        for table in tables(result):
            yield table._replace(title=f"{words(field).capitalize()}: {table.title.lower()}")


def _maps(answer: PlanAnswer) -> list[Map]:
    """Return the cluster now, and after the plan."""
    before, after = planned(answer.view, answer.response)
    grows = answer.response.scale_up.splits or answer.response.replacement.waves
    title = "After the plan" if grows else "Without the nodes that can go"
    return maps([("Now", *before), (title, *after)])
