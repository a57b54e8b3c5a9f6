"""The first screen of a cluster's page, and its last table: date, name and settings, three figures, what keeps nodes as
bars of money, and all nodes. Decides only what is shown, never what goes.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Final

from google.protobuf import json_format

from trimtab.clients.cli.amounts import counted, percent
from trimtab.clients.cli.answers.answer import PlanAnswer
from trimtab.clients.cli.answers.blockers import by_reason, offenders, why
from trimtab.clients.cli.answers.savings import Savings, savings_of
from trimtab.clients.cli.report.page import BarLine, Bars, KeyFigure, NodeGrid
from trimtab.clients.cli.report.replacement import replaced_nodes
from trimtab.clients.cli.sentences import why_it_stays
from trimtab.prices import HOURS_A_MONTH

LONGEST_SETTINGS: Final = 160
_BARS_NOTE: Final = "Lifting a reason frees less than its nodes cost: their pods need room elsewhere."


def facts(answer: PlanAnswer, name: str) -> list[str]:
    """Return date, cluster, settings, prices and version."""
    moment = datetime.fromtimestamp(answer.now_ns // 1_000_000_000, UTC).strftime("%Y-%m-%d %H:%M UTC")
    costs, figures = answer.costs, savings_of(answer)
    prices = f"No price is known; {figures.assumption}" if figures.assumption else ""
    prices = (
        prices or costs.sources or (f"Prices in {costs.currency}." if costs.currency else "Prices of the node groups.")
    )
    return [
        moment,
        *([f"Cluster {name}"] if name else []),
        counted(len(answer.view.nodes), "node"),
        _settings(answer),
        *([prices.rstrip(".")] if figures.now or figures.after else []),
        f"Trimtab {version('trimtab')}",
    ]


def _settings(answer: PlanAnswer) -> str:
    """Return the settings that are given, in their JSON form."""
    given = json_format.MessageToDict(answer.settings)
    if not given:
        return "Default settings"
    text = json.dumps(given, ensure_ascii=False, separators=(", ", ": ")).replace('"', "")[1:-1]
    return f"Settings {text if len(text) <= LONGEST_SETTINGS else f'{text[:LONGEST_SETTINGS]} …'}"


def key_figures(figures: Savings) -> list[KeyFigure]:
    """Return the figures: now, after, saved a month; by nodes if there is no money to show."""
    kept = figures.nodes - figures.removed + figures.added
    if not figures.now and not figures.after:
        return [
            KeyFigure("Now", counted(figures.nodes, "node")),
            KeyFigure("After the plan", counted(kept, "node")),
            KeyFigure("Fewer nodes", f"{figures.nodes - kept:,}", is_good=kept < figures.nodes),
        ]
    currency = f" {figures.currency}" if figures.currency else ""
    about = "assumed prices" if figures.assumption else "a month"
    saved = figures.saved_a_month
    share = f"{percent(abs(figures.now - figures.after) / figures.now)} of the cost" if figures.now else ""
    counts = {"removed": figures.removed, "added": figures.added}
    changes = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)
    return [
        KeyFigure("Now", _monthly(figures.now, currency), f"{counted(figures.nodes, 'node')}, {about}"),
        KeyFigure(
            "After the plan",
            _monthly(figures.after, currency),
            f"{counted(kept, 'node')}{f' ({changes})' if changes else ''}",
        ),
        KeyFigure(
            "Saved a month" if saved >= 0 else "More a month",
            f"{abs(saved):,.0f}{currency}",
            ", ".join(filter(None, (share, "assumed prices" if figures.assumption else ""))),
            is_good=saved > 0,
        ),
    ]


def _monthly(per_hour: float, currency: str) -> str:
    return f"{per_hour * HOURS_A_MONTH:,.0f}{currency}"


def blocker_bars(answer: PlanAnswer) -> Bars:
    """Return what keeps nodes, by what they cost; without money to show, by their number."""
    costs = answer.costs
    rows = []
    for nodes in by_reason(answer):
        cost = costs.of(one.node for one in nodes)
        more = tuple(f"{text}: {counted(count, 'node')}" for text, count in offenders(answer, nodes))
        rows.append((cost, len(nodes), why(answer, nodes), more))
    rows.sort(key=lambda row: (-row[0], -row[1], row[2]))
    longest = max((row[0] if costs.is_shown else row[1] for row in rows), default=0) or 1
    lines = tuple(
        BarLine(
            f"{text[:1].upper()}{text[1:]}: {counted(count, 'node')}",
            f"{cost * HOURS_A_MONTH:,.0f}" if costs.is_shown else f"{count:,}",
            (cost if costs.is_shown else count) / longest,
            more,
        )
        for cost, count, text, more in rows
    )
    title = "What keeps nodes, by their price a month" if costs.is_shown else "What keeps nodes"
    return Bars(title, _BARS_NOTE if costs.is_shown else "", lines)


def node_grid(answer: PlanAnswer) -> NodeGrid:
    """Return all nodes with what the plan says of each. O(nodes + pods)."""
    texts: dict[str, int] = {}

    def index(text: str) -> int:
        return texts.setdefault(text, len(texts))

    costs, pods = answer.costs, answer.view.rows_by_node()
    rows = tuple(
        (
            name,
            index(answer.view.nodes[name].node_group),
            round(costs.of([name]), 4) if costs.source(name) else None,
            index(costs.source(name)),
            round(100 * utilization),
            len(pods.get(name, ())),
            index(what),
            detail,
        )
        for name, utilization, what, detail in _verdicts(answer)
    )
    columns: tuple[tuple[str, str], ...] = (
        ("node", "text"),
        ("group", "index"),
        ("an hour", "money"),
        ("price from", "index"),
        ("used", "percent"),
        ("pods", "number"),
        ("plan", "index"),
        ("because of", "text"),
    )
    title = f"All {counted(len(rows), 'node')}"
    return NodeGrid(title, columns, tuple(texts), rows)


def _verdicts(answer: PlanAnswer) -> Iterator[tuple[str, float, str, str]]:
    """Yield each node with its utilization, what the plan says of it, and the pod or the detail that decides."""
    decision = answer.response.scale_down
    of_node: dict[str, tuple[float, str, str]] = {}
    for gone in decision.unneeded:
        count = gone.assumption.pods_to_move_count
        moves = f"{counted(count, 'pod')} to move" if count else "empty"
        what = f"can go in wave {gone.wave}" if gone.wave > 1 else "can go"
        of_node[gone.node] = gone.utilization, what, moves
    for kept in decision.unremovable:
        of_node[kept.node] = kept.utilization, f"stays: {why_it_stays(kept)}", kept.blocking_pod or kept.detail
    for node, told in replaced_nodes(answer.response.replacement).items():
        of_node[node] = of_node[node][0] if node in of_node else 0.0, *told
    nothing: tuple[float, str, str] = (0.0, "", "")
    for name in sorted(answer.view.nodes):
        yield (name, *of_node.get(name, nothing))
