"""The first screen of a cluster's page, and its last table: date, name and settings, three figures, what keeps nodes as
bars of money, and all nodes. Decides only what is shown, never what goes.
"""

import json
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Final

from google.protobuf import json_format

from trimtab.clients.cli.amounts import counted, percent
from trimtab.clients.cli.answers.answer import PlanAnswer
from trimtab.clients.cli.answers.blockers import by_reason, offenders, why
from trimtab.clients.cli.report.page import BarLine, Bars, KeyFigure, NodeGrid
from trimtab.clients.verdicts import GOES
from trimtab.prices import HOURS_A_MONTH
from trimtab.v1 import plan_pb2

LONGEST_SETTINGS: Final = 160
_BARS_NOTE: Final = "Lifting a reason frees less than its nodes cost: their pods need room elsewhere."


def facts(answer: PlanAnswer, name: str) -> list[str]:
    """Return date, cluster, settings, prices and version."""
    moment = datetime.fromtimestamp(answer.now_ns // 1_000_000_000, UTC).strftime("%Y-%m-%d %H:%M UTC")
    costs, summary = answer.costs, answer.summary
    prices = f"No price is known; {costs.assumption}" if costs.assumption else ""
    prices = (
        prices or costs.sources or (f"Prices in {costs.currency}." if costs.currency else "Prices of the node groups.")
    )
    return [
        moment,
        *([f"Cluster {name}"] if name else []),
        counted(len(answer.view.nodes), "node"),
        _settings(answer),
        *([prices.rstrip(".")] if summary.now.price_per_hour or summary.after.price_per_hour else []),
        f"Trimtab {version('trimtab')}",
    ]


def _settings(answer: PlanAnswer) -> str:
    """Return the settings that are given, in their JSON form."""
    given = json_format.MessageToDict(answer.settings)
    if not given:
        return "Default settings"
    text = json.dumps(given, ensure_ascii=False, separators=(", ", ": ")).replace('"', "")[1:-1]
    return f"Settings {text if len(text) <= LONGEST_SETTINGS else f'{text[:LONGEST_SETTINGS]} …'}"


def key_figures(summary: plan_pb2.PlanSummary, currency: str) -> list[KeyFigure]:
    """Return the figures: now, after, saved a month; by nodes if there is no money to show."""
    count, kept = summary.now.node_count, summary.after.node_count
    now, after, saved = summary.now.price_per_month, summary.after.price_per_month, summary.saved_per_month
    if not now and not after:
        return [
            KeyFigure("Now", counted(count, "node")),
            KeyFigure("After the plan", counted(kept, "node")),
            KeyFigure("Fewer nodes", f"{count - kept:,}", is_good=kept < count),
        ]
    named = f" {currency}" if currency else ""
    about = "assumed prices" if summary.assumption else "a month"
    share = f"{percent(abs(saved) / now)} of the cost" if now else ""
    counts = {"removed": summary.removed_node_count, "added": summary.added_node_count}
    changes = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)
    return [
        KeyFigure("Now", f"{now:,.0f}{named}", f"{counted(count, 'node')}, {about}"),
        KeyFigure(
            "After the plan",
            f"{after:,.0f}{named}",
            f"{counted(kept, 'node')}{f' ({changes})' if changes else ''}",
        ),
        KeyFigure(
            "Saved a month" if saved >= 0 else "More a month",
            f"{abs(saved):,.0f}{named}",
            ", ".join(filter(None, (share, "assumed prices" if summary.assumption else ""))),
            is_good=saved > 0,
        ),
    ]


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
            one.node,
            index(one.node_group),
            round(one.price_per_hour, 4) if one.HasField("price_per_hour") else None,
            index(costs.source(one.node)),
            round(100 * one.utilization),
            len(pods.get(one.node, ())),
            index(what),
            detail,
        )
        for one in answer.response.nodes
        for what, detail in [_plan_says(answer, one)]
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


def _plan_says(answer: PlanAnswer, verdict: plan_pb2.NodeVerdict) -> tuple[str, str]:
    """Return what the plan says of a node, and the pod or the detail that decides."""
    if verdict.fate in GOES:
        pods = len(answer.moves.get(verdict.node, {}))
        what = f"can go in wave {verdict.wave}" if verdict.wave > 1 else "can go"
        return what, f"{counted(pods, 'pod')} to move" if pods else "empty"
    if verdict.fate == plan_pb2.NodeFate.REPLACED:
        return f"is replaced in wave {verdict.wave}", ", ".join(verdict.replaced_by)
    return f"stays: {verdict.why}" if verdict.reason else "", verdict.blocking_pod or verdict.detail
